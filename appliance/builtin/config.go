package builtin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
)

// revision describes one kept configuration.
type revision struct {
	Number  uint64    `json:"number"`
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`
	How     string    `json:"how"`
	Comment string    `json:"comment,omitempty"`
	Digest  string    `json:"digest"`
}

func revisionView(r config.Revision) revision {
	return revision{r.Number, r.Time.UTC(), r.Who, r.How, r.Comment, r.Digest}
}

// committed tells what became of a commit.
type committed struct {
	Number  uint64 `json:"number"`
	Digest  string `json:"digest"`
	Applied bool   `json:"applied"`
}

// drafted describes a candidate after a change of it.
type drafted struct {
	Base     uint64    `json:"base"`
	Modified time.Time `json:"modified,omitzero"`
}

func (d Deps) config(r runs) {
	d.configCandidate(r)
	d.configCommit(r)
	d.configShow(r)
}

// concealed are the commands whose words may be secrets, though not all are.
func (d Deps) concealed(rpc string) func(args map[string]any) map[string]any {
	if rpc != "set" && rpc != "delete" {
		return nil
	}
	return func(args map[string]any) map[string]any {
		words, _ := args["words"].([]any)
		texts := make([]string, len(words))
		for i, w := range words {
			texts[i], _ = w.(string)
		}
		return map[string]any{"words": d.Config.MaskWords(texts)}
	}
}

func (d Deps) configCandidate(r runs) {
	change := func(do func(ctx context.Context, owner string, words []string) (config.Candidate, error)) command.Run {
		return func(ctx context.Context, r *command.Request) (any, error) {
			var in struct {
				Words []string `json:"words"`
			}
			if err := r.Bind(&in); err != nil {
				return nil, err
			}
			c, err := do(ctx, r.Principal.Owner(), in.Words)
			return drafted{c.Base, c.Modified}, configError(err, "words")
		}
	}
	r["set"] = change(d.Config.Set)
	r["delete"] = change(d.Config.Delete)
	r["config-load"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Text string `json:"text"`
			Base uint64 `json:"base"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		c, err := d.Config.Load(ctx, r.Principal.Owner(), []byte(in.Text), in.Base)
		return drafted{c.Base, c.Modified}, configError(err, "text")
	}
	r["request-config-discard"] = func(ctx context.Context, r *command.Request) (any, error) {
		err := d.Config.Discard(ctx, r.Principal.Owner())
		discarded := !errors.Is(err, config.ErrNoCandidate)
		if !discarded {
			err = nil
		}
		return struct {
			Discarded bool `json:"discarded"`
		}{discarded}, configError(err, "")
	}
	r["request-config-validate"] = func(ctx context.Context, r *command.Request) (any, error) {
		err := d.Config.Validate(ctx, r.Principal.Owner())
		return struct {
			Valid bool `json:"valid"`
		}{true}, configError(err, "")
	}
}

// mayCommit refuses principals that are limited in any way: a configuration can
// hand out every right, also those they do not have.
func mayCommit(p *access.Principal) error {
	if p.Scope >= access.Admin && len(p.Deny) == 0 {
		return nil
	}
	return &command.Error{Code: command.Forbidden, Message: "a configuration can hand out every right, so committing one takes scope admin and no denied commands",
		Actions: []string{"have an administrator commit it; show config diff shows your candidate"}}
}

