#!/bin/sh
# Before unpacking, for both formats; the argument is a deb's install or upgrade,
# or an rpm's number of versions after this.
set -e

# Nobody's login becomes the daemon's user unseen.
if uid=$(id -u ze 2>/dev/null) && [ "$uid" -ge 1000 ] && [ "$(getent passwd ze | cut -d: -f6)" != /var/lib/ze ]; then
	echo "ze: the user ze (uid $uid) is somebody's login, and the daemon would run as it; rename it (usermod -l), then install again" >&2
	exit 1
fi

# Files of the package belong to the group. The packaged sysusers.d file is not
# there yet, so its line comes from here.
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers --replace=/usr/lib/sysusers.d/ze.conf - <<-'LINE'
		u ze - "ze operations appliance" /var/lib/ze /usr/sbin/nologin
	LINE
elif ! getent passwd ze >/dev/null; then
	getent group ze >/dev/null || groupadd --system ze
	useradd --system --gid ze --home-dir /var/lib/ze --no-create-home \
		--shell /usr/sbin/nologin --comment 'ze operations appliance' ze
fi

# The way back from the new version, made by the old one. An upgrade may be what
# mends the database, so it goes on without.
case "$1" in
upgrade | 2)
	if [ -f /var/lib/ze/ze.db ] && command -v ze >/dev/null; then
		file=/var/lib/ze/ze.db.before-upgrade-from-$(ze --version | cut -d' ' -f2)
		backup() { runuser -u ze -- ze "$@" store backup "$file" force true >/dev/null; }
		# Of the file itself, unless the daemon has it: at its socket a client would
		# start it.
		if backup --data /var/lib/ze 2>/dev/null || backup; then
			echo "ze: the database is kept as $file"
			ls -t /var/lib/ze/ze.db.before-upgrade-from-* | tail -n +4 | xargs -r rm -f # three are enough
		else
			echo "ze: warning: no backup was made before the upgrade" >&2
		fi
	fi
	;;
esac
