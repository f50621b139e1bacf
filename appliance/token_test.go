package appliance_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ze.internal/ze/mcp/client"
)

type bearer struct {
	Name, Accessor, Scope, Secret string
	Allow, Deny                   []string
	Created                       time.Time
	LastUsed                      time.Time `json:"last-used"`
	Expires                       time.Time
	OldExpires                    time.Time `json:"old-secret-expires"`
}

// as returns a client with the token's secret.
func (d *daemon) as(t *testing.T, secret string) *client.Client {
	t.Helper()
	c := client.New(d.url(t, "mcp")+"/mcp", secret, "test")
	t.Cleanup(c.Close)
	return c
}

// status is how HTTP answers a call with this secret.
func (d *daemon) status(t *testing.T, secret string) int {
	t.Helper()
	_, err := d.as(t, secret).Call(t.Context(), "ze_reference", nil)
	var rpc *client.RPCError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &rpc):
		return rpc.Status
	}
	t.Fatal(err)
	return 0
}

func (d *daemon) tokens(t *testing.T) map[string]bearer {
	t.Helper()
	var list struct{ Token []bearer }
	d.execute(t, "token list", &list)
	out := map[string]bearer{}
	for _, x := range list.Token {
		if _, twice := out[x.Name]; twice || x.Secret != "" {
			t.Errorf("in the list: %+v", x)
		}
		out[x.Name] = x
	}
	return out
}

// TestTokenLife: what a token may do, when it was used, and how it ends.
func TestTokenLife(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var plain, narrow, wide, rotated bearer
	d.execute(t, "token create plain", &plain)
	d.execute(t, "token create narrow allow [ 'show version' announce ] expires 90d", &narrow)
	d.execute(t, "token create wide scope write allow [ 'token list' ] deny [ 'show bgp' ]", &wide)
	if plain.Scope != "read" || narrow.Scope != "none" || wide.Scope != "write" {
		t.Errorf("scopes: %s, %s, %s", plain.Scope, narrow.Scope, wide.Scope)
	}
	if days := time.Until(narrow.Expires).Hours() / 24; days < 89.9 || days > 90.1 {
		t.Errorf("expires in %.1f days", days)
	}
	for _, row := range []struct {
		secret, line string
		may          bool
	}{
		{plain.Secret, "show version", true}, {plain.Secret, "show bgp", true}, {plain.Secret, "token list", false}, {plain.Secret, "show audit", false}, {plain.Secret, "token create x", false},
		{narrow.Secret, "show version", true}, {narrow.Secret, "show uptime", false}, {narrow.Secret, "show bgp", false},
		{wide.Secret, "show uptime", true}, {wide.Secret, "show bgp", false}, {wide.Secret, "token list", true}, {wide.Secret, "token revoke plain", false}, {wide.Secret, "token rotate plain", false},
	} {
		_, err := d.as(t, row.secret).Call(t.Context(), "ze_execute", map[string]string{"command": row.line})
		if (err == nil) != row.may || err != nil && !strings.Contains(err.Error(), `"unknown"`) {
			t.Errorf("%s: %v", row.line, err)
		}
	}
	list := d.tokens(t)
	if x := list["narrow"]; !slices.Equal(x.Allow, []string{"show version", "announce"}) || x.LastUsed.IsZero() || x.Accessor != narrow.Accessor {
		t.Errorf("%+v", x)
	}
	if x := list["wide"]; !slices.Equal(x.Deny, []string{"show bgp"}) {
		t.Errorf("%+v", x)
	}

	// A new secret; the old one works for the overlap, one before that does not.
	d.execute(t, "token rotate narrow overlap 10m", &rotated)
	if rotated.Secret == narrow.Secret || rotated.Accessor == narrow.Accessor || !rotated.Expires.Equal(narrow.Expires) || !slices.Equal(rotated.Allow, narrow.Allow) {
		t.Errorf("rotated: %+v", rotated)
	}
	if a, b := d.status(t, narrow.Secret), d.status(t, rotated.Secret); a != 200 || b != 200 {
		t.Errorf("during the overlap: old %d, new %d", a, b)
	}
	if x := d.tokens(t)["narrow"]; x.Accessor != rotated.Accessor || time.Until(x.OldExpires) < 9*time.Minute || time.Until(x.OldExpires) > 10*time.Minute {
		t.Errorf("%+v", x)
	}
	var again bearer
	d.execute(t, "token rotate narrow", &again)
	for secret, want := range map[string]int{narrow.Secret: 401, rotated.Secret: 401, again.Secret: 200} {
		if got := d.status(t, secret); got != want {
			t.Errorf("after a rotation without overlap: %d, want %d", got, want)
		}
	}
	if x := d.tokens(t)["narrow"]; !x.OldExpires.IsZero() {
		t.Errorf("an old secret is said to work: %+v", x)
	}

	// What was used is kept over a restart, and so is what was made.
	used := d.tokens(t)["plain"].LastUsed
	d.stop(t)
	d2 := startDaemon(t, daemonOptions{dir: d.dir})
	d2.admin, d2.mcp = d.admin, d2.as(t, d.admin)
	if got := d2.tokens(t)["plain"].LastUsed; got.Before(used.Add(-time.Millisecond)) || got.IsZero() {
		t.Errorf("last use %v, was %v", got, used)
	}
	if got := d2.status(t, again.Secret); got != 200 {
		t.Errorf("a rotated secret after a restart: %d", got)
	}
	d2.execute(t, "token revoke narrow", nil)
	if got := d2.status(t, again.Secret); got != 401 {
		t.Errorf("after the revocation: %d", got)
	}

	for line, want := range map[string]string{
		"token create":                          "name",
		"token create plain":                    "exists",
		"token create x scope root":             "read",
		"token create x expires 0s":             "no time to live",
		"token create x expires soon":           "90s, 10m",
		"token create x allow [ Show ]":         "first words",
		"token create 'a b'":                    "letter or digit",
		"token rotate nobody":                   "no token named",
		"token rotate plain overlap never":      "90s, 10m",
		"token revoke nobody":                   "token list",
		"show audit since yesterday":            "how long ago",
		"show audit count 0":                    "1..1000",
		"show audit before 0":                   "1..",
		"show audit until 2026-13-01T00:00:00Z": "how long ago",
	} {
		_, err := d2.mcp.Call(t.Context(), "ze_execute", map[string]string{"command": line})
		var failed *client.ToolError
		if !errors.As(err, &failed) || !strings.Contains(failed.Text, want) {
			t.Errorf("%s: %v\nwant something about %q", line, err, want)
		}
	}
}

