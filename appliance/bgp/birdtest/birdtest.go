// Package birdtest runs a real BIRD 2 (Debian package bird2) as the BGP peer of
// a test. It is for tests only and never touches the kernel's routes.
package birdtest

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Options say who BIRD is and whom it peers with.
type Options struct {
	Local    netip.AddrPort // its own address and port
	AS       uint32
	Peer     netip.AddrPort // whom it peers with
	PeerAS   uint32
	Password string         // TCP MD5, "" for none
	Announce []netip.Prefix // IPv4 prefixes it announces
}

// Bird is a running BIRD.
type Bird struct {
	t   testing.TB
	dir string
}

// Start runs BIRD until the test ends. Where BIRD is not installed the test is
// skipped, except in CI (environment variable CI=true), where it fails.
func Start(t testing.TB, o Options) *Bird {
	t.Helper()
	path, err := exec.LookPath("bird")
	if err != nil {
		const missing = "bird is missing: install the Debian package bird2 and have /usr/sbin in PATH"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	b := &Bird{t: t, dir: t.TempDir()}
	var conf bytes.Buffer
	fmt.Fprintf(&conf, "log %q all;\nrouter id 10.255.0.2;\nprotocol device { scan time 10; }\n", b.file("log"))
	// Next hops resolve in a table of their own, or routes would be unreachable.
	fmt.Fprintln(&conf, `ipv4 table hops; protocol static { ipv4 { table hops; }; route 0.0.0.0/0 via "lo"; }`)
	fmt.Fprintln(&conf, "protocol static own { ipv4;")
	for _, p := range o.Announce {
		fmt.Fprintf(&conf, "route %s blackhole;\n", p)
	}
	fmt.Fprintln(&conf, "}\nprotocol bgp peer {")
	fmt.Fprintf(&conf, "local %s port %d as %d; neighbor %s port %d as %d;\n", o.Local.Addr(), o.Local.Port(), o.AS, o.Peer.Addr(), o.Peer.Port(), o.PeerAS)
	fmt.Fprintln(&conf, "multihop; strict bind yes; connect delay time 1; connect retry time 2; error wait time 1, 4;")
	if o.Password != "" {
		fmt.Fprintf(&conf, "password %q;\n", o.Password)
	}
	fmt.Fprintln(&conf, "ipv4 { import all; export where source = RTS_STATIC; igp table hops; };\n}")
	if err := os.WriteFile(b.file("conf"), conf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-f", "-c", b.file("conf"), "-s", b.file("ctl"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(b.file("log"))
			t.Logf("bird: %s%s", &out, log)
		}
	})
	return b
}

func (b *Bird) file(name string) string { return filepath.Join(b.dir, name) }

// Control runs a birdc command and returns what it prints.
func (b *Bird) Control(words ...string) string {
	out, _ := exec.Command("birdc", append([]string{"-s", b.file("ctl")}, words...)...).CombinedOutput()
	return string(out)
}

// AwaitCount waits until BIRD holds n routes of the session.
func (b *Bird) AwaitCount(n int) {
	b.t.Helper()
	want := fmt.Sprintf("\n%d of ", n)
	var got string
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = b.Control("show", "route", "protocol", "peer", "count"); strings.Contains(got, want) {
			return
		}
	}
	b.t.Fatalf("bird's routes: %s; want %d", got, n)
}

// Hosts returns n host prefixes in a row.
func Hosts(first string, n int) []netip.Prefix {
	out := make([]netip.Prefix, 0, n)
	for a := netip.MustParseAddr(first); len(out) < n; a = a.Next() {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return out
}
