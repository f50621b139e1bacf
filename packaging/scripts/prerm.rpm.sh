#!/bin/sh
# $1: the number of versions after this, 0 at the removal.
if [ "$1" -eq 0 ]; then
	systemctl --no-reload disable --now ze.socket ze.service >/dev/null 2>&1 || :
fi
:
