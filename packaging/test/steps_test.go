package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	dropIns   = "/run/systemd/system/ze.service.d"
)

func (b *box) steps() []named {
	return []named{
		{"boot", boot},
		{"install", b.install},
		{"start", b.start},
		{"the unit is sound", unit},
		{"reload", b.reload},
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

func (b *box) install() string {
	began := time.Now()
	b.format.install(oldVersion)
	took := time.Since(began)
	sh("id ze")
	return fmt.Sprintf("in %.1f s; %s installed", took.Seconds(), b.format.size())
}

// start: the first one makes everything, and says so in three lines.
func (b *box) start() string {
	sh("systemctl start ze")
	b.token = sh("cat " + tokenFile)
	same("state", property("ActiveState"), "active")
	same("state directory", sh("stat -c '%a %U' "+stateDir), "700 ze")
	same("token file", sh("stat -c '%a %U' "+tokenFile), "600 ze")
	same("database", sh("stat -c '%a %U' "+stateDir+"/ze.db"), "600 ze")
	said := sh("journalctl -t ze -o cat --no-pager")
	holds("journal", said, tokenFile, "127.0.0.1:8080", "ze is ready")
	same("lines in the journal", strings.Count(said, "\n")+1, 3)
	holds("journal fields", sh("journalctl -t ze -o json --no-pager"), `"CONFIGURATION":"store, revision 1"`, `"PRIORITY":"6"`)
	holds("ze show status", sh("ze show status"), tokenFile)
	holds("README", sh("cat /usr/share/doc/ze/README*"), tokenFile)
	holds("systemctl status", sh("systemctl status --no-pager ze"), "Status: ")

	same("version", b.version(), oldVersion)
	status, _, body, err := get(context.Background(), "http://127.0.0.1:9179/metrics")
	if err != nil || status != 200 {
		failf("metrics: %d %v", status, err)
	}
	holds("metrics", body, "\nze_ready 1\n", "\nprocess_start_time_seconds ", "\nprocess_resident_memory_bytes ")
	// It is not READY before it answers: without the socket nothing waits.
	sh("systemctl stop ze.socket ze")
	began := time.Now()
	sh("systemctl start ze")
	took := time.Since(began)
	same("version", b.version(), oldVersion)
	same("one first start", strings.Count(sh("journalctl -t ze -o cat --no-pager"), "first start"), 1)
	return fmt.Sprintf("%d ms until ready", took.Milliseconds())
}

func unit() string {
	same("systemd-analyze verify", quiet("systemd-analyze verify --man=no ze.service ze.socket"), "")
	overall := sh("systemd-analyze security --no-pager ze.service | grep Overall")
	score, err := strconv.ParseFloat(regexp.MustCompile(`[0-9.]+`).FindString(overall[strings.Index(overall, ": "):]), 64)
	if err != nil || score > 1.6 {
		failf("exposure: %s (%v), want at most 1.6", overall, err)
	}
	return fmt.Sprintf("exposure %.1f", score)
}

func (b *box) reload() string {
	pid := property("MainPID")
	generation := func() string { return sh("ze show reload-status --format json") }
	before := generation()
	sh("systemctl reload ze")
	if generation() == before {
		failf("nothing was reloaded: %s", before)
	}
	same("process", property("MainPID"), pid)
	same("version", b.version(), oldVersion)
	return ""
}

// activation: with the service down the first client starts it.
func (b *box) activation() string {
	sh("systemctl start ze.socket; systemctl stop ze")
	same("states", quiet("systemctl is-active ze ze.socket"), "inactive\nactive")
	began := time.Now()
	same("version", b.version(), oldVersion)
	took := time.Since(began)
	sh("systemctl stop ze")
	holds("over the control socket", sh("ze show version"), oldVersion)
	return fmt.Sprintf("%d ms for the call that starts it", took.Milliseconds())
}

func (b *box) fiftyRestarts() string {
	sh("systemctl start ze.socket ze")
	l := b.startLoad()
	defer l.end()
	var took []time.Duration
	for range 50 {
		l.wait(20) // some calls in between
		began := time.Now()
		sh("systemctl restart ze")
		took = append(took, time.Since(began))
	}
	l.wait(20)
	calls, lost := l.end()
	if len(lost) > 0 {
		failf("%d of %d calls were lost: %s", len(lost), calls, strings.Join(lost[:min(5, len(lost))], "; "))
	}
	slices.Sort(took)
	if longest := took[len(took)-1]; longest > 5*time.Second {
		failf("a restart took %s", longest)
	}
	return fmt.Sprintf("%d calls; a restart takes %d ms, the longest %d ms", calls, took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds())
}

// drop adds to the unit until the function returned is called.
func drop(text string) (remove func()) {
	sh("mkdir -p " + dropIns)
	if err := os.WriteFile(filepath.Join(dropIns, "life.conf"), []byte("[Service]\n"+text+"\n"), 0o644); err != nil {
		failf("%v", err)
	}
	sh("systemctl daemon-reload")
	return func() { sh("rm -r " + dropIns + " && systemctl daemon-reload") }
}

// stubborn is a process that leaves its parent and session and ignores TERM: it
// stands for what plugins may start.
const stubborn = `ExecStartPost=/bin/sh -c 'trap "" TERM HUP INT; setsid sh -c "sleep 10000 & wait" >/dev/null 2>&1 &'`

// withProcesses starts the service with a BGP speaker and a stubborn neighbour.
func (b *box) withProcesses() {
	sh("systemctl restart ze")
	soon("the processes", 20*time.Second, func() string {
		for _, name := range []string{"ze speaker", "sleep 10000"} {
			if quiet("pgrep -u ze -f '"+name+"'") == "" {
				return "no " + name
			}
		}
		return ""
	})
}

func (b *box) kill() string {
	if _, err := os.Stat("/run/bgp.conf"); err != nil {
		const conf = `environment { mcp { enabled true; } }
bgp { router-id 192.0.2.7; local { as 64512; } listen { ip 127.0.0.1; port 179; } peer north { remote { ip 127.0.0.2; as 64999; } family ipv4/unicast; } }
`
		if err := os.WriteFile("/run/bgp.conf", []byte(conf), 0o600); err != nil {
			failf("%v", err)
		}
	}
	sh("ze config import /run/bgp.conf")
	defer drop(stubborn)()
	b.withProcesses()
	w := b.startWriting()
	defer w.end()
	const kills = 5
	var back, gone time.Duration
	for range kills {
		w.wait(20)
		before, n := processes(), restarts()
		sh("kill -9 " + property("MainPID"))
		gone = max(gone, soon("the old processes", 2*time.Second, func() string {
			if left := intersection(before, processes()); len(left) > 0 {
				return "there are still " + strings.Join(left, " ")
			}
			return ""
		}))
		back = max(back, soon("the service", 15*time.Second, running(n)))
	}
	w.wait(20)
	b.kept = append(b.kept, w.end()...)
	b.allKept()
	return fmt.Sprintf("%d times; the processes were gone after %d ms at most, the service back after %d ms; %d changes acknowledged, all kept",
		kills, gone.Milliseconds(), back.Milliseconds(), len(b.kept))
}

func intersection(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return !slices.Contains(b, x) })
}