func (d Deps) configCommit(r runs) {
	done := func(rev config.Revision) committed {
		return committed{rev.Number, rev.Digest, d.Config.Applies()}
	}
	r["request-config-commit"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Confirmed int64  `json:"confirmed"`
			Comment   string `json:"comment"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		if err := mayCommit(r.Principal); err != nil {
			return nil, err
		}
		rev, until, err := d.Config.Commit(ctx, r.Principal.Owner(), config.CommitOptions{
			Who: r.Principal.Name, Comment: in.Comment, Confirm: time.Duration(in.Confirmed) * time.Second,
		})
		return struct {
			committed    `json:",inline"`
			ConfirmUntil time.Time `json:"confirm-until,omitzero"`
		}{done(rev), until}, configError(err, "")
	}
	r["request-config-confirm"] = func(ctx context.Context, r *command.Request) (any, error) {
		c, err := d.Config.Confirm(ctx, r.Principal.Name)
		return struct {
			Number uint64 `json:"number"`
		}{c.Revision}, configError(err, "")
	}
	r["request-config-rollback"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Number uint64 `json:"number"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		if err := mayCommit(r.Principal); err != nil {
			return nil, err
		}
		rev, err := d.Config.Rollback(ctx, r.Principal.Name, in.Number)
		return done(rev), configError(err, "number")
	}
	r["config-import"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Text    string `json:"text"`
			Comment string `json:"comment"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		if err := mayCommit(r.Principal); err != nil {
			return nil, err
		}
		rev, err := d.Config.Import(ctx, r.Principal.Name, []byte(in.Text), in.Comment)
		return done(rev), configError(err, "text")
	}
}

// setting describes one node of the configuration model.
type setting struct {
	Path        string `json:"path"`
	Type        string `json:"type"`
	Allowed     string `json:"allowed,omitempty"`
	List        bool   `json:"list"`
	Mandatory   bool   `json:"mandatory"`
	Default     string `json:"default,omitempty"`
	Description string `json:"description"`
}

// settings appends what stands below nodes. within are the words that lead to
// them, path the same with the keys of list entries.
func settings(out []setting, nodes []*schema.Node, within, path []string, want []string) []setting {
	for _, n := range nodes {
		words, shown := append(slices.Clip(within), n.Name), append(slices.Clip(path), n.Name)
		if !agree(words, want) {
			continue
		}
		if n.Kind == schema.List {
			shown = append(shown, "<"+n.Key+">")
		}
		if len(words) >= len(want) {
			out = append(out, describeSetting(n, shown))
		}
		children := slices.DeleteFunc(slices.Clone(n.Children), func(c *schema.Node) bool { return c.Name == n.Key })
		out = settings(out, children, words, shown, want)
	}
	return out
}

// agree reports whether one of a and b begins with the other.
func agree(a, b []string) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

func describeSetting(n *schema.Node, path []string) setting {
	s := setting{Path: strings.Join(path, " "), Type: "block", Mandatory: n.Mandatory, Default: strings.Join(n.Default, " "),
		List: n.Kind == schema.List || n.Kind == schema.LeafList, Description: strings.Join(strings.Fields(n.Description), " ")}
	if n.Type != nil {
		s.Type, s.Allowed = n.Type.Name, n.Type.Allowed()
	}
	return s
}

func (d Deps) configShow(r runs) {
	r["show-config-reference"] = func(_ context.Context, r *command.Request) (any, error) {
		var in struct {
			Below []string `json:"below"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		found := settings([]setting{}, d.Config.Model().Children, nil, nil, in.Below)
		if len(found) == 0 {
			return nil, &command.Error{Code: command.NotFound, Field: "below", Message: fmt.Sprintf("there is no setting %q", strings.Join(in.Below, " ")),
				Actions: []string{"show config reference"}}
		}
		return struct {
			Settings []setting `json:"setting"`
		}{found}, nil
	}
	r["config-export"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Secrets bool `json:"secrets"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		if in.Secrets && r.Principal.Scope < access.Admin {
			return nil, &command.Error{Code: command.Forbidden, Field: "secrets", Message: "needs the scope admin",
				Actions: []string{"leave it out; a masked secret stands for the present one when the text is imported"}}
		}
		rev, err := d.Config.Running(ctx)
		text := rev.Text
		if err == nil && !in.Secrets {
			text, err = d.Config.Show(rev.Text, nil)
		}
		return struct {
			Number uint64 `json:"number"`
			Text   string `json:"text"`
		}{rev.Number, string(text)}, configError(err, "")
	}
	r["show-config-running"] = func(ctx context.Context, r *command.Request) (any, error) {
		rev, err := d.Config.Running(ctx)
		if err != nil {
			return nil, configError(err, "")
		}
		text, err := d.part(r, rev.Text)
		if err != nil {
			return nil, err
		}
		wait, err := d.Config.Waiting(ctx)
		if errors.Is(err, config.ErrNoConfirm) {
			err = nil
		}
		return struct {
			Number       uint64    `json:"number"`
			ConfirmUntil time.Time `json:"confirm-until,omitzero"`
			Text         string    `json:"text"`
		}{rev.Number, wait.Deadline.UTC(), text}, err
	}
	r["show-config-candidate"] = func(ctx context.Context, r *command.Request) (any, error) {
		c, err := d.Config.Candidate(ctx, r.Principal.Owner())
		if err != nil {
			return nil, configError(err, "")
		}
		text, err := d.part(r, c.Text)
		return struct {
			drafted `json:",inline"`
			Text    string `json:"text"`
		}{drafted{c.Base, c.Modified}, text}, err
	}
	r["show-config-revision"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Number uint64 `json:"number"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		rev, err := d.Config.Revision(ctx, in.Number)
		if err != nil {
			return nil, configError(err, "number")
		}
		text, err := d.part(r, rev.Text)
		return struct {
			revision `json:",inline"`
			Text     string `json:"text"`
		}{revisionView(rev), text}, err
	}
	r["show-config-diff"] = func(ctx context.Context, r *command.Request) (any, error) {
		diff, err := d.Config.Diff(ctx, r.Principal.Owner())
		return struct {
			Changed bool   `json:"changed"`
			Diff    string `json:"diff"`
		}{diff != "", diff}, configError(err, "")
	}
	r["show-config-history"] = func(ctx context.Context, _ *command.Request) (any, error) {
		all, err := d.Config.History(ctx)
		out := struct {
			Revisions []revision `json:"revision"`
		}{make([]revision, len(all))}
		for i, rev := range all {
			out.Revisions[i] = revisionView(rev)
		}
		return out, configError(err, "")
	}
}

// part shows a configuration, or the part that the call's words name.
func (d Deps) part(r *command.Request, text []byte) (string, error) {
	var in struct {
		Words []string `json:"words"`
	}
	if err := r.Bind(&in); err != nil {
		return "", err
	}
	shown, err := d.Config.Show(text, in.Words)
	return string(shown), configError(err, "words")
}
