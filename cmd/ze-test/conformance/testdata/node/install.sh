#!/bin/sh
# Installs what package-lock.json pins, Node included, into node_modules here,
# unless it is there already. It needs npm (Debian package npm).
set -eu
cd "$(dirname "$0")"
if [ -f node_modules/.installed ] && cmp -s package-lock.json node_modules/.installed; then
	exit 0
fi
npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
cp package-lock.json node_modules/.installed
