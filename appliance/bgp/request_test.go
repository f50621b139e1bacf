package bgp

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each case is the JSON of one announce call that must be refused: which field
// it blames, and what it says. The rule behind each is a route that another
// speaker sent, masked or died of.
func TestAnnounceRefuses(t *testing.T) {
	numbers := func(n int, format string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(list, ",")
	}
	const v4 = `"prefixes":["192.0.2.0/24"],"peer":["north"],`
	for name, tc := range map[string]struct{ request, field, says string }{
		"no prefix":             {`"prefixes":[]`, "prefixes", "no prefix"},
		"host bits":             {`"prefixes":["10.0.0.0/8","1.1.1.1/24"]`, "prefixes[1]", `"1.1.1.1/24" has bits set beyond its length; the network itself, 1.1.1.0/24`},
		"no length v4":          {`"prefixes":["10.0.0.1"]`, "prefixes[0]", "10.0.0.1/32"},
		"no length v6":          {`"prefixes":["2001:db8::1"]`, "prefixes[0]", "2001:db8::1/128"},
		"33 bits":               {`"prefixes":["10.0.0.0/33"]`, "prefixes[0]", "longer than 32 bits"},
		"129 bits":              {`"prefixes":["::/129"]`, "prefixes[0]", "longer than 128 bits"},
		"leading zero":          {`"prefixes":["10.0.0.0/08"]`, "prefixes[0]", "plain number"},
		"no address":            {`"prefixes":["ten/8"]`, "prefixes[0]", `"ten/8"`},
		"empty":                 {`"prefixes":[""]`, "prefixes[0]", `""`},
		"zone":                  {`"prefixes":["fe80::%lo/64"]`, "prefixes[0]", "does not begin"},
		"multicast v4":          {`"prefixes":["224.0.0.0/4"]`, "prefixes[0]", "multicast"},
		"multicast v6":          {`"prefixes":["ff02::/16"]`, "prefixes[0]", "multicast"},
		"reserved":              {`"prefixes":["240.0.0.0/5"]`, "prefixes[0]", "reserved"},
		"broadcast":             {`"prefixes":["255.255.255.255/32"]`, "prefixes[0]", "reserved"},
		"this network":          {`"prefixes":["0.0.0.0/8"]`, "prefixes[0]", "never routed"},
		"loopback":              {`"prefixes":["127.0.0.0/8"]`, "prefixes[0]", "loopback"},
		"loopback v6":           {`"prefixes":["::1/128"]`, "prefixes[0]", "loopback"},
		"link-local":            {`"prefixes":["fe80::/64"]`, "prefixes[0]", "link-local"},
		"mapped":                {`"prefixes":["::ffff:10.0.0.0/104"]`, "prefixes[0]", "IPv4-mapped"},
		"default v4":            {`"prefixes":["0.0.0.0/0"]`, "prefixes[0]", "allow-default true"},
		"default v6":            {`"prefixes":["::/0"]`, "prefixes[0]", "allow-default true"},
		"twice":                 {`"prefixes":["10.0.0.0/8","11.0.0.0/8","10.0.0.0/8"]`, "prefixes[2]", "prefixes[0]"},
		"twice in other words":  {`"prefixes":["2001:db8::/32","2001:0db8:0::/32"]`, "prefixes[1]", "prefixes[0]"},
		"next-hop garbage":      {v4 + `"next-hop":"router1"`, "next-hop", `"router1"`},
		"next-hop 0.0.0.0":      {v4 + `"next-hop":"0.0.0.0"`, "next-hop", "unspecified"},
		"next-hop 0.0.0.1":      {v4 + `"next-hop":"0.0.0.1"`, "next-hop", "0.0.0.0/8"},
		"next-hop multicast":    {v4 + `"next-hop":"224.0.0.5"`, "next-hop", "multicast"},
		"next-hop class e":      {v4 + `"next-hop":"240.0.0.1"`, "next-hop", "reserved"},
		"next-hop link-local":   {`"prefixes":["2001:db8::/32"],"next-hop":"fe80::1"`, "next-hop", "link-local"},
		"next-hop mapped":       {v4 + `"next-hop":"::ffff:192.0.2.1"`, "next-hop", "192.0.2.1"},
		"v4 prefix, v6 hop":     {`"prefixes":["10.55.130.0/24"],"next-hop":"100::1"`, "next-hop", "prefixes[0]"},
		"v6 prefix, v4 hop":     {`"prefixes":["2001:db8::/32"],"next-hop":"192.0.2.1"`, "next-hop", "prefixes[0]"},
		"both families, v4 hop": {`"prefixes":["10.0.0.0/8","2001:db8::/32"],"next-hop":"192.0.2.1"`, "next-hop", "prefixes[1]"},
		"hop is a peer":         {v4 + `"next-hop":"127.0.0.2"`, "next-hop", "peer north"},
		"hop is one of all":     {`"prefixes":["10.0.0.0/8"],"next-hop":"127.0.0.3"`, "next-hop", "peer south"},
		"self over v4":          {`"prefixes":["2001:db8::/32"],"next-hop":"self"`, "next-hop", "peer north, which runs over 127.0.0.2"},
		"no hop, v6 over v4":    {`"prefixes":["2001:db8::/32"]`, "next-hop", "none given"},
		"origin":                {v4 + `"origin":"IGP"`, "origin", `"IGP"`},
		"as 0":                  {v4 + `"as-path":[64512,0]`, "as-path[1]", "AS 0"},
		"as trans":              {v4 + `"as-path":[23456]`, "as-path[0]", "23456"},
		"as path of 300":        {v4 + `"as-path":[` + numbers(300, "1%d") + `]`, "as-path", "300"},
		"community garbage":     {v4 + `"community":["64512:10","blackhol"]`, "community[1]", `"blackhol"`},
		"community too large":   {v4 + `"community":["134800:666"]`, "community[0]", "large community"},
		"community value":       {v4 + `"community":["64512:65536"]`, "community[0]", "65536 does not fit 16 bits"},
		"community negative":    {v4 + `"community":["64512:-1"]`, "community[0]", "-1"},
		"community of three":    {v4 + `"community":["1:2:3"]`, "community[0]", "1:2:3"},
		"community twice":       {v4 + `"community":["no-export","65535:65281"]`, "community[1]", "community[0]"},
		"large of two":          {v4 + `"large-community":["1:2"]`, "large-community[0]", "three"},
		"large out of range":    {v4 + `"large-community":["1:2:4294967296"]`, "large-community[0]", "32 bits"},
		"large twice":           {v4 + `"large-community":["1:2:3","1:2:03"]`, "large-community[1]", "large-community[0]"},
		"extended kind":         {v4 + `"extended-community":["rt:1:2"]`, "extended-community[0]", `"rt"`},
		"extended of two":       {v4 + `"extended-community":["1:2"]`, "extended-community[0]", "1:2"},
		"extended 4-octet AS":   {v4 + `"extended-community":["target:4200000001:65536"]`, "extended-community[0]", "above 65535"},
		"extended address":      {v4 + `"extended-community":["target:192.0.2.1:65536"]`, "extended-community[0]", "after an address"},
		"extended twice":        {v4 + `"extended-community":["origin:1:2","origin:1:2"]`, "extended-community[1]", "extended-community[0]"},
		"1014 communities":      {v4 + `"community":[` + numbers(1014, `"1:%d"`) + `]`, "community", "1014"},
		"870 communities":       {v4 + `"community":[` + numbers(870, `"1:%d"`) + `]`, "community", "octets"},
		"300 large":             {v4 + `"large-community":[` + numbers(300, `"1:1:%d"`) + `]`, "large-community", "octets"},
		"peer twice":            {v4[:len(v4)-len(`"peer":["north"],`)] + `"peer":["north","north"]`, "peer[1]", "peer[0]"},
		"peer without family":   {`"prefixes":["2001:db8::/32"],"next-hop":"2001:db8::9","peer":["west","south"]`, "peer[1]", "ipv6/unicast"},
		"tag without key":       {v4 + `"tag-value":"x"`, "tag-key", "missing"},
		"tag with newline":      {v4 + `"tag-key":"a\nb"`, "tag-key", "printable"},
		"tag of 65":             {v4 + `"tag-key":"k","tag-value":"` + strings.Repeat("ä", 65) + `"`, "tag-value", "65"},
		"for nonsense":          {v4 + `"for":"soon"`, "for", `"soon"`},
		"for 0":                 {v4 + `"for":"0"`, "for", `"0"`},
		"for negative":          {v4 + `"for":"-5s"`, "for", `"-5s"`},
		"for too short":         {v4 + `"for":"10ms"`, "for", "1s"},
		"for too long":          {v4 + `"for":"8761h"`, "for", "365d"},
		"for in bare seconds":   {v4 + `"for":"90"`, "for", "90s"},
		"for too large a count": {v4 + `"for":"99999999999999999999"`, "for", "365d"},
	} {
		t.Run(name, func(t *testing.T) {
			var r AnnounceRequest
			if err := json.Unmarshal([]byte("{"+tc.request+"}"), &r); err != nil {
				t.Fatal(err)
			}
			_, _, err := r.check(testConfig(), DefaultMaxPrefixes)
			fieldError(t, err, tc.field, ErrInvalid)
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
		})
	}
}

