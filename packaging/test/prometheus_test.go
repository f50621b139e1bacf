package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// deadline is for what is waited for, on a loaded machine.
const deadline = time.Minute

// need skips the test where one of the programs is missing, except in CI.
func need(t *testing.T, debian string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing := fmt.Sprintf("%s is missing: install the Debian package %s, and have /usr/sbin in PATH", p, debian)
			if os.Getenv("CI") == "true" {
				t.Fatal(missing)
			}
			t.Skip(missing)
		}
	}
}

// run runs a program to its end and returns what it printed.
func run(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// background runs a program until the test ends.
func background(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
	})
}

// eventually asks until there is no complaint any more.
func eventually(t *testing.T, what string, complaint func() string) {
	t.Helper()
	got := complaint()
	for end := time.Now().Add(deadline); got != ""; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %s", what, got)
		}
		got = complaint()
	}
}

// get returns the status, the content type and the text at an address.
func get(ctx context.Context, address string, header ...string) (status int, kind, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", "", err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b), err
}

// prometheus is a running Prometheus server.
type prometheus struct {
	t   *testing.T
	api string
}

// startPrometheus runs one with a configuration; its data is gone with the test.
func startPrometheus(t *testing.T, config string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "", "promtool", "check", "config", file)
	at := freePort(t, "127.0.0.1")
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	background(t, cmd)
	return &prometheus{t, "http://" + at + "/api/v1/"}
}

// ask calls the API and decodes the data of its answer into data.
func (p *prometheus) ask(what string, data any) error {
	_, _, body, err := get(p.t.Context(), p.api+what)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", what, answer.Error)
	}
	return nil
}

// query returns the values of an instant query.
func (p *prometheus) query(expr string) ([]float64, error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := p.ask("query?query="+url.QueryEscape(expr), &data); err != nil {
		return nil, err
	}
	var out []float64
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// is waits until a query has one value, and it is want.
func (p *prometheus) is(expr string, want float64) {
	p.t.Helper()
	eventually(p.t, expr, func() string {
		got, err := p.query(expr)
		if err != nil || len(got) != 1 || got[0] != want {
			return fmt.Sprint(got, err, ", want ", want)
		}
		return ""
	})
}

// firing returns the alerts that fire, as name and peer.
func (p *prometheus) firing() (map[string]string, error) {
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if err := p.ask("alerts", &data); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			out[a.Labels["alertname"]] = a.Labels["peer"]
		}
	}
	return out, nil
}
