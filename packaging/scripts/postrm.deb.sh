#!/bin/sh
set -e
case "$1" in
remove)
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload >/dev/null || :
	fi
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper mask ze.socket ze.service >/dev/null || :
	fi
	;;
purge)
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper purge ze.socket ze.service >/dev/null || :
		deb-systemd-helper unmask ze.socket ze.service >/dev/null || :
	fi
	# The user stays: another one with its number would own what it left elsewhere.
	rm -rf /var/lib/ze /run/ze /etc/ze/credentials
	;;
esac
