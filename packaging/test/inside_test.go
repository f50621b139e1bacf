package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"ze.internal/ze/mcp/client"
)

// step is one step of a life, as it is reported to the outside.
type step struct {
	Name    string  `json:"step"`
	Failure string  `json:"failure,omitempty"`
	Note    string  `json:"note,omitempty"` // figures worth knowing
	Seconds float64 `json:"seconds"`
}

// failure is what a step panics with when it fails.
type failure string

func failf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// live lives the life of the packages of one format, step by step; every step is
// taken, whatever became of those before.
func live(format string) int {
	b := &box{format: formats[format]}
	code, out := 0, json.NewEncoder(os.Stdout)
	for _, s := range b.steps() {
		began := time.Now()
		report := step{Name: s.name}
		report.Note, report.Failure = take(s.run)
		report.Seconds = time.Since(began).Seconds()
		if report.Failure != "" {
			code = 1
			if s.name != "boot" {
				report.Failure += "\n" + quiet("systemctl status --no-pager --lines=15 ze.service ze.socket")
			}
		}
		_ = out.Encode(report) // nobody to tell
	}
	return code
}

// take takes a step.
func take(run func() string) (note, failed string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			failed = string(r)
		default:
			failed = fmt.Sprintf("%v\n%s", r, debug.Stack())
		}
	}()
	return run(), ""
}

// box is the machine that the life is lived on.
type box struct {
	format format
	token  string
	kept   []string // names of blobs whose storing was answered
}

// try runs a shell command and returns what it printed and its exit status.
func try(line string) (string, int) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "HOME=/root", "LC_ALL=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		failf("%s: %v", line, err)
	}
	return strings.TrimSpace(out.String()), cmd.ProcessState.ExitCode()
}

// sh is try of a command that must succeed.
func sh(line string) string {
	out, code := try(line)
	if code != 0 {
		failf("%s: exit status %d: %s", line, code, out)
	}
	return out
}

// quiet is try of a command that may fail.
func quiet(line string) string {
	out, _ := try(line)
	return out
}

func same[T comparable](what string, got, want T) {
	if got != want {
		failf("%s: %v, want %v", what, got, want)
	}
}

func holds(what, text string, parts ...string) {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			failf("%s: there is no %q in: %s", what, p, text[max(0, len(text)-500):])
		}
	}
}

// soon asks until there is no complaint any more, and returns how long it took.
func soon(what string, limit time.Duration, complaint func() string) time.Duration {
	began := time.Now()
	for {
		c := complaint()
		took := time.Since(began)
		if c == "" {
			return took
		}
		if took > limit {
			failf("%s, after %s: %s", what, limit, c)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func property(name string) string { return sh("systemctl show -P " + name + " ze.service") }

func number(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		failf("%v", err)
	}
	return n
}

func restarts() int { return number(property("NRestarts")) }

// running complains unless the service is active after more than n restarts.
func running(n int) func() string {
	return func() string {
		if state := property("ActiveState"); state != "active" || restarts() <= n {
			return fmt.Sprintf("%s, %d restarts", state, restarts())
		}
		return ""
	}
}

// processes returns the processes of the service's user.
func processes() []string { return strings.Fields(quiet("pgrep -u ze")) }

// journal returns what says what the units have written to the journal since.
func journal() (since func() string) {
	cursor := strings.TrimPrefix(sh("journalctl -q -n 1 --show-cursor | tail -1"), "-- cursor: ")
	return func() string {
		return sh("journalctl --sync; journalctl -q -u ze -u ze.socket -o cat --no-pager --after-cursor '" + cursor + "'")
	}
}

const (
	mcpAddress = "127.0.0.1:8080"
	mcpURL     = "http://" + mcpAddress + "/mcp"
)

// call calls a tool over a connection of its own.
func (b *box) call(tool string, arguments any) (json.RawMessage, error) {
	c := client.New(mcpURL, b.token, "life")
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.Call(ctx, tool, arguments)
}

// version is what a client is told where MCP usually answers.
func (b *box) version() string { return b.versionAt(client.Options{URL: mcpURL}) }

// versionAt is what a client is told that has our token unless it has its own.
func (b *box) versionAt(o client.Options) string {
	if o.Name = "life"; o.Token == "" {
		o.Token = b.token
	}
	c := client.Open(o)
	defer c.Close()
	v, err := version(c)
	if err != nil {
		failf("a call over MCP: %v", err)
	}
	return v
}

func version(c *client.Client) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	answer, err := c.Call(ctx, "ze_show", map[string]any{"action": "version"})
	if err != nil {
		return "", err
	}
	var v struct{ Version string }
	if err := json.Unmarshal(answer, &v); err != nil {
		return "", fmt.Errorf("%w in %s", err, answer)
	}
	return v.Version, nil
}

func (b *box) execute(line string) (json.RawMessage, error) {
	return b.call("ze_execute", map[string]any{"command": line})
}

// allKept fails if a blob is gone whose storing was answered.
func (b *box) allKept() {
	answer, err := b.execute("blob ls")
	if err != nil {
		failf("list the blobs: %v", err)
	}
	for _, name := range b.kept {
		if !bytes.Contains(answer, []byte(`"`+name+`"`)) {
			failf("blob %s was acknowledged and is lost; there are %s", name, answer)
		}
	}
}

// overSocket is how a client reaches the control socket.
func overSocket() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", "/run/ze/ze.sock")
	}}
}
