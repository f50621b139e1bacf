package appliance_test

import (
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/mcp/client"
	"ze.internal/ze/store"
)

// local runs a line over the control socket and wants it to succeed.
func (d *daemon) local(t *testing.T, line string) string {
	t.Helper()
	status, body := d.control(t, line)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", line, status, body)
	}
	return body
}

// failsWith wants the line to be refused with all of these words.
func failsWith(t *testing.T, err error, line string, words ...string) {
	t.Helper()
	var failed *client.ToolError
	if !errors.As(err, &failed) {
		t.Errorf("%s: %v", line, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(failed.Text, w) {
			t.Errorf("%s: %s\nwant something about %q", line, failed.Text, w)
		}
	}
}

// TestRevokeWhatARevertNeeds: while a commit waits to be confirmed, the last
// token that the configuration before can be used with stays.
func TestRevokeWhatARevertNeeds(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	d.local(t, "set environment mcp token 0123456789abcdef0123456789abcdef")
	d.local(t, "request config commit confirmed 3600")
	status, body := d.control(t, "token revoke admin")
	for _, w := range []string{"conflict", "revision 2", "revision 1", "without any token", "request config confirm", "request config rollback 1", "token create"} {
		if status == http.StatusOK || !strings.Contains(body, w) {
			t.Errorf("%d %s\nwant something about %q", status, body, w)
		}
	}
	if got := d.status(t, d.admin); got != 200 {
		t.Errorf("after a refused revocation: %d", got)
	}
	// A leaked secret is made useless all the same, and with another token the
	// revert is safe.
	d.local(t, "token rotate admin")
	if got := d.status(t, d.admin); got != 401 {
		t.Errorf("after the rotation: %d", got)
	}
	d.local(t, "token create other")
	d.local(t, "token revoke admin")
	d.local(t, "request config rollback 1")
	// With nothing waiting, the last one goes too: that is for its owner to say.
	d.local(t, "token revoke other")
}

// TestCandidateFollowsItsToken: the secrets of a token that follow each other
// share a candidate, and it goes when the token does.
func TestCandidateFollowsItsToken(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var first, second, third, anew bearer
	d.execute(t, "token create editor scope admin", &first)
	run := func(secret, line string, v any) {
		t.Helper()
		c := &daemon{mcp: d.as(t, secret)}
		c.execute(t, line, v)
	}
	changed := func(secret string) (diff string) {
		t.Helper()
		var answer struct{ Diff string }
		run(secret, "show config diff", &answer)
		return answer.Diff
	}
	run(first.Secret, "set environment instance name here", nil)
	d.execute(t, "token rotate editor overlap 10m", &second)
	run(second.Secret, "set environment log level debug", nil)
	for what, secret := range map[string]string{"the old secret": first.Secret, "the new one": second.Secret} {
		if diff := changed(secret); !strings.Contains(diff, "name here") || !strings.Contains(diff, "level debug") {
			t.Errorf("%s sees: %s", what, diff)
		}
	}
	d.execute(t, "token rotate editor", &third)
	if diff := changed(third.Secret); !strings.Contains(diff, "name here") {
		t.Errorf("after another rotation: %s", diff)
	}
	var revoked struct {
		Revoked   string
		Discarded bool `json:"discarded-candidate"`
	}
	d.execute(t, "token revoke editor", &revoked)
	if !revoked.Discarded {
		t.Errorf("%+v", revoked)
	}
	d.execute(t, "token create editor scope admin", &anew)
	if diff := changed(anew.Secret); diff != "" {
		t.Errorf("a new token of the same name has the candidate of the one before: %s", diff)
	}
	d.execute(t, "token revoke editor", &revoked)
	if revoked.Discarded {
		t.Errorf("%+v", revoked)
	}
	d.stop(t)
	db, err := store.Open(store.Options{Dir: d.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if c, err := db.Candidate(t.Context(), "editor ("+first.Accessor+")"); err == nil {
		t.Errorf("still kept: %+v", c)
	}
}

// TestTokenNamesAreTheirOwn: no token goes by the name of somebody else; one
// that does already goes on working.
func TestTokenNamesAreTheirOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	secret := appliancetest.CreateStore(t, dir, `environment { mcp { enabled true; auth-mode bearer-list; identity ci { token 0123456789abcdef0123456789abcdef; scope read; } } }`)
	db, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	old := access.Token{Name: "configured", Accessor: "old", Digest: access.DigestOf("old-secret-of-configured"), Scope: access.Admin, Created: time.Now()}
	if err := errors.Join(db.CreateToken(t.Context(), old), db.Close()); err != nil {
		t.Fatal(err)
	}
	local, err := user.LookupId("1") // every system has one, and it is not root
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{"root": "local user", "Root": "local user", "configured": "token of the configuration", "override": "flag or environment",
		"anonymous": "auth-mode none", "ze": "appliance itself", local.Username: "local user", "ci": "identity ci"}
	for name, by := range taken {
		_, err := appliance.Offline(t.Context(), appliance.Options{DataDir: dir, Logger: zerolog.Nop()},
			command.Call{Principal: &access.Principal{Name: "me", Scope: access.Admin}, Surface: "cli", Line: "token create " + name})
		if e := command.AsError(err); e == nil || e.Code != command.Invalid || e.Field != "name" || !strings.Contains(e.Message, by) {
			t.Errorf("without a daemon: %s: %v", name, err)
		}
	}
	d := startDaemon(t, daemonOptions{dir: dir})
	d.admin, d.mcp = secret, d.as(t, secret)
	for name, by := range taken {
		line := "token create " + name
		_, err := d.mcp.Call(t.Context(), "ze_execute", map[string]string{"command": line})
		failsWith(t, err, line, `"name"`, by, "choose another name")
	}
	if got := d.status(t, "old-secret-of-configured"); got != 200 {
		t.Errorf("an old token of such a name: %d", got)
	}
	var rotated bearer
	d.execute(t, "token rotate configured", &rotated)
	if got := d.status(t, rotated.Secret); got != 200 {
		t.Errorf("rotated: %d", got)
	}
	d.execute(t, "token revoke configured", nil)
}

// TestPrefixesThatMatchNothing: words to allow or deny that begin no command are
// kept and said.
func TestPrefixesThatMatchNothing(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	type made struct {
		bearer
		Warnings []string
	}
	var odd, right made
	d.execute(t, "token create odd allow [ 'shwo bgp' announce 'show bgp rib sentt' ] deny [ zzzzzzzzzz ]", &odd)
	want := `allow "shwo bgp" matches no command; did you mean "show bgp"?|` +
		`allow "show bgp rib sentt" matches no command; did you mean "show bgp rib sent"?|deny "zzzzzzzzzz" matches no command`
	if got := strings.Join(odd.Warnings, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if len(odd.Allow) != 3 || len(odd.Deny) != 1 {
		t.Errorf("not kept: %+v", odd)
	}
	d.execute(t, "token create right allow [ show 'show bgp' announce ] deny [ 'request peer' ]", &right)
	if len(right.Warnings) != 0 {
		t.Errorf("%q", right.Warnings)
	}
	// Without a daemon fewer commands can run, but no fewer exist.
	d.stop(t)
	res, err := appliance.Offline(t.Context(), appliance.Options{DataDir: d.dir, Logger: zerolog.Nop()},
		command.Call{Principal: &access.Principal{Name: "me", Scope: access.Admin}, Surface: "cli", Line: "token create late allow [ announce 'shwo bgp' ]"})
	if err != nil || strings.Contains(string(res.JSON), `allow \"announce`) || !strings.Contains(string(res.JSON), `did you mean \"show bgp\"`) {
		t.Errorf("%v %v", res, err)
	}
}

// TestListsAreNoCalls: what lists what could be called leaves a record only when
// it is refused.
func TestListsAreNoCalls(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	for _, method := range []string{"tools/list", "server/discover"} {
		if _, err := d.mcp.Do(t.Context(), method, "", nil); err != nil {
			t.Fatal(method, err)
		}
	}
	trail := func() string {
		var log struct {
			Record []struct{ Command, Outcome string }
		}
		d.execute(t, "show audit", &log)
		var said []string
		for _, r := range log.Record {
			if r.Command != "show audit" {
				said = append(said, r.Command+"/"+r.Outcome)
			}
		}
		return strings.Join(said, " ")
	}
	if got := trail(); got != "" {
		t.Errorf("lists left %s", got)
	}
	if _, err := d.mcp.Do(t.Context(), "tools/list", "", map[string]any{"cursor": "x"}); err == nil {
		t.Error("a made up cursor")
	}
	eventually(t, "the record of a refused list", func() string {
		if got := trail(); got != "/invalid" {
			return fmt.Sprintf("the log has %q", got)
		}
		return ""
	})
}
