package test

import (
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// lastStep is how a whole life ends.
const lastStep = "nothing failed behind our back"

type named struct {
	name string
	run  func() (note string)
}

const (
	stateDir  = "/var/lib/ze"
	tokenFile = stateDir + "/admin.token"
	envFile   = "/etc/ze/ze.env"
)

func (b *box) steps() []named {
	return []named{
		{"boot", boot},
		{"nobody's login becomes the daemon's user", b.somebodysLogin},
		{"install", b.firstInstall},
		{"start", b.start},
		{"the unit is sound", unit},
		{"reload", b.reload},
		{"a refused reload changes nothing and says why", b.refusedReload},
		{"credentials are root's files", b.credentials},
		{"another address, and back", b.otherAddress},
		{"a taken port is named, and taken once it is free", b.takenPort},
		{"Node runs in the sandbox", node},
		{"socket activation", b.activation},
		{"fifty restarts lose no request", b.fiftyRestarts},
		{"kill -9 loses nothing acknowledged and leaves no process", b.kill},
		{"stop leaves no process", b.stop},
		{"the watchdog restarts what hangs", b.hang},
		{"wrong settings are one line and no loop", b.wrongSettings},
		{"upgrade", b.upgrade},
		{"installed twice is installed once", b.twice},
		{"what is stopped stays stopped", b.stopped},
		{"a downgrade is refused with the way back", b.downgrade},
		{"remove keeps the state", b.remove},
		{"purge", b.purge},
		{lastStep, nothingFailed},
	}
}

func boot() string {
	out, _ := try("systemctl is-system-running --wait")
	if out != "running" {
		failf("the boot is %s: %s", out, quiet("systemctl --failed --no-legend --plain"))
	}
	return sh("systemctl --version | head -1")
}

func (b *box) install(version string) { sh(b.format.installing(version)) }

// somebodysLogin: a person's user of the daemon's name stops the installation,
// until it is gone.
func (b *box) somebodysLogin() string {
	sh("useradd --uid 1000 --create-home ze")
	out, code := try(b.format.installing(oldVersion))
	if code == 0 {
		failf("it is installed: %s", out)
	}
	sh("userdel --remove ze")
	holds("the refusal", out, "ze: the user ze (uid 1000) is somebody's login", "rename it (usermod -l), then install again")
	same("what is installed", quiet("ls /usr/bin/ze /usr/lib/systemd/system/ze.service 2>/dev/null"), "")
	return ""
}

func (b *box) firstInstall() string {
	began := time.Now()
	b.install(oldVersion)
	took := time.Since(began)
	sh("id ze")
	return fmt.Sprintf("in %.1f s; %s installed", took.Seconds(), b.format.size())
}

// upgrade: the state, the edited settings and the tokens stay, the running
// service is restarted once.
func (b *box) upgrade() string {
	sh("echo '# edited' >>" + envFile)
	// Names in its directory are the daemon's to choose, and no words of root's.
	sh(`mkdir /victim; cd ` + stateDir + `; for n in 1 2 3; do runuser -u ze -- touch ze.db.before-upgrade-from-$n; done
		runuser -u ze -- touch -d yesterday 'ze.db.before-upgrade-from-x -r victim'`)
	defer sh("rm -r /victim " + stateDir + "/ze.db.before-upgrade-from-[0-9]")
	since := journal()
	b.install(newVersion)
	soon("the new version", 10*time.Second, running(-1))
	same("version", b.version(), newVersion)
	same("starts", strings.Count(since(), "ze is ready"), 1)
	same("settings", sh("tail -1 "+envFile), "# edited")
	b.allKept()
	backup := sh("ls " + stateDir + "/*before-upgrade-from-" + oldVersion + "*")
	same("backup", sh("stat -c '%a %U' "+backup), "600 ze")
	return ""
}

func (b *box) twice() string {
	b.install(newVersion)
	soon("the service", 10*time.Second, running(-1))
	same("version", b.version(), newVersion)
	same("settings", sh("tail -1 "+envFile), "# edited")
	same("verify", b.format.verify(), "")
	b.allKept()

	// The backup is asked for where the daemon answers.
	backup := stateDir + "/ze.db.before-upgrade-from-" + newVersion
	sh("rm " + backup)
	undo := set("ZE_CONTROL_SOCKET=/run/ze/other.sock")
	sh("systemctl restart ze")
	b.install(newVersion)
	undo()
	sh("ls " + backup)
	sh("systemctl restart ze")
	same("version", b.version(), newVersion)
	return ""
}

func (b *box) stopped() string {
	sh("systemctl stop ze.socket ze")
	b.install(newVersion)
	same("states", quiet("systemctl is-active ze ze.socket"), "inactive\ninactive")
	sh("systemctl start ze.socket ze")
	sh("systemctl disable ze.socket ze")
	b.install(newVersion)
	same("enabled", quiet("systemctl is-enabled ze ze.socket"), "disabled\ndisabled")
	sh("systemctl enable ze.socket ze")
	return ""
}

// downgrade: the database says that a newer version wrote it, as one would that
// has changed its form; the older version installed over it must refuse.
func (b *box) downgrade() string {
	sh("systemctl stop ze.socket ze")
	written := setSchema("99")
	b.install(oldVersion)
	if out, code := try("systemctl start ze"); code == 0 {
		failf("it starts: %s", out)
	}
	same("exit code", property("ExecMainStatus"), "5")
	holds("status", quiet("systemctl status --no-pager ze"), "newer version", "install")
	same("restarts", property("NRestarts"), "0")
	b.install(newVersion)
	setSchema(written)
	sh("systemctl reset-failed ze; systemctl start ze.socket ze")
	same("version", b.version(), newVersion)
	b.allKept()
	return ""
}

// setSchema changes what a stopped database says of its form, and returns what it
// said before.
func setSchema(to string) (before string) {
	db, err := bolt.Open(stateDir+"/ze.db", 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		failf("%v", err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		before = string(meta.Get([]byte("schema")))
		return meta.Put([]byte("schema"), []byte(to))
	})
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err != nil {
		failf("%v", err)
	}
	return before
}

func (b *box) remove() string {
	b.format.removeHalfWay()
	same("states after a removal that failed", quiet("systemctl is-active ze ze.socket"), "active\nactive")
	same("version", b.version(), newVersion)
	b.format.remove()
	same("processes", strings.Join(processes(), " "), "")
	same("units", quiet("ls /usr/lib/systemd/system | grep ^ze"), "")
	sh("test -f " + stateDir + "/ze.db")
	b.format.settingsKept()
	b.install(newVersion)
	sh("systemctl start ze.socket ze")
	same("version", b.version(), newVersion)
	b.allKept()
	return ""
}

func (b *box) purge() string {
	b.format.purge()
	same("processes", strings.Join(processes(), " "), "")
	same("units", quiet("systemctl list-units --all --no-legend --plain 'ze*'"), "")
	if left := quiet("find / -xdev \\( -path /proc -o -path /share -o -path /var/log \\) -prune -o \\( -name ze -o -name 'ze[.-]*' -o -user ze \\) -print"); left != b.format.leaves() {
		failf("there is left:\n%s", left)
	}
	return ""
}

func nothingFailed() string {
	same("failed units", quiet("systemctl --failed --no-legend --plain"), "")
	return ""
}
