package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ze.internal/ze/appliance/command"
)

// controlClient talks to a running daemon over its control socket.
type controlClient struct {
	http   *http.Client
	socket string
}

// errNoDaemon says that nothing answers on the control socket.
var errNoDaemon = errors.New("no daemon answers")

func newControlClient(socket string) *controlClient {
	return &controlClient{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// execute runs a command line. The error is a *command.Error if the daemon
// answered with one, and errNoDaemon if there is none.
func (c *controlClient) execute(ctx context.Context, line string) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		return nil, fmt.Errorf("encode the command: %w", err)
	}
	return c.request(ctx, http.MethodPost, "execute", body)
}

// reference returns what may be done, as the daemon describes it.
func (c *controlClient) reference(ctx context.Context) (json.RawMessage, error) {
	return c.request(ctx, http.MethodGet, "commands", nil)
}

func (c *controlClient) request(ctx context.Context, method, path string, body []byte) (json.RawMessage, error) {
	ctx, leave := whileMain(ctx)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w on %s", errNoDaemon, c.socket)
	case errors.Is(err, syscall.EACCES):
		return nil, &exitError{code: exitPermission, err: fmt.Errorf("may not open %s: be root or join the group that owns it", c.socket)}
	case err != nil:
		return nil, fmt.Errorf("ask the daemon: %w", cmp.Or(context.Cause(ctx), err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the daemon's answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return answer, nil
	}
	var failure struct {
		Error *command.Error `json:"error"`
	}
	if err := json.Unmarshal(answer, &failure); err != nil || failure.Error == nil {
		return nil, fmt.Errorf("the daemon answered %s: %.200s", resp.Status, answer)
	}
	return nil, failure.Error
}

// whileMain returns a context that ends with the daemon's process if a service
// manager has told which that is, as for ExecReload= (systemd.service(5)). The
// manager waits for such a command before it restarts the daemon, and holds the
// socket open meanwhile: nobody would ever answer.
func whileMain(ctx context.Context) (_ context.Context, leave func()) {
	pid, err := strconv.Atoi(os.Getenv("MAINPID"))
	if err != nil || pid <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		process, err := os.FindProcess(pid)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for err == nil || errors.Is(err, os.ErrPermission) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				err = process.Signal(syscall.Signal(0))
			}
		}
		cancel(fmt.Errorf("the daemon, process %d, has ended", pid))
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// joinWords makes one command line of arguments that a shell has already split.
// Brackets and braces keep their meaning, also where they touch a word.
func joinWords(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if out[i] = a; a == "" || strings.ContainsAny(a, " \t'\"\\\n\r") && !isBracketed(a) {
			out[i] = quoteWord(a)
		}
	}
	return strings.Join(out, " ")
}

// isBracketed reports whether a holds a whole list or object, that a shell's
// quotes have kept together: '{ key a }'.
func isBracketed(a string) bool {
	a = strings.TrimSpace(a)
	return strings.HasPrefix(a, "{") && strings.HasSuffix(a, "}") || strings.HasPrefix(a, "[") && strings.HasSuffix(a, "]")
}

// quoteWord writes s so that a command line reads it as one word.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
