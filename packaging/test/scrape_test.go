package test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ze.internal/ze/appliance/bgp/birdtest"
)

const prometheusDir = "../prometheus"

// metric matches the names of what the daemon exports.
var metric = regexp.MustCompile(`\b(?:ze|process|go)_[a-z0-9_]+`)

// TestRules: the alert rules are well formed, and each fires when it should, and
// not before, by its own unit tests.
func TestRules(t *testing.T) {
	need(t, "prometheus", "promtool")
	run(t, "", "promtool", "check", "rules", filepath.Join(prometheusDir, "alerts.yml"))
	run(t, "", "promtool", "test", "rules", filepath.Join(prometheusDir, "alerts_test.yml"))

	alerts := regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(read(t, "alerts.yml"), -1)
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts", len(alerts))
	}
	runbook, tests := read(t, "../doc/alerts.md"), read(t, "alerts_test.yml")
	for _, a := range alerts {
		if !strings.Contains(runbook, "\n## "+a[1]+"\n\n") {
			t.Errorf("alerts.md says nothing about %s", a[1])
		}
		if !strings.Contains(read(t, "alerts.yml"), "alerts.md#"+strings.ToLower(a[1])+`"`) {
			t.Errorf("%s does not point to its section of alerts.md", a[1])
		}
		if !regexp.MustCompile(`alertname: ` + a[1] + `\n +exp_alerts:\n`).MatchString(tests) {
			t.Errorf("no test sees %s fire", a[1])
		}
		if !strings.Contains(tests, "alertname: "+a[1]+"\n        exp_alerts: []") {
			t.Errorf("no test sees %s quiet", a[1])
		}
	}
}

// TestScrape: a real Prometheus scrapes a daemon as it is packaged, counts its
// calls exactly, answers every query of the dashboard, and raises the alert when
// a BGP session goes down.
func TestScrape(t *testing.T) {
	need(t, "prometheus", "prometheus", "promtool")
	ours, theirs := netip.MustParseAddrPort(freePort(t, "127.0.0.1")), netip.MustParseAddrPort(freePort(t, "127.0.0.2"))
	bird := birdtest.Start(t, birdtest.Options{Local: theirs, AS: 64999, Peer: ours, PeerAS: 64512, Announce: birdtest.Hosts("10.20.0.0", 3)})
	d := startDaemon(t, fmt.Sprintf(`environment { mcp { enabled true; } }
bgp {
    router-id 192.0.2.7; local { as 64512; } listen { ip %s; port %d; }
    peer north { remote { ip %s; port %d; as 64999; } local { ip %s; } timer { connect-retry 1; } family ipv4/unicast; }
}`, ours.Addr(), ours.Port(), theirs.Addr(), theirs.Port(), ours.Addr()))

	const calls = 25
	for range calls {
		d.call(t, "ze_show", map[string]any{"action": "version"})
	}
	d.call(t, "ze_announce", map[string]any{"prefixes": []string{"10.0.0.0/24"}, "next-hop": "192.0.2.1"})
	bird.AwaitCount(1)

	status, kind, text, err := get(t.Context(), d.metrics, "Accept", "text/plain;version=0.0.4")
	if err != nil || status != 200 || !strings.HasPrefix(kind, "text/plain; version=0.0.4; charset=utf-8") {
		t.Fatal(status, kind, err)
	}
	if advice := run(t, text, "promtool", "check", "metrics"); advice != "" {
		t.Errorf("promtool advises:\n%s", advice)
	}
	known := map[string]bool{}
	for line := range strings.Lines(text) {
		if name := metric.FindString(line); !strings.HasPrefix(line, "#") && name != "" {
			known[name] = true
		}
	}
	dashboard := dashboardQueries(t)
	for _, source := range append(slices.Clone(dashboard), read(t, "alerts.yml")) {
		for _, line := range strings.Split(source, "\n") {
			if _, after, ok := strings.Cut(line, "expr:"); ok {
				line = after
			} else if strings.Contains(source, "groups:") {
				continue // not a query
			}
			for _, name := range metric.FindAllString(line, -1) {
				if !known[name] {
					t.Errorf("%s is used, but the daemon has no such metric", name)
				}
			}
		}
	}

	// The alerts wait a minute and more: here they need not.
	rules := filepath.Join(t.TempDir(), "alerts.yml")
	hasty := regexp.MustCompile(`for: \d+m`).ReplaceAllString(read(t, "alerts.yml"), "for: 1s")
	if err := os.WriteFile(rules, []byte(hasty), 0o600); err != nil {
		t.Fatal(err)
	}
	target := strings.TrimSuffix(strings.TrimPrefix(d.metrics, "http://"), "/metrics")
	scrape := strings.Replace(read(t, "scrape.yml"), "127.0.0.1:9179", target, 1)
	if !strings.Contains(scrape, target) {
		t.Fatal("scrape.yml does not name the default address")
	}
	p := startPrometheus(t, "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: ["+rules+"]\nscrape_configs:\n"+scrape)
	p.is(`up{job="ze"}`, 1)
	p.is(`ze_tool_calls_total{tool="ze_show", outcome="ok"}`, calls)
	p.is(`ze_tool_call_duration_seconds_count{tool="ze_show"}`, calls)
	p.is(`ze_command_calls_total{command="show version", surface="mcp", outcome="ok"}`, calls)
	p.is(`ze_bgp_peer_up{peer="north"}`, 1)
	p.is(`ze_bgp_peer_received_prefixes{peer="north"}`, 3)
	p.is(`ze_bgp_announced_prefixes`, 1)
	for _, expr := range dashboard {
		eventually(t, "dashboard: "+expr, func() string {
			values, err := p.query(expr)
			if err != nil {
				return err.Error()
			}
			// What fails, or runs at this moment, may well be nothing.
			if len(values) == 0 && !strings.Contains(expr, `outcome!="ok"`) && !strings.Contains(expr, "> 0") {
				return "no data"
			}
			return ""
		})
	}

	if fired, err := p.firing(); err != nil || len(fired) > 0 {
		t.Fatalf("all is well, and there fire %v (%v)", fired, err)
	}
	alert := func(want bool) {
		t.Helper()
		eventually(t, "ZeBGPSessionDown", func() string {
			fired, err := p.firing()
			if peer, fires := fired["ZeBGPSessionDown"]; err != nil || fires != want || fires && peer != "north" {
				return fmt.Sprint(fired, err, ", want ", want)
			}
			return ""
		})
	}
	bird.Control("disable", "peer")
	alert(true)
	p.is(`ze_bgp_peer_flaps_total{peer="north"}`, 1)
	bird.Control("enable", "peer")
	alert(false)
}

// dashboardQueries returns the queries of the dashboard's panels, with values for
// its variables.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*").Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: a variable is unknown: %s", p.Title, expr)
			}
			out = append(out, expr)
		}
	}
	if len(out) < 30 {
		t.Fatalf("only %d queries", len(out))
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(prometheusDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