// TestNobodyHandsOnMoreThanTheyHave: a token that may make tokens makes no
// stronger ones.
func TestNobodyHandsOnMoreThanTheyHave(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var maker bearer
	d.execute(t, "token create maker scope read allow [ 'token create' 'token rotate' 'show audit' ] deny [ 'show bgp' ]", &maker)
	c := d.as(t, maker.Secret)
	for line, may := range map[string]bool{
		"token create a": true, "token create b allow [ 'show audit' ]": true, "token create c allow [ 'token create' ]": true,
		"token create d scope write": false, "token create e scope admin": false, "token create f allow [ announce ]": false, "token create g allow [ token ]": false,
		"token rotate admin": false,
	} {
		if _, err := c.Call(t.Context(), "ze_execute", map[string]string{"command": line}); (err == nil) != may {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if x := d.tokens(t)[name]; !slices.Contains(x.Deny, "show bgp") {
			t.Errorf("%s may do what its maker may not: %+v", name, x)
		}
	}
	if d.status(t, d.admin) != 200 {
		t.Error("the administrator was locked out")
	}
}

// TestShowAudit: every call is in the log, refused ones and those of nobody
// included, newest first, by page and by filter.
func TestShowAudit(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: newLab(t).config("")})
	type record struct {
		Seq                                                 uint64
		Phase, Principal, Surface, Remote, Command, Outcome string
		Args                                                string
	}
	type page struct {
		Record []record
		Next   uint64
	}
	show := func(filter string) (p page) {
		t.Helper()
		d.execute(t, strings.TrimSpace("show audit "+filter), &p)
		return p
	}
	d.execute(t, "announce 10.0.0.0/24 tag { key x }", nil)
	d.execute(t, "show version", nil)
	if _, err := d.mcp.Call(t.Context(), "ze_execute", map[string]string{"command": "made up"}); err == nil {
		t.Error("made up")
	}
	if status, body := d.control(t, "token create ci"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if got := d.status(t, "not-a-token-at-all"); got != http.StatusUnauthorized {
		t.Errorf("%d", got)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", d.url(t, "mcp")+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "http://evil.example")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()

	var said []string
	all := show("")
	local := show("surface cli").Record[0].Principal
	for _, r := range slices.Backward(all.Record) {
		said = append(said, strings.Join([]string{r.Phase, r.Principal, r.Surface, r.Command, r.Outcome}, "/"))
	}
	// Calls that change nothing are written together, at most 100 ms late.
	slices.Sort(said)
	want := []string{"begin/" + local + "/cli/token create/", "begin/admin/mcp/announce/", "call//mcp//forbidden", "call//mcp//unauthenticated",
		"call/admin/mcp//unknown", "call/admin/mcp/show version/ok", "end/" + local + "/cli/token create/ok", "end/admin/mcp/announce/ok"}
	slices.Sort(want)
	if !slices.Equal(said, want) {
		t.Errorf("in the log:\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	if x := show("outcome unauthenticated"); len(x.Record) != 1 || x.Record[0].Remote == "" || x.Record[0].Principal != "" {
		t.Errorf("%+v", x)
	}
	if x := show("command 'token create' surface cli"); len(x.Record) != 2 || !strings.Contains(x.Record[0].Args, `"ci"`) {
		t.Errorf("%+v", x)
	}
	if x := show("since 1h principal admin command announce"); len(x.Record) != 2 {
		t.Errorf("%+v", x)
	}
	if x := show("until 1h"); len(x.Record) != 0 {
		t.Errorf("%+v", x)
	}
	// Page by page.
	var seqs []uint64
	next := fmt.Sprint(all.Record[0].Seq + 1)
	for next != "0" {
		p := show("count 3 before " + next)
		for _, r := range p.Record {
			seqs = append(seqs, r.Seq)
		}
		next = fmt.Sprint(p.Next)
	}
	if len(seqs) != len(all.Record) || seqs[0] != all.Record[0].Seq || seqs[len(seqs)-1] != 1 {
		t.Errorf("in pages: %v", seqs)
	}
}

// TestLimitsApply: what the configuration allows a caller is what a caller gets,
// and a reload changes it.
func TestLimitsApply(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: "environment { mcp { enabled true; limit { rate 1; burst 5; } } }"})
	codes := map[int]int{}
	for range 10 {
		codes[d.status(t, d.admin)]++
	}
	if codes[200] < 5 || codes[429] < 3 || codes[200]+codes[429] != 10 {
		t.Errorf("%v", codes)
	}
	if status, body := d.control(t, "config import text 'environment { mcp { enabled true; limit { rate 100000; burst 100000; } } }'"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if err := d.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new limit", func() string {
		if got := d.status(t, d.admin); got != 200 {
			return fmt.Sprint(got)
		}
		return ""
	})
	for range 50 {
		if got := d.status(t, d.admin); got != 200 {
			t.Fatalf("with a higher limit: %d", got)
		}
	}
}
