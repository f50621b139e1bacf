#!/bin/sh
set -e
case $1 in
configure) ;;
abort-remove) # which had stopped both
	[ ! -d /run/systemd/system ] || deb-systemd-invoke start ze.socket ze.service >/dev/null || :
	exit 0
	;;
*) exit 0 ;;
esac

if command -v systemd-tmpfiles >/dev/null; then
	systemd-tmpfiles --create ze.conf || :
fi
# Removed and installed again is a first installation, whatever dpkg remembers.
first=
[ -n "$2" ] && [ ! -e /var/lib/systemd/deb-systemd-helper-masked/ze.service ] || first=yes
for unit in ze.socket ze.service; do
	deb-systemd-helper unmask "$unit" >/dev/null || :
	if deb-systemd-helper --quiet was-enabled "$unit"; then
		deb-systemd-helper enable "$unit" >/dev/null || :
	else # somebody has disabled it
		deb-systemd-helper update-state "$unit" >/dev/null || :
	fi
done
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || :
	if [ "$first" ]; then
		deb-systemd-invoke start ze.socket ze.service >/dev/null || :
	else # the socket stays: it has the requests that come meanwhile
		deb-systemd-invoke try-restart ze.service >/dev/null || :
	fi
fi
