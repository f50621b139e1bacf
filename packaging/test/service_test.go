package test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

	// A daemon that ends before it has answered is restarted all the same.
	n := restarts()
	sh("kill -STOP " + pid + " && systemctl --no-block reload ze")
	soon("the reload", 10*time.Second, func() string {
		if property("ControlPID") == "0" {
			return "not yet"
		}
		return ""
	})
	sh("kill -KILL " + pid)
	back := soon("the service", 10*time.Second, running(n))
	same("version", b.version(), oldVersion)
	return fmt.Sprintf("killed during a reload, back after %d ms", back.Milliseconds())
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
	since := journal()
	var took []time.Duration
	for i := range 50 {
		l.wait(20) // some calls in between
		if i == 25 {
			defer b.strangers()()
		}
		began := time.Now()
		sh("systemctl restart ze")
		took = append(took, time.Since(began))
	}
	l.wait(20)
	calls, lost := l.end()
	if len(lost) > 0 {
		failf("%d of %d calls were lost: %s", len(lost), calls, strings.Join(lost[:min(5, len(lost))], "; "))
	}
	same("stops that failed", strings.Count(since(), "Failed with result"), 0)
	slices.Sort(took)
	if longest := took[len(took)-1]; longest > 5*time.Second {
		failf("a restart took %s", longest)
	}
	return fmt.Sprintf("%d calls; a restart takes %d ms, the longest %d ms", calls, took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds())
}

// drop adds to a unit, ze.service or ze.socket, until the function returned is
// called.
func drop(section, text string) (remove func()) {
	dir := "/run/systemd/system/ze." + strings.ToLower(section) + ".d"
	sh("mkdir -p " + dir)
	write(dir+"/life.conf", "["+section+"]\n"+text+"\n", 0o644)
	sh("systemctl daemon-reload")
	return func() { sh("rm -r " + dir + " && systemctl daemon-reload") }
}

func write(file, text string, mode os.FileMode) {
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		failf("%v", err)
	}
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
		write("/run/bgp.conf", conf, 0o600)
	}
	sh("ze config import /run/bgp.conf")
	defer drop("Service", stubborn)()
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
	defer drop("Service", stubborn)()
	b.withProcesses()
	defer b.strangers()()
	began := time.Now()
	sh("systemctl stop ze.socket ze")
	took := time.Since(began)
	same("processes", strings.Join(processes(), " "), "")
	same("result", property("Result"), "success")
	if took > 4*time.Second {
		failf("it took %s", took)
	}
	return fmt.Sprintf("in %d ms", took.Milliseconds())
}

func (b *box) hang() string {
	const limit = 2
	defer drop("Service", fmt.Sprintf("WatchdogSec=%ds", limit))()
	sh("systemctl restart ze.socket ze")
	n := restarts()
	sh("kill -STOP " + property("MainPID"))
	took := soon("the service", (limit+8)*time.Second, running(n))
	holds("journal", sh("journalctl -u ze -o cat --no-pager"), "Watchdog timeout")
	b.allKept()
	return fmt.Sprintf("back after %.1f s, with a watchdog of %d s", took.Seconds(), limit)
}
