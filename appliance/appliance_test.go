package appliance_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/mcp/client"
	"ze.internal/ze/store"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, readAll(t, resp)
}

const plainConfig = "environment { mcp { enabled true; } }\n"

// TestToolNames holds the names of the tools and their actions.
func TestToolNames(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	raw, err := d.mcp.Do(t.Context(), "tools/list", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct {
				Properties map[string]struct {
					Enum []string `json:"enum"`
				} `json:"properties"`
			} `json:"inputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, tool := range list.Tools {
		fmt.Fprintln(&b, strings.TrimSpace(tool.Name+" "+strings.Join(tool.InputSchema.Properties["action"].Enum, " ")))
	}
	golden := filepath.Join("testdata", "tools.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("tools changed; clients know them by name (-want +got):\n%s", diff)
	}
}

// TestEveryExample runs every example of every command against a daemon with a
// neighbour, and holds each answer against the command's own output schema.
func TestEveryExample(t *testing.T) {
	l := newLab(t)
	l.neighbour(t, bgp.Path{
		Prefixes:   []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24")},
		Attributes: bgp.Attributes{Origin: "igp", NextHopSelf: true, Communities: []string{"64999:1"}},
	})
	d := startDaemon(t, daemonOptions{config: l.config("")})
	d.established(t, "north")
	eventually(t, "routes of the neighbour", func() string {
		var s struct{ Count int }
		d.execute(t, "show bgp rib received peer north", &s)
		if s.Count != 2 {
			return fmt.Sprint(s.Count)
		}
		return ""
	})
	set, err := schema.Load(builtin.Models())
	if err != nil {
		t.Fatal(err)
	}
	commands := set.Commands()
	// What an example takes away must be there first, and a session that is reset
	// comes last.
	slices.SortStableFunc(commands, func(a, b *schema.Command) int { return rank(a) - rank(b) })
	examples, torn, backups := 0, 0, t.TempDir()
	var withoutDaemon []*schema.Command
	for _, c := range commands {
		if c.Description == "" || c.Effect == "" || len(c.Examples) == 0 || c.Output == nil {
			t.Errorf("%v: a command needs a description, an effect, an example and an output", c.Path)
		}
		for _, line := range c.Examples {
			examples++
			switch {
			case strings.HasPrefix(line, "withdraw"):
				d.execute(t, "announce 10.0.0.0/24 tag { key ticket value 4711 }", nil)
			case strings.Contains(line, "teardown"):
				d.cameBack(t, "north", torn)
				torn++
			case strings.HasPrefix(line, "blob cat"):
				d.execute(t, "blob put motd hello", nil)
			case strings.HasPrefix(line, "delete"):
				d.execute(t, "set environment log level debug", nil)
			case strings.HasPrefix(line, "request config commit"):
				d.execute(t, fmt.Sprintf("set environment instance name example-%d", examples), nil)
			case strings.HasPrefix(line, "request task cancel"):
				line = "request task cancel " + d.task(t, d.admin, "monitor event for 1h")
			case strings.HasPrefix(line, "store restore"):
				withoutDaemon = append(withoutDaemon, c)
				continue
			}
			const exampleTask = "mfzwizlemzzw65dior3gs43b"
			if before, after, found := strings.Cut(line, exampleTask); found {
				line = before + d.beginTask(t, "monitor event for 1h") + after
			}
			var a struct{ ID string }
			if rank(c) < rankConfig { // later there may be no bgp block
				d.execute(t, "announce 192.0.2.0/24", &a)
			}
			line := strings.NewReplacer("a1b2c3d4e5", a.ID, "/var/backups", backups).Replace(line)
			answer, err := d.mcp.Call(t.Context(), "ze_execute", map[string]string{"command": line})
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			checkAnswer(t, c, line, answer)
		}
	}
	d.stop(t)
	for _, c := range withoutDaemon {
		line := strings.ReplaceAll(c.Examples[0], "/var/backups", backups)
		res, err := appliance.Offline(t.Context(), appliance.Options{DataDir: d.dir, Logger: zerolog.Nop()},
			command.Call{Principal: &access.Principal{Name: "me", Scope: access.Admin}, Surface: "cli", Line: line})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		checkAnswer(t, c, line, res.JSON)
	}
	if examples < len(commands) || len(commands) < 15 {
		t.Errorf("%d examples of %d commands", examples, len(commands))
	}
}

// checkAnswer holds an answer against the command's output schema.
func checkAnswer(t *testing.T, c *schema.Command, line string, answer json.RawMessage) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(answer)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Output.Check(v) {
		t.Errorf("%s: answer, field %s: %s; allowed: %s\n%s", line, p.Field, p.Message, p.Allowed, answer)
	}
}

// rankConfig is that of the commands that can change the configuration, last.
const rankConfig = 3

func rank(c *schema.Command) int {
	if slices.Contains([]string{"config", "set", "delete"}, c.Path[0]) || len(c.Path) > 1 && c.Path[1] == "config" {
		return rankConfig
	}
	switch strings.Join(c.Path, " ") {
	case "request reload": // before another configuration is imported
		return -1
	case "request peer teardown":
		return 2
	case "withdraw":
		return 1
	}
	return 0
}

// TestFlow walks the usual flow and asks the neighbour itself.
func TestFlow(t *testing.T) {
	l := newLab(t)
	n := l.neighbour(t)
	d := startDaemon(t, daemonOptions{config: l.config("")})
	d.established(t, "north")

	var a struct {
		ID        string
		Announced int
		Peer      []string
	}
	d.call(t, "ze_announce", map[string]any{"origin": "igp", "next-hop": "10.0.0.1", "prefixes": []string{"10.0.0.0/24", "10.0.1.0/24"},
		"community": []string{"64512:10"}, "tag": map[string]string{"key": "ticket", "value": "1"}}, &a)
	if a.ID == "" || a.Announced != 2 || !slices.Equal(a.Peer, []string{"north"}) {
		t.Errorf("announce answered %+v", a)
	}
	has(t, n, bgp.IPv4Unicast, "10.0.0.0/24", "10.0.1.0/24")
	d.call(t, "ze_announce", map[string]any{"next-hop": "2001:db8::1", "prefixes": []string{"2001:db8:1::/48"}}, nil)
	has(t, n, bgp.IPv6Unicast, "2001:db8:1::/48")

	// All or nothing: one bad prefix and none is announced.
	_, err := d.mcp.Call(t.Context(), "ze_announce", map[string]any{"next-hop": "10.0.0.1", "prefixes": []string{"10.5.0.0/16", "10.6.0.1/16"}})
	var toolErr *client.ToolError
	if !errors.As(err, &toolErr) || !strings.Contains(toolErr.Text, `"prefixes[1]"`) || !strings.Contains(toolErr.Text, "10.6.0.0/16") {
		t.Errorf("host bits: %v", err)
	}
	has(t, n, bgp.IPv4Unicast, "10.0.0.0/24", "10.0.1.0/24")

	// A later announcement takes a prefix over; the first id keeps the other.
	var b struct {
		ID        string
		TakenOver []struct {
			ID       string
			Prefixes int
		} `json:"taken-over"`
	}
	d.execute(t, "announce 10.0.1.0/24 next-hop self", &b)
	if len(b.TakenOver) != 1 || b.TakenOver[0].ID != a.ID {
		t.Errorf("taken over: %+v", b)
	}
	d.call(t, "ze_withdraw", map[string]any{"id": a.ID}, nil)
	has(t, n, bgp.IPv4Unicast, "10.0.1.0/24")
	d.execute(t, "withdraw all", nil)
	has(t, n, bgp.IPv4Unicast)
	has(t, n, bgp.IPv6Unicast)
}

// TestAnnouncementsSurvive: what was announced is announced again after a
// restart of the daemon, and after the speaker was killed.
func TestAnnouncementsSurvive(t *testing.T) {
	l := newLab(t)
	n := l.neighbour(t)
	d := startDaemon(t, daemonOptions{config: l.config("")})
	d.established(t, "north")
	d.execute(t, "announce 10.0.0.0/24 next-hop self", nil)
	has(t, n, bgp.IPv4Unicast, "10.0.0.0/24")

	var status struct {
		Speaker struct {
			State    string
			PID      int
			Restarts int
		}
	}
	d.execute(t, "show status", &status)
	if status.Speaker.PID == 0 || status.Speaker.State != "running" {
		t.Fatalf("speaker: %+v", status)
	}
	killed := time.Now()
	if err := syscall.Kill(status.Speaker.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.execute(t, "show version", nil) // the control plane goes on
	d.execute(t, "show bgp", nil)
	has(t, n, bgp.IPv4Unicast) // the neighbour has noticed
	d.established(t, "north")
	has(t, n, bgp.IPv4Unicast, "10.0.0.0/24")
	t.Logf("session and announcement were back %.1f s after the speaker was killed", time.Since(killed).Seconds())
	d.execute(t, "show status", &status)
	if status.Speaker.Restarts == 0 {
		t.Errorf("the restart is not counted: %+v", status)
	}

	d.stop(t)
	has(t, n, bgp.IPv4Unicast)
	again := startDaemon(t, daemonOptions{dir: d.dir})
	again.admin = d.admin
	again.mcp = client.New(again.url(t, "mcp")+"/mcp", d.admin, "test")
	again.established(t, "north")
	has(t, n, bgp.IPv4Unicast, "10.0.0.0/24")
}

// TestRevokedToken: a revoked token is refused on the very next call.
func TestRevokedToken(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var made struct{ Secret string }
	d.execute(t, "token create ci scope read", &made)
	c := client.New(d.url(t, "mcp")+"/mcp", made.Secret, "ci")
	defer c.Close()
	if _, err := c.Call(t.Context(), "ze_show_bgp", nil); err != nil {
		t.Fatal(err)
	}
	// What it may not do looks like what does not exist.
	_, forbidden := c.Call(t.Context(), "ze_announce", map[string]any{"prefixes": []string{"10.0.0.0/24"}})
	_, unknown := c.Call(t.Context(), "ze_announcx", map[string]any{"prefixes": []string{"10.0.0.0/24"}})
	if forbidden == nil || strings.ReplaceAll(forbidden.Error(), "ze_announce", "X") != strings.ReplaceAll(unknown.Error(), "ze_announcx", "X") {
		t.Errorf("forbidden: %v\nunknown: %v", forbidden, unknown)
	}
	if status, body := d.control(t, "token revoke ci"); status != http.StatusOK {
		t.Fatalf("revoke: %d %s", status, body)
	}
	_, err := c.Call(t.Context(), "ze_show_bgp", nil)
	var rpc *client.RPCError
	if !errors.As(err, &rpc) || rpc.Status != http.StatusUnauthorized {
		t.Errorf("after the revocation: %v", err)
	}
	if _, body := get(t, d.url(t, "metrics")+"/metrics"); !strings.Contains(body, `ze_auth_failures_total{reason="unknown"} 1`) {
		t.Error("the refusal is not counted")
	}
}

// TestAuthApplies: mode and token of the block apply however the daemon was
// started, and nothing opens it by accident.
func TestAuthApplies(t *testing.T) {
	const token = "a-token-of-the-configuration"
	for _, file := range []bool{false, true} {
		d := startDaemon(t, daemonOptions{config: "environment { mcp { auth-mode bearer; token " + token + "; } }", file: file})
		for secret, want := range map[string]bool{token: true, "": false, "another-token-entirely": false, d.admin: true} {
			c := client.New(d.url(t, "mcp")+"/mcp", secret, "test")
			if _, err := c.Call(t.Context(), "ze_show", map[string]any{"action": "version"}); (err == nil) != want {
				t.Errorf("from a file %v, token %q: %v", file, secret, err)
			}
			c.Close()
		}
	}
	for text, path := range map[string]string{
		"environment { mcp { enabled true; auth-mode none; token a-token-of-the-configuration; } }": "environment/mcp/auth-mode",
		"environment { mcp { enabled true; auth-mode bearer; } }":                                   "environment/mcp/auth-mode",
		"environment { mcp { enabled true; auth-mode bearer-list; } }":                              "environment/mcp/auth-mode",
		"environment { mcp { enabled true; server x { ip 192.0.2.1; } } }":                          "environment/mcp/server",
		"environment { mcp { enabled true; auth-mode none; server x { ip 0.0.0.0; } } }":            "environment/mcp/server",
		"environment { metrics { server x { ip 0.0.0.0; } } }":                                      "environment/metrics/server",
	} {
		_, err := appliance.LoadConfiguration("ze.conf", []byte(text), appliance.Overrides{}, 0)
		var problems config.Problems
		if !errors.As(err, &problems) || !slices.ContainsFunc(problems, func(p config.Problem) bool { return strings.HasPrefix(p.Path, path) && p.Line == 1 }) {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// TestNoSecretIsKept: neither the store's files nor the log hold a token or a
// password in clear.
func TestNoSecretIsKept(t *testing.T) {
	var log strings.Builder
	l := newLab(t)
	const token, password = "the-very-secret-token-1", "the-md5-password"
	d := startDaemon(t, daemonOptions{
		config: strings.Replace(l.config("mcp { enabled true; token "+token+"; }"), "environment { mcp { enabled true; }", "environment {", 1),
		log:    zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.TraceLevel),
	})
	c := client.New(d.url(t, "mcp")+"/mcp", token, "test")
	defer c.Close()
	if _, err := c.Call(t.Context(), "ze_show_bgp", nil); err != nil {
		t.Fatal(err)
	}
	var made struct{ Secret string }
	d.execute(t, "token create other", &made)
	d.execute(t, "config import text '"+strings.Replace(l.config(""), "family ipv4", "password "+password+"; family ipv4", 1)+"'", nil)
	wrong := client.New(d.url(t, "mcp")+"/mcp", "presented:secret-part", "test")
	defer wrong.Close()
	if _, err := wrong.Call(t.Context(), "ze_show_bgp", nil); err == nil {
		t.Error("a wrong token was accepted")
	}
	d.stop(t)
	file, err := os.ReadFile(filepath.Join(d.dir, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{token, made.Secret, d.admin, "secret-part"} {
		if strings.Contains(string(file), secret) {
			t.Errorf("the database holds %s", secret)
		}
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
	if strings.Contains(log.String(), password) {
		t.Error("the log holds the password")
	}
}

// TestMetricsAndHealth: what happened is counted, by registered names only.
func TestMetricsAndHealth(t *testing.T) {
	l := newLab(t)
	l.neighbour(t)
	d := startDaemon(t, daemonOptions{config: l.config("")})
	d.established(t, "north")
	for range 3 {
		d.call(t, "ze_show", map[string]any{"action": "version"}, nil)
	}
	if _, err := d.mcp.Call(t.Context(), "ze_made_up_name", nil); err == nil {
		t.Error("an unknown tool was called")
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready"} {
		if status, body := get(t, d.url(t, "metrics")+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	eventually(t, "metrics", func() string {
		_, body := get(t, d.url(t, "metrics")+"/metrics")
		for _, want := range []string{
			`ze_tool_calls_total{outcome="ok",tool="ze_show"} 3`,
			`ze_tool_call_duration_seconds_count{tool="ze_show"} 3`,
			`ze_bgp_peers{state="established"} 1`,
			`ze_build_info{`,
			`ze_store_size_bytes `,
			`ze_store_commit_duration_seconds_count `,
			`ze_auth_failures_total{reason="missing"} 0`,
			`ze_connections{listener="control"} `,
			`ze_connections_limit{listener="mcp"} 1024`,
			`ze_bgp_peer_up{peer="north"} 1`,
			`ze_bgp_peer_updates_total{direction="in",peer="north"} `,
			`ze_config_last_reload_successful 1`,
			`ze_internal_errors_total 0`,
			`ze_ready 1`,
		} {
			if !strings.Contains(body, want) {
				return "no " + want
			}
		}
		if strings.Contains(body, "made_up") {
			return "a name from outside became a label"
		}
		return ""
	})
}

// TestFileConfiguration: from a file everything but the configuration comes
// from the store, and a change of the stored one is refused, naming the file.
func TestFileConfiguration(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig, file: true})
	_, err := d.mcp.Call(t.Context(), "ze_config", map[string]any{"action": "import", "text": plainConfig})
	var toolErr *client.ToolError
	if !errors.As(err, &toolErr) || !strings.Contains(toolErr.Text, "ze.conf") || !strings.Contains(toolErr.Text, string(command.Conflict)) {
		t.Errorf("import: %v", err)
	}
	var status struct{ Configuration struct{ Source string } }
	d.execute(t, "show status", &status)
	if status.Configuration.Source != "ze.conf" {
		t.Errorf("status: %+v", status)
	}
	if status, body := d.control(t, "token list"); status != http.StatusOK || !strings.Contains(body, `"admin"`) {
		t.Errorf("the store's tokens: %d %s", status, body)
	}
}

// TestConfigImport: a refused text changes nothing, an accepted one is the next
// revision.
func TestConfigImport(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	status, body := d.control(t, "config import text 'environment { mcp { enabeld true; } }'")
	if status != http.StatusBadRequest || !strings.Contains(body, "did you mean enabled") {
		t.Errorf("refused import: %d %s", status, body)
	}
	status, body = d.control(t, "config import text 'environment { mcp { enabled true; } }' comment why")
	if status != http.StatusOK || !strings.Contains(body, `"number":2`) {
		t.Errorf("import: %d %s", status, body)
	}
	status, body = d.control(t, "show config history")
	if status != http.StatusOK || strings.Count(body, `"number"`) != 2 || !strings.Contains(body, "why") {
		t.Errorf("history: %d %s", status, body)
	}
}

// TestPeerCredentials: the control socket knows its caller without a secret.
func TestPeerCredentials(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	path := strings.TrimPrefix(d.url(t, "control"), "http://")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o660 {
		t.Errorf("mode of the control socket: %o", mode)
	}
	d.control(t, "show version")
	d.stop(t)
	db, err := store.Open(store.Options{Dir: d.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	records, err := db.AuditRecords(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("uid:%d", os.Getuid())
	if len(records) != 1 || records[0].Accessor != want || records[0].Command != "show version" {
		t.Errorf("audit: %+v", records)
	}
}

// TestStartIsAllOrNothing: when a door cannot open nothing is left running.
func TestStartIsAllOrNothing(t *testing.T) {
	taken := startDaemon(t, daemonOptions{config: plainConfig})
	addr := netip.MustParseAddrPort(strings.TrimPrefix(taken.url(t, "mcp"), "http://"))
	dir := filepath.Join(t.TempDir(), "data")
	appliancetest.CreateStore(t, dir, plainConfig)
	app, err := appliance.New(t.Context(), appliance.Options{
		DataDir: dir, Speaker: []string{os.Args[0], speakerArg}, Version: builtin.Version{Version: "test"}, Logger: zerolog.Nop(),
		Overrides: appliance.Overrides{MCPListen: []netip.AddrPort{addr}, MetricsListen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("start on a taken port: %v", err)
	}
	db, err := store.Open(store.Options{Dir: dir}) // the lock was given back
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}

// TestOffline: commands that only need the database run without a daemon.
func TestOffline(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	appliancetest.CreateStore(t, dir, plainConfig)
	run := func(line string) (string, error) {
		res, err := appliance.Offline(t.Context(), appliance.Options{DataDir: dir, Logger: zerolog.Nop()},
			command.Call{Principal: &access.Principal{Name: "me", Scope: access.Admin}, Surface: "cli", Line: line})
		if err != nil {
			return "", err
		}
		return string(res.JSON), nil
	}
	if out, err := run("token create ci"); err != nil || !strings.Contains(out, `"secret":"ze_`) {
		t.Errorf("create: %s %v", out, err)
	}
	if out, err := run("token list"); err != nil || !strings.Contains(out, `"ci"`) {
		t.Errorf("list: %s %v", out, err)
	}
	if _, err := run("show bgp"); command.AsError(err).Code != command.Unknown {
		t.Errorf("show bgp: %v", err)
	}
}

// TestControlSocketSparesFiles: what is no socket is never removed for one.
func TestControlSocketSparesFiles(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "notes.txt")
	appliancetest.CreateStore(t, dir, plainConfig)
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	app, err := appliance.New(t.Context(), appliance.Options{
		DataDir: dir, Control: file, Speaker: []string{os.Args[0], speakerArg}, Version: builtin.Version{Version: "test"}, Logger: zerolog.Nop(),
		Overrides: appliance.Overrides{MCPListen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, MetricsListen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("start: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}
