//go:build !race

package appliance

import "testing"

// TestAllocations holds what a request costs the garbage collector, which does
// not depend on the machine. The race detector adds its own, so it is off.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.B)
		most int64
	}{
		{"tools/call", BenchmarkToolsCall, 38},
		{"tools/list", BenchmarkToolsList, 18},
	} {
		r := testing.Benchmark(c.run)
		t.Logf("%s: %d allocations, %d octets, %.1f µs of processor time", c.name, r.AllocsPerOp(), r.AllocedBytesPerOp(), r.Extra["cpu-µs/op"])
		if r.N == 0 || r.AllocsPerOp() > c.most {
			t.Errorf("%s: %d allocations in %d runs, want at most %d", c.name, r.AllocsPerOp(), r.N, c.most)
		}
	}
}
