package conformance

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// serve starts the fixtures and returns their URL.
func serve(t *testing.T) string {
	t.Helper()
	s, err := New(t.Context(), Options{Logger: zerolog.Nop(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return h.URL + "/mcp"
}

// verdict matches what the suite says of one scenario.
var verdict = regexp.MustCompile(`(?m)^([✓✗]) ([a-z0-9-]+): (\d+) passed, (\d+) failed`)

// score returns the checks that passed, by scenario. Any that failed fail the
// test. A number is not enough for a verdict: scenarios of a server that cannot
// be reached pass vacuously, so what must have passed is written down below.
func (p program) score(t *testing.T) map[string]int {
	t.Helper()
	passed := map[string]int{}
	for _, m := range verdict.FindAllStringSubmatch(p.stdout, -1) {
		n, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		passed[m[2]] = n
		if m[1] != "✓" || m[4] != "0" {
			t.Errorf("%s: %s checks failed", m[2], m[4])
		}
	}
	if p.code != 0 {
		t.Errorf("the suite ended with code %d", p.code)
	}
	if t.Failed() {
		t.Log(p.tail())
	}
	return passed
}

// hold compares a score with the known one.
func hold(t *testing.T, got, want map[string]int) {
	t.Helper()
	if len(got) == 0 {
		t.Error("no scenario was run")
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d checks passed, want %d", name, got[name], n)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("scenario %s is new: write down how many of its checks pass", name)
		}
	}
}

// TestRequirements runs the whole frozen set of revision 2026-07-28: the 37
// scenarios that are scored, those that are pending, and those of the Tasks
// extension, against the fixtures.
func TestRequirements(t *testing.T) {
	p := node(t, nil, suiteScript, "server", "--url", serve(t), "--requirements", "2026-07-28", "-o", t.TempDir(), "--timeout", "90000")
	hold(t, p.score(t), requirements())
	for line := range strings.Lines(p.stdout) {
		if strings.Contains(line, "WARN") {
			t.Error(strings.TrimSpace(line))
		}
	}
}

// single matches what the suite says when it runs one scenario.
var single = regexp.MustCompile(`(?m)^Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings`)

// runOne runs one scenario, also one of an extension, and holds it to the known
// number of checks.
func runOne(t *testing.T, url, scenario string, want int) {
	t.Helper()
	p := node(t, nil, suiteScript, "server", "--url", url, "--scenario", scenario, "--spec-version", "2026-07-28", "--force")
	m := single.FindStringSubmatch(p.stdout)
	total := strconv.Itoa(want)
	if m == nil || m[1] != total || m[2] != total || m[3] != "0" || m[4] != "0" || p.code != 0 {
		t.Errorf("want %d checks, all passed, and code 0; got code %d\n%s", want, p.code, p.tail())
	}
}

// TestTasks forces each scenario of the Tasks extension, the one that checks
// nothing yet apart.
func TestTasks(t *testing.T) {
	url := serve(t)
	for name, want := range requirements() {
		if strings.HasPrefix(name, "tasks-") && want > 0 {
			t.Run(name, func(t *testing.T) { runOne(t, url, name, want) })
		}
	}
}

// requirements are the checks of each scenario: what is required first, then the
// Tasks extension, then what is pending.
func requirements() map[string]int {
	return map[string]int{
		"server-stateless":                              30,
		"completion-complete":                           2,
		"tools-list":                                    4,
		"tools-call-simple-text":                        2,
		"tools-call-image":                              2,
		"tools-call-audio":                              2,
		"tools-call-embedded-resource":                  2,
		"tools-call-mixed-content":                      2,
		"tools-call-error":                              2,
		"tools-call-with-progress":                      2,
		"server-sse-multiple-streams":                   1,
		"resources-list":                                2,
		"resources-read-text":                           2,
		"resources-read-binary":                         2,
		"resources-templates-read":                      2,
		"sep-2164-resource-not-found":                   4,
		"prompts-list":                                  2,
		"prompts-get-simple":                            2,
		"prompts-get-with-args":                         2,
		"prompts-get-embedded-resource":                 2,
		"prompts-get-with-image":                        2,
		"dns-rebinding-protection":                      2,
		"caching":                                       8,
		"input-required-result-basic-elicitation":       3,
		"input-required-result-basic-sampling":          3,
		"input-required-result-basic-list-roots":        3,
		"input-required-result-request-state":           3,
		"input-required-result-multiple-input-requests": 3,
		"input-required-result-multi-round":             4,
		"input-required-result-missing-input-response":  2,
		"input-required-result-non-tool-request":        3,
		"input-required-result-result-type":             2,
		"input-required-result-unsupported-methods":     2,
		"input-required-result-tampered-state":          2,
		"input-required-result-capability-check":        2,
		"input-required-result-ignore-extra-params":     2,
		"input-required-result-validate-input":          3,
		"tasks-lifecycle":                               9,
		"tasks-capability-negotiation":                  5,
		"tasks-wire-fields":                             4,
		"tasks-request-state-removal":                   3,
		"tasks-mrtr-input":                              4,
		"tasks-request-headers":                         5,
		"tasks-dispatch-and-envelope":                   9,
		"tasks-status-notifications":                    0,
		"tasks-required-task-error":                     3,
		"tasks-mrtr-composition":                        2,
		"json-schema-2020-12":                           8,
		"http-header-validation":                        14,
		"http-custom-header-server-validation":          10,
	}
}
