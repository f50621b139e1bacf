package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	input := everything(t).Input
	names := "one of " + strings.Join((input.Param("label").ChildNames()), ", ")
	tests := []struct {
		name, args string
		want       []string // "field: message; allowed[; did you mean X]"
	}{
		{"good", `{"prefixes":["192.0.2.0/24"],"zone":"XA"}`, nil},
		{"everything missing", `{}`, []string{
			"prefixes: is required; a list of values, each an IPv4 or IPv6 prefix without host bits, as 192.0.2.0/24 or 2001:db8::/32",
			"zone: is required; an X and capital letters, as XA",
		}},
		{"no object", `[]`, []string{": a list is not an object; *"}},
		{"host bits", `{"prefixes":["192.0.2.0/24","10.0.0.1/24"],"zone":"XA"}`, []string{
			`prefixes[1]: "10.0.0.1/24" has host bits set; an IPv4 or IPv6 prefix without host bits, as 192.0.2.0/24 or 2001:db8::/32; did you mean 10.0.0.0/24`,
		}},
		{"all problems in the order of declaration", `{"on":"yes","zone":"ab","prefixes":[],"big":1e3,"zzz":1,"aaa":2,"step":[{"name":"a","ip":"::1"},{"name":"","ip":"x"}]}`, []string{
			"prefixes: has 0 values; at least 1 value",
			`zone: "ab" does not have the allowed form; an X and capital letters, as XA`,
			`on: "yes" is neither true nor false; true or false`,
			`big: "1e3" is not a whole number in plain digits; an integer 0..18446744073709551615`,
			`step[1].name: "" does not have the allowed form; a letter or digit, then up to 63 letters, digits, dashes, dots or underscores`,
			`step[1].ip: "x" is not an IP address; an IPv4 or IPv6 address, as 192.0.2.1 or 2001:db8::1`,
			"aaa: is unknown; *",
			"zzz: is unknown; *",
		}},
		{"unknown name", `{"prefixes":["192.0.2.0/24"],"zone":"XA","label":{"key":"k","valeu":"v"}}`, []string{
			"label.valeu: is unknown; " + names + "; did you mean value",
		}},
		{"inside a presence container", `{"prefixes":["192.0.2.0/24"],"zone":"XA","label":{}}`, []string{"label.key: is required; text"}},
		{"inside a list", `{"prefixes":["192.0.2.0/24"],"zone":"XA","step":[{"first":"x"}]}`, []string{
			"step[0].name: is required; a letter or digit, then up to 63 letters, digits, dashes, dots or underscores",
			"step[0].ip: is required; an IPv4 or IPv6 address, as 192.0.2.1 or 2001:db8::1",
		}},
		{"too many", `{"prefixes":["192.0.2.0/24"],"zone":"XA","step":[{"name":"a","ip":"::1"},{"name":"b","ip":"::1"},{"name":"c","ip":"::1"}]}`, []string{
			"step: has 3 values; at most 2 values",
		}},
		{"wrong shapes", `{"prefixes":"192.0.2.0/24","zone":["XA"],"label":"k","timer":null,"step":{}}`, []string{
			`prefixes: "192.0.2.0/24" is not a list; a list of values, each an IPv4 or IPv6 prefix without host bits, as 192.0.2.0/24 or 2001:db8::/32`,
			"zone: a list is not a string; an X and capital letters, as XA",
			`label: "k" is not an object; an object with key, value`,
			"timer: null is not an object; an object with hold",
			"step: an object is not a list; a list of objects with name, first, ip, port, last",
		}},
		{"a secret is not repeated", `{"prefixes":["192.0.2.0/24"],"zone":"XA","secret":"hunter2"}`, []string{
			"secret: the value is not allowed; text of at least 8 characters",
		}},
		{"no arithmetic on a huge exponent", `{"prefixes":["192.0.2.0/24"],"zone":"XA","rate":1e999999999,"tiny":1e999999999}`, []string{
			`tiny: "1e999999999" is not a whole number in plain digits; an integer -128..127`,
			`rate: "1e999999999" is not a number in plain digits; a number -1.5..92233720368547758.07 with at most 2 digits after the point`,
		}},
		{"union", `{"prefixes":["192.0.2.0/24"],"zone":"XA","limit":0}`, []string{
			"limit: 0 has none of the allowed forms; an integer 1..4294967295 or unlimited",
		}},
		{"near enumeration value", `{"prefixes":["192.0.2.0/24"],"zone":"XA","origin":"ipg"}`, []string{
			`origin: "ipg" is not a known value; igp or egp; did you mean igp`,
		}},
		{"empty is true or absent", `{"prefixes":["192.0.2.0/24"],"zone":"XA","force":false}`, []string{"force: false is not true; no value"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for i, p := range input.Check(decode(t, test.args)) {
				allowed := p.Allowed
				if i < len(test.want) && strings.HasSuffix(test.want[i], "; *") && allowed != "" {
					allowed = "*"
				}
				line := fmt.Sprintf("%s: %s; %s", p.Field, p.Message, allowed)
				if p.Suggest != "" {
					line += "; did you mean " + p.Suggest
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// What a host may send by the published schema and what Check accepts must be
// the same, but for what JSON Schema cannot say: addresses, prefixes, durations
// and numbers in exponent form.
func TestCheckAgreesWithPublishedSchema(t *testing.T) {
	input := everything(t).Input
	schema := published(t, input)
	values := []any{
		nil, true, false, "", "X", "XA", "XAAA", "XAAAA", "xa", "AA", "igp", "egp", "unlimited", "12345678", "a.b-c_d", "-a",
		json.Number("0"), json.Number("-1"), json.Number("-1.5"), json.Number("-1.51"), json.Number("1"), json.Number("2"),
		json.Number("10"), json.Number("11"), json.Number("20"), json.Number("127"), json.Number("128"), json.Number("-129"), json.Number("100"),
		json.Number("65536"), json.Number("4294967296"), json.Number("18446744073709551615"), json.Number("18446744073709551616"),
		[]any{}, []any{"AA"}, []any{"AA", json.Number("1")}, map[string]any{}, map[string]any{"key": "k"}, map[string]any{"hold": json.Number("1")},
		map[string]any{"key": json.Number("1")}, map[string]any{"other": "x"},
		[]any{map[string]any{"name": "a", "ip": "::1"}}, []any{map[string]any{"name": "a"}},
	}
	names := []string{"peer", "zone", "word", "text", "on", "tiny", "big", "share", "gap", "rate", "origin", "limit", "force", "secret", "tags", "label", "timer", "step", "unknown"}
	rapid.Check(t, func(t *rapid.T) {
		args := map[string]any{"prefixes": []any{"192.0.2.0/24"}, "zone": "XA"}
		for name, v := range rapid.MapOfN(rapid.SampledFrom(names), rapid.SampledFrom(values), 0, 2).Draw(t, "args") {
			args[name] = v
		}
		err := schema.Validate(args)
		problems := input.Check(args)
		if (err == nil) != (problems == nil) {
			t.Fatalf("published schema: %v\nCheck: %v", err, problems)
		}
	})
}

func TestCheckIsSafeForConcurrentUse(t *testing.T) {
	input := everything(t).Input
	args := decode(t, `{"prefixes":["192.0.2.1/24"],"zone":"XA"}`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := len(input.Check(args)); got != 1 {
				t.Errorf("%d problems, want 1", got)
			}
			if len(input.JSONSchema()) == 0 {
				t.Error("no JSON Schema")
			}
		})
	}
	wg.Wait()
}

// prefixes returns arguments with n different prefixes.
func prefixes(n int) map[string]any {
	list := make([]any, n)
	for i := range list {
		list[i] = fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255)
	}
	return map[string]any{"prefixes": list, "zone": "XA"}
}

func TestCheckOfTheLargestAnnouncement(t *testing.T) {
	input, args := everything(t).Input, prefixes(100_000)
	input.Check(prefixes(1)) // compiles
	start := time.Now()
	if problems := input.Check(args); problems != nil {
		t.Fatal(problems[0])
	}
	// Measured: 50 ms. The bound leaves room for a busy machine and the race
	// detector, and still fails should the cost stop being linear.
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("100,000 prefixes took %v", took)
	}
	args["prefixes"].([]any)[99_999] = "10.0.0.1/8"
	if problems := input.Check(args); len(problems) != 1 || problems[0].Field != "prefixes[99999]" {
		t.Errorf("problems: %v", problems)
	}
}

func BenchmarkCheckSmall(b *testing.B) {
	input, args := everything(b).Input, prefixes(1)
	b.ReportAllocs()
	for b.Loop() {
		input.Check(args)
	}
}

func BenchmarkCheck100000(b *testing.B) {
	input, args := everything(b).Input, prefixes(100_000)
	b.ReportAllocs()
	for b.Loop() {
		input.Check(args)
	}
}