func TestAnnounceUnknownPeer(t *testing.T) {
	r := AnnounceRequest{Prefixes: []string{"192.0.2.0/24"}, Peers: []string{"south", "nort"}}
	_, _, err := r.check(testConfig(), DefaultMaxPrefixes)
	fe := fieldError(t, err, "peer[1]", ErrNotFound)
	if want := "did you mean north? known are north, south, west"; fe.Allowed != want {
		t.Errorf("got %q, want %q", fe.Allowed, want)
	}
}

func TestAnnounceAccepts(t *testing.T) {
	for _, request := range []string{
		`"prefixes":["10.0.0.0/24"],"origin":"igp","next-hop":"10.0.0.1"`,
		`"prefixes":["192.0.2.1/32"]`,
		`"prefixes":["2001:db8::1/128"],"next-hop":"2001:db8::9"`,
		`"prefixes":["2001:db8::/32"],"next-hop":"self","peer":["west"]`,
		`"prefixes":["2001:db8::/32","192.0.2.0/24"],"peer":["west","south"]`,
		`"prefixes":["0.0.0.0/0"],"allow-default":true`,
		`"prefixes":["128.0.0.0/1"],"next-hop":"127.0.0.9"`,
		`"prefixes":["192.0.2.0/24"],"next-hop":"127.0.0.3","peer":["north"]`,
		`"prefixes":["192.0.2.0/24"],"community":["65535:666","65535:0","0:0"]`,
		`"prefixes":["192.0.2.0/24"],"for":"90s","tag-key":"` + strings.Repeat("ä", 64) + `"`,
	} {
		var r AnnounceRequest
		if err := json.Unmarshal([]byte("{"+request+"}"), &r); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.check(testConfig(), DefaultMaxPrefixes); err != nil {
			t.Errorf("%s: %v", request, err)
		}
	}
}

func TestAnnounceCanonical(t *testing.T) {
	med := uint32(0)
	r := AnnounceRequest{
		Prefixes: []string{"198.51.100.0/24", "192.0.2.0/24"}, MED: &med, ASPath: []uint32{},
		Communities: []string{"65535:65281", "064512:010"}, LargeCommunities: []string{"01:2:3"},
		ExtendedCommunities: []string{"target:64512:4294967295", "origin:192.0.2.1:7", "target:4200000001:65535"},
		Peers:               []string{"south", "north"}, For: "15m",
	}
	got, lifetime, err := r.check(testConfig(), DefaultMaxPrefixes)
	if err != nil {
		t.Fatal(err)
	}
	want := Announcement{
		Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")},
		Attributes: Attributes{
			Origin: "igp", NextHopSelf: true, MED: &med,
			Communities: []string{"no-export", "64512:10"}, LargeCommunities: []string{"1:2:3"},
			ExtendedCommunities: []string{"target:64512:4294967295", "origin:192.0.2.1:7", "target:4200000001:65535"},
		},
		Peers: []string{"north", "south"},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if lifetime != 15*time.Minute {
		t.Errorf("lifetime %s", lifetime)
	}
	var read Attributes
	text, _ := json.Marshal(got.Attributes)
	if err := json.Unmarshal(text, &read); err != nil || !read.equal(&got.Attributes) {
		t.Errorf("canonical attributes read back as %+v, %v", read, err)
	}
}

// The octets are those of RFC 4360 section 3 and RFC 5668 section 2.
func TestExtendedCommunityEncoding(t *testing.T) {
	for text, want := range map[string][8]byte{
		"target:64512:300":    {0x00, 0x02, 0xFC, 0x00, 0, 0, 0x01, 0x2C},
		"origin:192.0.2.1:7":  {0x01, 0x03, 192, 0, 2, 1, 0, 7},
		"target:4200000001:7": {0x02, 0x02, 0xFA, 0x56, 0xEA, 0x01, 0, 7},
	} {
		got, err := ParseExtendedCommunity(text)
		if err != nil || got != want {
			t.Errorf("%s: got %x, %v, want %x", text, got, err, want)
		}
		if back := FormatExtendedCommunity(got); back != text {
			t.Errorf("%s came back as %s", text, back)
		}
	}
	if got := FormatExtendedCommunity([8]byte{0x80, 0x06, 0, 0, 0x4D}); got != "0x800600004d000000" {
		t.Errorf("unknown kind: %s", got)
	}
}

func TestWithdrawSelectors(t *testing.T) {
	for request, field := range map[string]string{
		`{}`:                                  "prefixes",
		`{"all":false}`:                       "prefixes",
		`{"all":true,"id":"a"}`:               "prefixes",
		`{"prefixes":["::/0"],"tag-key":"k"}`: "prefixes",
		`{"tag-value":"v"}`:                   "tag-key",
		`{"all":true,"tag-value":"v"}`:        "tag-key",
	} {
		var r WithdrawRequest
		if err := json.Unmarshal([]byte(request), &r); err != nil {
			t.Fatal(err)
		}
		fieldError(t, r.check(), field, ErrInvalid)
	}
}

// encode builds the attributes as an UPDATE carries them (RFC 4271 section 4.3,
// one IPv6 prefix in MP_REACH_NLRI), independently of how their size is estimated.
func encode(t *testing.T, a *Attributes) []byte {
	var out []byte
	attribute := func(kind byte, value []byte) {
		out = append(out, 0x50, kind)
		out = binary.BigEndian.AppendUint16(out, uint16(len(value)))
		out = append(out, value...)
	}
	attribute(1, []byte{0})
	path := []byte{2, byte(len(a.ASPath) + 1)}
	for _, as := range append([]uint32{64512}, a.ASPath...) {
		path = binary.BigEndian.AppendUint32(path, as)
	}
	attribute(2, path)
	attribute(14, make([]byte, 3+1+32+1+17))
	if a.MED != nil {
		attribute(4, make([]byte, 4))
	}
	if a.LocalPreference != nil {
		attribute(5, make([]byte, 4))
	}
	var standard, large, extended []byte
	for _, text := range a.Communities {
		c, err := ParseCommunity(text)
		if err != nil {
			t.Fatal(err)
		}
		standard = binary.BigEndian.AppendUint32(standard, c)
	}
	for _, text := range a.LargeCommunities {
		c, err := ParseLargeCommunity(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c {
			large = binary.BigEndian.AppendUint32(large, n)
		}
	}
	for _, text := range a.ExtendedCommunities {
		c, err := ParseExtendedCommunity(text)
		if err != nil {
			t.Fatal(err)
		}
		extended = append(extended, c[:]...)
	}
	for kind, list := range map[byte][]byte{8: standard, 32: large, 16: extended} {
		if len(list) > 0 {
			attribute(kind, list)
		}
	}
	return out
}

func FuzzAnnounce(f *testing.F) {
	f.Add([]byte(`{"prefixes":["192.0.2.0/24"],"next-hop":"self","origin":"egp","med":1,"local-preference":2,"as-path":[1],"community":["1:2"],"large-community":["1:2:3"],"extended-community":["target:1:2"],"peer":["north"],"for":"9s","tag-key":"a","tag-value":"b"}`))
	f.Add([]byte(`{"prefixes":["::/0"],"allow-default":true,"peer":["west"]}`))
	f.Add([]byte(`{"prefixes":["::ffff:10.0.0.0/104","224.0.0.0/4","1.1.1.1/24"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r AnnounceRequest
		if json.Unmarshal(text, &r) != nil {
			return
		}
		cfg := testConfig()
		a, lifetime, err := r.check(cfg, 1000)
		if err != nil {
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Field == "" || fe.Problem == "" || fe.Allowed == "" || fe.Err == nil {
				t.Errorf("incomplete error %#v", err)
			}
			return
		}
		if len(a.Prefixes) != len(r.Prefixes) || lifetime < 0 || !slices.IsSortedFunc(a.Prefixes, netip.Prefix.Compare) {
			t.Errorf("%+v, %s", a, lifetime)
		}
		if err := a.Attributes.Validate(); err != nil {
			t.Errorf("canonical attributes are not valid: %v", err)
		}
		if n := len(encode(t, &a.Attributes)); n > maxAttributes || n != a.Attributes.encodedSize() {
			t.Errorf("%d octets encoded, %d estimated", n, a.Attributes.encodedSize())
		}
		paths, none := cfg.paths(&a, a.Prefixes)
		if len(none) > 0 {
			t.Errorf("accepted for nobody: %v", none)
		}
		for _, path := range paths {
			if !slices.Equal(path.Peers, a.Peers) {
				t.Errorf("accepted for %v, goes to %v", a.Peers, path.Peers)
			}
			for _, p := range path.Prefixes {
				if p != p.Masked() || p.Addr().Is4In6() || a.Attributes.NextHop.IsValid() && a.Attributes.NextHop.Is4() != p.Addr().Is4() {
					t.Errorf("accepted %s via %s", p, a.Attributes.NextHop)
				}
			}
		}
	})
}

func FuzzCommunity(f *testing.F) {
	for _, seed := range []string{"64512:10", "no-export", "1:2:3", "target:192.0.2.1:7", "origin:4200000001:1", "target:1:4294967295"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCommunity(text); err == nil {
			if back, err := ParseCommunity(FormatCommunity(c)); err != nil || back != c {
				t.Errorf("%q: %d, %v", text, back, err)
			}
		}
		if c, err := ParseLargeCommunity(text); err == nil {
			if back, err := ParseLargeCommunity(FormatLargeCommunity(c)); err != nil || back != c {
				t.Errorf("%q: %d, %v", text, back, err)
			}
		}
		if c, err := ParseExtendedCommunity(text); err == nil {
			if back, err := ParseExtendedCommunity(FormatExtendedCommunity(c)); err != nil || back != c {
				t.Errorf("%q: %x, %v", text, back, err)
			}
		}
	})
}
