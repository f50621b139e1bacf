package appliance_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestNotReadyWithoutSpeaker: readiness says so when BGP is configured and its
// process does not come up; without BGP it does not matter.
func TestNotReadyWithoutSpeaker(t *testing.T) {
	broken := []string{os.Args[0], "-test.run=^$", "-test.count=1"} // ends at once
	d := startDaemon(t, daemonOptions{config: newLab(t).config(""), speaker: broken})
	eventually(t, "readiness", func() string {
		status, body := get(t, d.url(t, "metrics")+"/readyz")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "the BGP speaker is not running") {
			return body
		}
		if _, body := get(t, d.url(t, "metrics")+"/metrics"); !strings.Contains(body, "\nze_ready 0\n") {
			return "it counts as ready"
		}
		return ""
	})
	d = startDaemon(t, daemonOptions{config: plainConfig, speaker: broken})
	if status, body := get(t, d.url(t, "metrics")+"/readyz"); status != http.StatusOK {
		t.Errorf("without BGP: %d %s", status, body)
	}
}
