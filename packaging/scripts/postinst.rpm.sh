#!/bin/sh
# $1: the number of versions after this, 1 at the first installation.
systemd-tmpfiles --create ze.conf >/dev/null 2>&1 || :
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null 2>&1 || :
fi
if [ "$1" -eq 1 ]; then # whether it starts with the system is the distribution's choice
	systemctl --no-reload preset ze.socket ze.service >/dev/null 2>&1 || :
fi
:
