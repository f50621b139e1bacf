package appliance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestReloadMetrics: a refused configuration shows until another one is applied,
// and leaves the time of the running one alone.
func TestReloadMetrics(t *testing.T) {
	now := time.Unix(1_800_000_000, 250_000_000)
	m := newReloadMetrics(func() time.Time { return now })
	registry := prometheus.NewPedanticRegistry()
	for _, c := range m.collectors() {
		registry.MustRegister(c)
	}
	holds := func(text string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	const begun = `
# HELP ze_config_last_reload_success_timestamp_seconds When the running configuration came into force.
# TYPE ze_config_last_reload_success_timestamp_seconds gauge
ze_config_last_reload_success_timestamp_seconds 1.80000000025e+09
# HELP ze_config_last_reload_successful Whether the last configuration that was to replace the running one did.
# TYPE ze_config_last_reload_successful gauge
ze_config_last_reload_successful 1
# HELP ze_config_reloads_total Configurations that were to replace the running one, by outcome.
# TYPE ze_config_reloads_total counter
ze_config_reloads_total{outcome="applied"} 0
ze_config_reloads_total{outcome="refused"} 0
`
	m.inForce()
	holds(begun)
	now = now.Add(100 * time.Second)
	m.processed(errors.New("refused"))
	refused := strings.NewReplacer("successful 1\n", "successful 0\n", `"refused"} 0`, `"refused"} 1`).Replace(begun)
	holds(refused)
	m.processed(nil)
	holds(strings.NewReplacer("successful 0\n", "successful 1\n", `"applied"} 0`, `"applied"} 1`, "1.80000000025e", "1.80000010025e").Replace(refused))
}
