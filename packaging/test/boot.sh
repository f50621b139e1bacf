#!/bin/sh
# boot.sh ROOT DIR: boots a machine whose PID 1 is a real systemd, on a throw-away
# layer over the file system ROOT, and ends when it powers off. DIR/share is
# /share inside; DIR/share/life runs there as a service once the boot is over.
# Runs as root, in namespaces of mounts and processes of its own, so that all of
# it is gone when it ends. In the environment: CGROUPS, directories to enter, and
# what systemd-nspawn reads.
set -eu
root=$1 dir=$2
for c in $CGROUPS; do echo $$ >"$c/cgroup.procs"; done
mkdir "$dir/layer"
mount -t tmpfs -o size=2g,mode=755 tmpfs "$dir/layer"
mkdir "$dir/layer/upper" "$dir/layer/work" "$dir/layer/root"
mount -t overlay -o "lowerdir=$root,upperdir=$dir/layer/upper,workdir=$dir/layer/work" overlay "$dir/layer/root"
units=$dir/layer/root/etc/systemd/system
cat >"$units/life.service" <<'UNIT'
[Unit]
After=multi-user.target
DefaultDependencies=no
[Service]
ExecStart=/share/life
ExecStopPost=systemctl --no-block poweroff
EnvironmentFile=/share/env
StandardOutput=append:/share/output
StandardError=append:/share/output
UNIT
mkdir -p "$units/multi-user.target.wants"
ln -s ../life.service "$units/multi-user.target.wants/life.service"
# Nothing may depend on a clock, a login, or modules of this kernel.
for u in systemd-modules-load.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer console-getty.service; do
	ln -sf /dev/null "$units/$u"
done
# Every capability there is but the one over the clock, which is the host's, too;
# and no filter of system calls: what is denied to a
# service is then denied by its unit, not by this container.
export SYSTEMD_SECCOMP=0
exec systemd-nspawn --quiet --boot --keep-unit --register=no --machine=life --directory="$dir/layer/root" \
	--private-network --resolv-conf=off --timezone=off --link-journal=no --console=read-only \
	--capability=all --drop-capability=CAP_SYS_TIME --bind="$dir/share:/share" --setenv=SYSTEMD_COLORS=0
