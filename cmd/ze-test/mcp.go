package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ze.internal/ze/mcp/client"
)

// mcpOptions are the flags of ze-test mcp.
type mcpOptions struct {
	target
	timeout   time.Duration
	elicit    string
	tasks, ui bool
	json      bool
}

func mcpCommand() *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp (--port N | --url URL) < SCRIPT",
		Short: "Run a script of directives against an MCP server",
		Long:  "Run a script of directives, read from standard input, against an MCP server.\n\n" + directiveHelp(),
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runScript(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "for the server to answer at first, and for each directive")
	f.StringVar(&o.elicit, "elicit", "", `declare that questions can be asked: "form", "url", "form,url" or "empty"`)
	f.BoolVar(&o.tasks, "tasks", false, "declare the Tasks extension on every request")
	f.BoolVar(&o.ui, "ui", false, "declare the Apps extension on every request")
	f.BoolVar(&o.json, "json", false, "print one JSON object for each directive")
	return cmd
}

func directiveHelp() string {
	var b strings.Builder
	b.WriteString(`A line is a directive, a comment after #, or empty. The first directive that does
not pass ends the run; a tool's answer with isError does not pass.

  COMMAND
      run a command line with ` + executeTool + `
  @TOOL [JSON]
      call a tool
`)
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %s\n      %s\n", k.form, k.about)
	}
	b.WriteString("\nID is a task's, or " + lastTask + ".\n\n" + pathHelp)
	return b.String()
}

// capabilities returns what the client declares.
func (o *mcpOptions) capabilities() (map[string]any, error) {
	out := map[string]any{}
	extensions := map[string]any{}
	switch o.elicit {
	case "":
	case "empty":
		out["elicitation"] = struct{}{}
	default:
		modes := map[string]any{}
		for mode := range strings.SplitSeq(o.elicit, ",") {
			if mode != "form" && mode != "url" {
				return nil, usagef("--elicit %q: not a mode; allowed: form, url, both with a comma, or empty", o.elicit)
			}
			modes[mode] = struct{}{}
		}
		out["elicitation"] = modes
	}
	if o.tasks {
		extensions["io.modelcontextprotocol/tasks"] = struct{}{}
	}
	if o.ui {
		extensions["io.modelcontextprotocol/ui"] = map[string][]string{"mimeTypes": {"text/html;profile=mcp-app"}}
	}
	if len(extensions) > 0 {
		out["extensions"] = extensions
	}
	return out, nil
}

// pollInterval is between two looks at something that is waited for.
const pollInterval = 100 * time.Millisecond

// runner is one run of a script.
type runner struct {
	client  *client.Client
	timeout time.Duration

	line  int             // of the directive that runs
	last  json.RawMessage // answer
	task  string          // id of the last task called
	queue []answer
	extra string
	probe probe
}

// runScript reads a script and runs it.
func runScript(ctx context.Context, o mcpOptions, in io.Reader, out io.Writer) error {
	if err := o.complete(); err != nil {
		return err
	}
	capabilities, err := o.capabilities()
	if err != nil {
		return err
	}
	if o.timeout <= 0 {
		return usagef("--timeout %s: must be more than nothing", o.timeout)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	script, err := parseScript(string(text))
	if err != nil {
		return err
	}
	transport, err := o.transport()
	if err != nil {
		return err
	}
	c := client.Open(client.Options{URL: o.address, Token: o.token, Name: "ze-test", Capabilities: capabilities, Transport: transport})
	defer c.Close()
	host, _ := o.host()
	if err := awaitPort(ctx, host, o.timeout); err != nil {
		return err
	}
	r := &runner{client: c, timeout: o.timeout}
	report := textReport(out)
	if o.json {
		report = jsonReport(out)
	}
	for _, d := range script {
		start := time.Now()
		got, err := r.do(ctx, d)
		if e := report(d, got, time.Since(start), err); e != nil {
			return fmt.Errorf("print the result: %w", e)
		}
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", d.line, d.text, err)
		}
	}
	if len(r.queue) > 0 {
		return fmt.Errorf("line %d: the answer was queued, but nothing was asked", r.queue[0].line)
	}
	return nil
}

// do runs one directive.
func (r *runner) do(ctx context.Context, d directive) (outcome, error) {
	if !d.untimed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("it took longer than %s; see --timeout", r.timeout))
		defer cancel()
	}
	r.line = d.line
	got, err := d.step(ctx, r)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	if err == nil && got.answer != nil {
		r.last = got.answer
	}
	return got, err
}

// until looks again and again until missing is empty.
func (r *runner) until(ctx context.Context, look func(ctx context.Context) (missing string, err error)) error {
	last := "nothing was answered"
	for {
		missing, err := look(ctx)
		switch {
		case err == nil && missing == "":
			return nil
		case notLetIn(err):
			return err
		case err == nil:
			last = missing
		case ctx.Err() == nil:
			last = err.Error()
		}
		if err := sleep(ctx, pollInterval); errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("not within %s: %s", r.timeout, last)
		} else if err != nil {
			return err
		}
	}
}

// notLetIn reports whether err says that the token is not good enough, which no
// waiting can mend.
func notLetIn(err error) bool {
	var (
		rpc    *client.RPCError
		status *client.StatusError
		code   int
	)
	switch {
	case errors.As(err, &rpc):
		code = rpc.Status
	case errors.As(err, &status):
		code = status.Status
	}
	return code == http.StatusUnauthorized || code == http.StatusForbidden
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitPort returns when the server takes connections.
func awaitPort(ctx context.Context, host string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := pollInterval; ; wait = min(2*wait, time.Second) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err == nil {
			return c.Close()
		}
		if sleep(ctx, wait) != nil {
			return fmt.Errorf("no server answered within %s: %w", limit, err)
		}
	}
}

// reporter prints what came of a directive.
type reporter func(d directive, got outcome, took time.Duration, err error) error

func textReport(w io.Writer) reporter {
	return func(_ directive, got outcome, _ time.Duration, _ error) error {
		if got.text == "" {
			return nil
		}
		_, err := fmt.Fprintln(w, got.text)
		return err
	}
}

func jsonReport(w io.Writer) reporter {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(d directive, got outcome, took time.Duration, err error) error {
		out := struct {
			Line      int             `json:"line"`
			Directive string          `json:"directive"`
			Passed    bool            `json:"passed"`
			Took      float64         `json:"milliseconds"`
			Answer    json.RawMessage `json:"answer,omitempty"`
			Error     string          `json:"error,omitempty"`
		}{d.line, d.text, err == nil, float64(took.Microseconds()) / 1000, got.answer, ""}
		if err != nil {
			out.Error = err.Error()
		}
		return enc.Encode(out)
	}
}
