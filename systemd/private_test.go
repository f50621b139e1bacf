package systemd

import "testing"

func TestPrivate(t *testing.T) {
	const mounts = `21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 8:1 /tmp/systemd-private-0a1b-ze.service-Xy/tmp /tmp rw,nosuid - ext4 /dev/sda1 rw
31 21 8:1 /var/tmp/systemd-private-0a1b-ze.service-Zz/tmp /var/tmp rw,nosuid - ext4 /dev/sda1 rw
32 31 8:2 / /var/tmp/disk rw - ext4 /dev/sdb1 rw
33 21 0:30 / /srv rw - tmpfs tmpfs rw
`
	for dir, want := range map[string]bool{
		"/tmp": true, "/tmp/sub": true, "/var/tmp": true, "/var/tmp/disk": false,
		"/tmpfile": false, "/": false, "/srv": false, "/var/lib/ze": false,
	} {
		if got := private(mounts, dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
	if dir := t.TempDir(); Private(dir + "/file") {
		t.Errorf("%s is nobody's private directory", dir)
	}
}
