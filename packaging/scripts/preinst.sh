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
# mends the database, so it goes on without, also when nobody answers. All of it
# is done as the daemon's user: names in its directory are the daemon's to choose.
setting() { sed -n "s/^[[:space:]]*$1=//p" /etc/ze/ze.env 2>/dev/null | tail -n 1 | tr -d "\"'\r"; }
case "$1" in
upgrade | 2)
	data=$(setting ZE_DATA_DIR) socket=$(setting ZE_CONTROL_SOCKET)
	dir=${data:-/var/lib/ze}
	as_ze() {
		timeout 120 runuser -u ze -- env ${data:+"ZE_DATA_DIR=$data"} ${socket:+"ZE_CONTROL_SOCKET=$socket"} "$@"
	}
	if [ -f "$dir/ze.db" ] && command -v ze >/dev/null; then
		file=$dir/ze.db.before-upgrade-from-$(ze --version | cut -d' ' -f2)
		backup() { as_ze ze "$@" store backup "$file" force true >/dev/null; }
		# Of the file itself, unless the daemon has it: at its socket a client would
		# start it.
		if backup --data "$dir" 2>/dev/null || backup; then
			echo "ze: the database is kept as $file"
			# Three are enough.
			as_ze sh -c 'cd "$1" && ls -t ze.db.before-upgrade-from-* | tail -n +4 | while IFS= read -r old; do rm -f -- "$old"; done' sh "$dir" || :
		else
			echo "ze: warning: no backup was made before the upgrade" >&2
		fi
	fi
	;;
esac
