package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"ze.internal/ze/appliance/schema"
)

// leafType loads the type statement text and returns its Type.
func leafType(t *testing.T, text string) *schema.Type {
	t.Helper()
	set, err := schema.Load([]schema.Source{module("m", "container c { leaf l { type "+text+" } }")})
	if err != nil {
		t.Fatal(err)
	}
	return set.Data().Child("c").Child("l").Type
}

func TestParse(t *testing.T) {
	hex := strings.Repeat("a", 64)
	tests := []struct {
		typ, allowed string
		good         []string
		bad          []string // "text: message[; did you mean X]"
	}{
		{"int8;", "an integer -128..127", []string{"-128", "0", "127"}, []string{
			"-129: -129 is out of range", "128: 128 is out of range", `: "" is not a whole number in plain digits`,
			`+1: "+1" is not a whole number in plain digits`, `01: "01" is not a whole number in plain digits`, `1.0: 1.0 is not a whole number in plain digits`,
			`0x1: "0x1" is not a whole number in plain digits`, `1e2: "1e2" is not a whole number in plain digits`, `-: "-" is not a whole number in plain digits`,
			`--1: "--1" is not a whole number in plain digits`,
		}},
		{"int16;", "an integer -32768..32767", []string{"-32768", "32767"}, []string{"-32769: -32769 is out of range", "32768: 32768 is out of range"}},
		{"int32;", "an integer -2147483648..2147483647", []string{"-2147483648", "2147483647"}, []string{"-2147483649: -2147483649 is out of range", "2147483648: 2147483648 is out of range"}},
		{"int64;", "an integer -9223372036854775808..9223372036854775807", []string{"-9223372036854775808", "9223372036854775807"},
			[]string{"-9223372036854775809: -9223372036854775809 is out of range", "9223372036854775808: 9223372036854775808 is out of range"}},
		{"uint8;", "an integer 0..255", []string{"0", "255"}, []string{"-1: -1 is out of range", "256: 256 is out of range"}},
		{"uint16;", "an integer 0..65535", []string{"0", "65535"}, []string{"65536: 65536 is out of range"}},
		{"uint32;", "an integer 0..4294967295", []string{"0", "4294967295"}, []string{"4294967296: 4294967296 is out of range"}},
		{"uint64;", "an integer 0..18446744073709551615", []string{"0", "18446744073709551615"}, []string{
			"18446744073709551616: 18446744073709551616 is out of range", strings.Repeat("9", 41) + `: "` + strings.Repeat("9", 41) + `" is not a whole number in plain digits`}},
		{"uint8 { range \"1..3 | 7 | 9..max\"; }", "an integer 1..3, 7 or 9..255", []string{"1", "3", "7", "9", "255"}, []string{"0: 0 is out of range", "4: 4 is out of range", "8: 8 is out of range"}},
		{"decimal64 { fraction-digits 2; range \"0..1.25\"; }", "a number 0..1.25 with at most 2 digits after the point", []string{"0", "1.25", "1.2", "0.00"}, []string{
			"1.26: 1.26 is out of range", "1.251: 1.251 has more than 2 digits after the point", "-0.01: -0.01 is out of range", `.5: ".5" is not a number in plain digits`,
			`1.: "1." is not a number in plain digits`, `1e0: "1e0" is not a number in plain digits`, `x: "x" is not a number in plain digits`}},
		{"boolean;", "true or false", []string{"true", "false"}, []string{`True: "True" is neither true nor false`, `: "" is neither true nor false`, `1: "1" is neither true nor false`}},
		{"empty;", "no value", []string{""}, []string{`true: "true" follows a name that takes no value`}},
		{"enumeration { enum igp; enum egp; enum incomplete; }", "igp, egp or incomplete", []string{"igp", "incomplete"}, []string{
			`IGP: "IGP" is not a known value; did you mean igp`, `incomplet: "incomplet" is not a known value; did you mean incomplete`, `: "" is not a known value`, `bgp4: "bgp4" is not a known value`}},
		{"string;", "text", []string{"", "a b", "é"}, nil},
		{"string { length \"1..3\"; }", "text of 1..3 characters", []string{"a", "éèê"}, []string{`: "" has 0 characters`, `abcd: "abcd" has 4 characters`}},
		{"string { length 0..3; }", "text of at most 3 characters", []string{""}, []string{`abcd: "abcd" has 4 characters`}},
		{"string { length \"2..max\"; }", "text of at least 2 characters", []string{"ab"}, []string{`a: "a" has 1 character`}},
		{"string { length \"2 | 4\"; pattern 'a*|b'; }", "text of 2 or 4 characters, matching a*|b", []string{"aa", "aaaa"}, []string{`aaa: "aaa" has 3 characters`, `ab: "ab" does not have the allowed form`}},
		{"union { type uint8; type enumeration { enum all; } type string { pattern 'x.*'; } }", "an integer 0..255 or all or text, matching x.*", []string{"1", "all", "x9"}, []string{`256: "256" has none of the allowed forms`}},
		{"zt:port;", "an integer 1..65535", []string{"1", "65535"}, []string{"0: 0 is out of range", "65536: 65536 is out of range"}},
		{"zt:as-number;", "an integer 1..4294967295", []string{"1", "4294967295"}, []string{"0: 0 is out of range"}},
		{"zt:family;", "ipv4/unicast or ipv6/unicast", []string{"ipv4/unicast", "ipv6/unicast"}, []string{`ipv4: "ipv4" is not a known value; did you mean ipv4/unicast`}},
		{"zt:name;", "a letter or digit, then up to 63 letters, digits, dashes, dots or underscores", []string{"a", "9", "a.b-c_D", hex}, []string{
			`: "" does not have the allowed form`, `-a: "-a" does not have the allowed form`, `a/b: "a/b" does not have the allowed form`, "a\n: \"a\\n\" does not have the allowed form",
			hex + "a: \"" + hex[:60] + "…\" does not have the allowed form"}},
		{"zt:ip-address;", "an IPv4 or IPv6 address, as 192.0.2.1 or 2001:db8::1", []string{"192.0.2.1", "::", "2001:DB8::1"}, []string{
			`192.0.2: "192.0.2" is not an IP address`, `fe80::1%eth0: "fe80::1%eth0" has a zone; did you mean fe80::1`, `192.0.2.01: "192.0.2.01" is not an IP address`,
			`::ffff:192.0.2.1: "::ffff:192.0.2.1" is an IPv4 address in IPv6 form; did you mean 192.0.2.1`, `192.0.2.0/24: "192.0.2.0/24" is not an IP address`}},
		{"zt:ipv4-address;", "an IPv4 address, as 192.0.2.1", []string{"0.0.0.0", "255.255.255.255"}, []string{`::1: "::1" is not an IPv4 address`, `256.0.0.0: "256.0.0.0" is not an IPv4 address`}},
		{"zt:ipv6-address;", "an IPv6 address, as 2001:db8::1", []string{"::1"}, []string{`192.0.2.1: "192.0.2.1" is not an IPv6 address`}},
		{"zt:ip-prefix;", "an IPv4 or IPv6 prefix without host bits, as 192.0.2.0/24 or 2001:db8::/32", []string{"0.0.0.0/0", "192.0.2.1/32", "::/0", "2001:db8::/32"}, []string{
			`10.0.0.1/24: "10.0.0.1/24" has host bits set; did you mean 10.0.0.0/24`, `2001:db8::1/64: "2001:db8::1/64" has host bits set; did you mean 2001:db8::/64`,
			`192.0.2.1: "192.0.2.1" has no prefix length; did you mean 192.0.2.1/32`, `192.0.2.0/33: "192.0.2.0/33" is not an IP prefix`, `192.0.2.0/024: "192.0.2.0/024" is not an IP prefix`,
			`::ffff:192.0.2.0/120: "::ffff:192.0.2.0/120" is an IPv4 prefix in IPv6 form`, `fe80::%eth0/64: "fe80::%eth0/64" is not an IP prefix`}},
		{"zt:ipv4-prefix;", "an IPv4 prefix without host bits, as 192.0.2.0/24", []string{"192.0.2.0/24"}, []string{`2001:db8::/32: "2001:db8::/32" is not an IPv4 prefix`, `::1: "::1" is not an IPv4 prefix`}},
		{"zt:ipv6-prefix;", "an IPv6 prefix without host bits, as 2001:db8::/32", []string{"2001:db8::/32"}, []string{`192.0.2.0/24: "192.0.2.0/24" is not an IPv6 prefix`}},
		{"zt:duration;", "a whole number and a unit s, m, h or d, as 90s, 10m, 2h or 1d", []string{"0s", "90s", "10m", "2h", "1d", "106751d"}, []string{
			`90: "90" is not a duration`, `s: "s" is not a duration`, `1hm: "1hm" is not a duration`, `1.5h: "1.5h" is not a duration`, `-1s: "-1s" is not a duration`, `1w: "1w" is not a duration`,
			`106752d: "106752d" is too long a duration`, `99999999999999999999s: "99999999999999999999s" is too long a duration`}},
		{"zt:date-and-time;", "a date and time with zone, as 2026-11-30T12:00:00Z", []string{"2026-11-30T12:00:00Z", "2026-11-30T12:00:00.5+01:00"}, []string{
			`2026-11-30: "2026-11-30" is not a date and time`, `2026-11-30T12:00:00: "2026-11-30T12:00:00" is not a date and time`, `2026-02-30T12:00:00Z: "2026-02-30T12:00:00Z" is not a date and time`}},
	}
	for _, test := range tests {
		t.Run(test.typ, func(t *testing.T) {
			typ := leafType(t, test.typ)
			if got := typ.Allowed(); got != test.allowed {
				t.Errorf("allowed: %q, want %q", got, test.allowed)
			}
			for _, text := range test.good {
				v, err := typ.Parse(text)
				if err != nil {
					t.Errorf("%q: %v", text, err)
				} else if got := form(v); got != text && typ.Base != schema.Empty {
					t.Errorf("%q became %q", text, got)
				}
			}
			for _, line := range test.bad {
				// The value may hold ": " itself; the message begins with it.
				at := strings.LastIndex(line, ": ")
				text, want := line[:at], line[at+2:]
				_, err := typ.Parse(text)
				var wrong *schema.ValueError
				if !errors.As(err, &wrong) {
					t.Errorf("%q: error is %v", text, err)
					continue
				}
				got := wrong.Message
				if wrong.Suggest != "" {
					got += "; did you mean " + wrong.Suggest
				}
				if got != want {
					t.Errorf("%q: got %q, want %q", text, got, want)
				}
			}
		})
	}
}

func form(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return "?"
}

func TestParseGivesJSONValues(t *testing.T) {
	limit := leafType(t, "union { type uint8; type boolean; type string; }")
	for text, want := range map[string]any{"7": json.Number("7"), "true": true, "300": "300"} {
		if got, err := limit.Parse(text); err != nil || got != want {
			t.Errorf("%s: %#v, %v; want %#v", text, got, err, want)
		}
	}
	if got, err := leafType(t, "empty;").Parse(""); err != nil || got != true {
		t.Errorf("empty: %#v, %v", got, err)
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"peer", "prefix-limit", "passive", "password", "local"}
	for word, want := range map[string]string{
		"peers": "peer", "peeer": "peer", "epre": "", "preifx-limit": "prefix-limit", "prefix_limit": "prefix-limit", "pasive": "passive", "LOCAL": "local",
		"lcoal": "local", "pass": "passive", "pre": "prefix-limit", "p": "", "": "", "unrelated": "", strings.Repeat("x", 10000): "",
	} {
		if got := schema.Nearest(word, candidates); got != want {
			t.Errorf("nearest to %.20q: %q, want %q", word, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"0s": 0, "90s": 90 * time.Second, "10m": 10 * time.Minute, "2h": 2 * time.Hour, "1d": 24 * time.Hour} {
		if got, err := schema.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