func (b *box) stop() string {
	defer drop(stubborn)()
	b.withProcesses()
	began := time.Now()
	sh("systemctl stop ze.socket ze")
	took := time.Since(began)
	same("processes", strings.Join(processes(), " "), "")
	same("result", property("Result"), "success")
	if took > 15*time.Second {
		failf("it took %s", took)
	}
	return fmt.Sprintf("in %d ms", took.Milliseconds())
}

func (b *box) hang() string {
	const limit = 2
	defer drop(fmt.Sprintf("WatchdogSec=%ds", limit))()
	sh("systemctl restart ze.socket ze")
	n := restarts()
	sh("kill -STOP " + property("MainPID"))
	took := soon("the service", (limit+8)*time.Second, running(n))
	holds("journal", sh("journalctl -u ze -o cat --no-pager"), "Watchdog timeout")
	b.allKept()
	return fmt.Sprintf("back after %.1f s, with a watchdog of %d s", took.Seconds(), limit)
}

func (b *box) wrongSettings() string {
	before := sh("cat " + envFile)
	for _, c := range []struct{ line, code, says string }{
		{"ZE_MCP_LISTEN=nonsense", "2", "environment variable ZE_MCP_LISTEN: "},
		{"ZE_MCP_LISTEN=0.0.0.0:8080", "4", "can be reached from other machines"},
	} {
		sh(fmt.Sprintf("systemctl reset-failed ze; systemctl start ze.socket; echo %s >>%s", c.line, envFile))
		if out, code := try("systemctl restart ze"); code == 0 {
			failf("it starts with %s: %s", c.line, out)
		}
		same(c.line+": exit code", property("ExecMainStatus"), c.code)
		holds(c.line, quiet("systemctl status --no-pager ze"), c.says)
		n := restarts()
		if _, err := b.call("ze_show", nil); err == nil {
			failf("%s: a call is answered", c.line)
		}
		// A restart would come after one second.
		end := time.Now().Add(2500 * time.Millisecond)
		soon("a while", 4*time.Second, func() string {
			if state := property("ActiveState"); state != "failed" || restarts() != n {
				failf("%s: it loops: %s, %d restarts", c.line, state, restarts()-n)
			}
			if time.Now().Before(end) {
				return "waiting"
			}
			return ""
		})
		if err := os.WriteFile(envFile, []byte(before+"\n"), 0o640); err != nil { // keeps its owner
			failf("%v", err)
		}
	}
	sh("systemctl start ze.socket ze")
	same("version", b.version(), oldVersion)
	return ""
}

