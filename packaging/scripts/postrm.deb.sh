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
	for dir in /var/lib/ze /run/ze /etc/ze/credentials; do
		rm -rf "$dir" 2>/dev/null || find "$dir" -mindepth 1 -delete # what a file system is mounted on stays
	done
	;;
esac
