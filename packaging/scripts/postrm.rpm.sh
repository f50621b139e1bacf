#!/bin/sh
# $1: the number of versions after this. At an upgrade this is the old one's, after
# the new one's files are there.
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null 2>&1 || :
	if [ "$1" -ge 1 ]; then # the socket stays: it has the requests that come meanwhile
		systemctl try-restart ze.service >/dev/null 2>&1 || :
	fi
fi
:
