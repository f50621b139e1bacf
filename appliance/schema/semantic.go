package schema

import (
	"errors"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A semantic is the check behind a typedef of ze-types that a regular
// expression cannot express, and the JSON Schema format that says the same.
type semantic struct {
	check  func(string) *ValueError
	format string
}

// semantics returns the checks by typedef name.
func semantics() map[string]semantic {
	return map[string]semantic{
		"ip-address":    {check: func(s string) *ValueError { return checkAddress(s, anyVersion) }},
		"ipv4-address":  {check: func(s string) *ValueError { return checkAddress(s, 4) }, format: "ipv4"},
		"ipv6-address":  {check: func(s string) *ValueError { return checkAddress(s, 6) }, format: "ipv6"},
		"ip-prefix":     {check: func(s string) *ValueError { return checkPrefix(s, anyVersion) }},
		"ipv4-prefix":   {check: func(s string) *ValueError { return checkPrefix(s, 4) }},
		"ipv6-prefix":   {check: func(s string) *ValueError { return checkPrefix(s, 6) }},
		"duration":      {check: checkDuration},
		"date-and-time": {check: checkTime, format: "date-time"},
	}
}

// jsonType is the typedef of ze-types for values that are no text.
const jsonType = "json"

// anyVersion stands for IPv4 or IPv6.
const anyVersion = 0

func version(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

func family(v int) string {
	if v == anyVersion {
		return "IP"
	}
	return "IPv" + strconv.Itoa(v)
}

func checkAddress(s string, want int) *ValueError {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return &ValueError{Message: Quote(s) + " is not an " + family(want) + " address"}
	case a.Zone() != "":
		return &ValueError{Message: Quote(s) + " has a zone", Suggest: a.WithZone("").String()}
	case a.Is4In6():
		return &ValueError{Message: Quote(s) + " is an IPv4 address in IPv6 form", Suggest: a.Unmap().String()}
	case want != anyVersion && version(a) != want:
		return &ValueError{Message: Quote(s) + " is not an " + family(want) + " address"}
	}
	return nil
}

func checkPrefix(s string, want int) *ValueError {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" && !a.Is4In6() && (want == anyVersion || version(a) == want) {
			return &ValueError{Message: Quote(s) + " has no prefix length", Suggest: netip.PrefixFrom(a, a.BitLen()).String()}
		}
		return &ValueError{Message: Quote(s) + " is not an " + family(want) + " prefix"}
	}
	switch {
	case p.Addr().Is4In6():
		return &ValueError{Message: Quote(s) + " is an IPv4 prefix in IPv6 form"}
	case want != anyVersion && version(p.Addr()) != want:
		return &ValueError{Message: Quote(s) + " is not an " + family(want) + " prefix"}
	case p != p.Masked():
		return &ValueError{Message: Quote(s) + " has host bits set", Suggest: p.Masked().String()}
	}
	return nil
}

func checkDuration(s string) *ValueError {
	if _, err := ParseDuration(s); err != nil {
		return &ValueError{Message: Quote(s) + " " + err.Error()}
	}
	return nil
}

func checkTime(s string) *ValueError {
	if _, err := time.Parse(time.RFC3339Nano, s); err != nil {
		return &ValueError{Message: Quote(s) + " is not a date and time"}
	}
	return nil
}

// ParseDuration reads the text form of the typedef duration: a whole number
// and one unit out of s, m, h and d (a day is 24 hours).
func ParseDuration(s string) (time.Duration, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	number := strings.TrimRight(s, "smhd")
	if !plain(number) || len(s) != len(number)+1 {
		return 0, errors.New("is not a duration")
	}
	unit := units[s[len(s)-1]]
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, errors.New("is too long a duration")
	}
	return time.Duration(n) * unit, nil
}