// upgrade: the state, the edited settings and the tokens stay, the running
// service is restarted once.
func (b *box) upgrade() string {
	sh("echo '# edited' >>" + envFile)
	cursor := strings.TrimPrefix(sh("journalctl -q -n 1 --show-cursor | tail -1"), "-- cursor: ")
	b.format.install(newVersion)
	soon("the new version", 10*time.Second, running(-1))
	same("version", b.version(), newVersion)
	same("starts", strings.Count(sh("journalctl -t ze -o cat --no-pager --after-cursor '"+cursor+"'"), "ze is ready"), 1)
	same("settings", sh("tail -1 "+envFile), "# edited")
	b.allKept()
	backup := sh("ls " + stateDir + "/*before-upgrade-from-" + oldVersion + "*")
	same("backup", sh("stat -c '%a %U' "+backup), "600 ze")
	return ""
}

func (b *box) twice() string {
	b.format.install(newVersion)
	soon("the service", 10*time.Second, running(-1))
	same("version", b.version(), newVersion)
	same("settings", sh("tail -1 "+envFile), "# edited")
	same("verify", b.format.verify(), "")
	b.allKept()
	return ""
}

func (b *box) stopped() string {
	sh("systemctl stop ze.socket ze")
	b.format.install(newVersion)
	same("states", quiet("systemctl is-active ze ze.socket"), "inactive\ninactive")
	sh("systemctl start ze.socket ze")
	sh("systemctl disable ze.socket ze")
	b.format.install(newVersion)
	same("enabled", quiet("systemctl is-enabled ze ze.socket"), "disabled\ndisabled")
	sh("systemctl enable ze.socket ze")
	return ""
}

// downgrade: the database says that a newer version wrote it, as one would that
// has changed its form; the older version installed over it must refuse.
func (b *box) downgrade() string {
	sh("systemctl stop ze.socket ze")
	written := setSchema("99")
	b.format.install(oldVersion)
	if out, code := try("systemctl start ze"); code == 0 {
		failf("it starts: %s", out)
	}
	same("exit code", property("ExecMainStatus"), "5")
	holds("status", quiet("systemctl status --no-pager ze"), "newer version", "install")
	same("restarts", property("NRestarts"), "0")
	b.format.install(newVersion)
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
	b.format.remove()
	same("processes", strings.Join(processes(), " "), "")
	same("units", quiet("ls /usr/lib/systemd/system | grep ^ze"), "")
	sh("test -f " + stateDir + "/ze.db")
	b.format.settingsKept()
	b.format.install(newVersion)
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
