package bgp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestConfigDefaults(t *testing.T) {
	var c Config
	text := `{"router-id":"192.0.2.7","local":{"as":64512},"listen":{"ip":"127.0.0.1"},"peer":[
		{"name":"north","remote":{"ip":"127.0.0.2","as":64999},"local":{"ip":"127.0.0.1"}},
		{"name":"west","remote":{"ip":"2001:db8::1","port":1790,"as":64999},"timer":{"hold":9},"family":[{"name":"ipv4/unicast","prefix-limit":7}]}]}`
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	c.SetDefaults()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := Config{
		RouterID: netip.MustParseAddr("192.0.2.7"), Local: LocalConfig{AS: 64512},
		Listen: ListenConfig{IP: netip.MustParseAddr("127.0.0.1"), Port: 179},
		Peers: []PeerConfig{
			{
				Name: "north", Remote: RemoteConfig{IP: netip.MustParseAddr("127.0.0.2"), Port: 179, AS: 64999},
				Local: LocalConfig{IP: netip.MustParseAddr("127.0.0.1")},
				Timer: TimerConfig{Hold: 90, ConnectRetry: 5}, Families: []FamilyConfig{{Name: IPv4Unicast}},
			},
			{
				Name: "west", Remote: RemoteConfig{IP: netip.MustParseAddr("2001:db8::1"), Port: 1790, AS: 64999},
				Timer: TimerConfig{Hold: 9, ConnectRetry: 5}, Families: []FamilyConfig{{Name: IPv4Unicast, PrefixLimit: 7}},
			},
		},
	}
	if diff := cmp.Diff(want, c, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
	again := c.clone()
	again.SetDefaults()
	if diff := cmp.Diff(&c, again, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("defaults applied twice: %s", diff)
	}
}

// Each case breaks the valid test configuration in one way and names the fields
// that must be complained about.
func TestConfigFaults(t *testing.T) {
	addr := netip.MustParseAddr
	for name, tc := range map[string]struct {
		edit   func(*Config)
		fields []string
		says   string
	}{
		"valid":                {func(c *Config) {}, nil, ""},
		"router-id missing":    {func(c *Config) { c.RouterID = netip.Addr{} }, []string{"router-id"}, ""},
		"router-id 0.0.0.0":    {func(c *Config) { c.RouterID = addr("0.0.0.0") }, []string{"router-id"}, "0.0.0.0"},
		"router-id v6":         {func(c *Config) { c.RouterID = addr("2001:db8::7") }, []string{"router-id"}, ""},
		"as 0":                 {func(c *Config) { c.Local.AS = 0 }, []string{"local/as"}, "AS 0"},
		"as trans":             {func(c *Config) { c.Peers[0].Remote.AS = 23456 }, []string{"peer[north]/remote/as"}, "23456"},
		"global local ip":      {func(c *Config) { c.Local.IP = addr("127.0.0.1") }, []string{"local/ip"}, ""},
		"peer local as":        {func(c *Config) { c.Peers[0].Local.AS = 64513 }, []string{"peer[north]/local/as"}, "64513"},
		"duplicate name":       {func(c *Config) { c.Peers[1].Name = "north" }, []string{"peer[1]/name"}, "peer[0]"},
		"duplicate address":    {func(c *Config) { c.Peers[1].Remote.IP = c.Peers[0].Remote.IP }, []string{"peer[south]/remote/ip"}, "north"},
		"bad name":             {func(c *Config) { c.Peers[0].Name = "no rth" }, []string{"peer[0]/name"}, `"no rth"`},
		"no name":              {func(c *Config) { c.Peers[0].Name = "" }, []string{"peer[0]/name"}, ""},
		"mapped address":       {func(c *Config) { c.Peers[0].Remote.IP = addr("::ffff:127.0.0.9") }, []string{"peer[north]/remote/ip"}, "127.0.0.9"},
		"unspecified address":  {func(c *Config) { c.Peers[0].Remote.IP = addr("0.0.0.0") }, []string{"peer[north]/remote/ip"}, "unspecified"},
		"multicast address":    {func(c *Config) { c.Peers[2].Remote.IP = addr("ff02::1") }, []string{"peer[west]/remote/ip"}, "multicast"},
		"broadcast address":    {func(c *Config) { c.Peers[0].Remote.IP = addr("255.255.255.255") }, []string{"peer[north]/remote/ip"}, "reserved"},
		"link-local with zone": {func(c *Config) { c.Peers[2].Remote.IP = addr("fe80::1%lo") }, []string{"peer[west]/remote/ip"}, "link-local"},
		"missing address":      {func(c *Config) { c.Peers[0].Remote.IP = netip.Addr{} }, []string{"peer[north]/remote/ip"}, "missing"},
		"our own listener":     {func(c *Config) { c.Peers[0].Remote.IP = addr("127.0.0.1") }, []string{"peer[north]/remote/ip"}, "listener"},
		"same address, other port is a lab": {func(c *Config) {
			c.Peers[0].Remote.IP, c.Peers[0].Remote.Port = addr("127.0.0.1"), 1791
		}, nil, ""},
		"listening on all, peer is its own source": {func(c *Config) {
			c.Listen.IP = addr("0.0.0.0")
			c.Peers[0].Local.IP = c.Peers[0].Remote.IP
		}, []string{"peer[north]/remote/ip"}, "listener"},
		"listening on all is fine": {func(c *Config) { c.Listen.IP = addr("::") }, nil, ""},
		"no listener is fine":      {func(c *Config) { c.Listen = ListenConfig{} }, nil, ""},
		"listen multicast":         {func(c *Config) { c.Listen.IP = addr("224.0.0.1") }, []string{"listen/ip"}, "multicast"},
		"listen mapped":            {func(c *Config) { c.Listen.IP = addr("::ffff:0.0.0.0") }, []string{"listen/ip"}, "mapped"},
		"listen port alone":        {func(c *Config) { c.Listen.IP = netip.Addr{} }, []string{"listen/ip"}, "missing"},
		"listen port 0":            {func(c *Config) { c.Listen.Port = 0 }, []string{"listen/port"}, ""},
		"local ip other family":    {func(c *Config) { c.Peers[0].Local.IP = addr("2001:db8::9") }, []string{"peer[north]/local/ip"}, "family"},
		"local ip multicast":       {func(c *Config) { c.Peers[0].Local.IP = addr("224.0.0.1") }, []string{"peer[north]/local/ip"}, "multicast"},
		"no family":                {func(c *Config) { c.Peers[0].Families = nil }, []string{"peer[north]/family"}, ""},
		"family twice": {func(c *Config) {
			c.Peers[0].Families = []FamilyConfig{{Name: IPv4Unicast}, {Name: IPv4Unicast}}
		}, []string{"peer[north]/family[1]"}, "twice"},
		"unknown family":     {func(c *Config) { c.Peers[0].Families[0].Name = "ipv4/flowspec" }, []string{"peer[north]/family[0]"}, "flowspec"},
		"long password":      {func(c *Config) { c.Peers[0].Password = strings.Repeat("x", 81) }, []string{"peer[north]/password"}, "81"},
		"longest password":   {func(c *Config) { c.Peers[0].Password = strings.Repeat("x", 80) }, nil, ""},
		"hold 2":             {func(c *Config) { c.Peers[0].Timer.Hold = 2 }, []string{"peer[north]/timer/hold"}, "2 seconds"},
		"hold 3":             {func(c *Config) { c.Peers[0].Timer.Hold = 3 }, nil, ""},
		"no connect-retry":   {func(c *Config) { c.Peers[0].Timer.ConnectRetry = 0 }, []string{"peer[north]/timer/connect-retry"}, ""},
		"remote port 0":      {func(c *Config) { c.Peers[0].Remote.Port = 0 }, []string{"peer[north]/remote/port"}, ""},
		"passive, no listen": {func(c *Config) { c.Peers[0].Passive, c.Listen = true, ListenConfig{} }, []string{"peer[north]/passive"}, "listener"},
		"multihop inside":    {func(c *Config) { c.Peers[0].Multihop, c.Peers[0].Remote.AS = 5, 64512 }, []string{"peer[north]/multihop"}, "5"},
		"multihop outside":   {func(c *Config) { c.Peers[0].Multihop = 255 }, nil, ""},
		"everything at once": {func(c *Config) {
			c.Local.AS, c.Peers[0].Timer.Hold, c.Peers[2].Remote.AS = 0, 1, 0
		}, []string{"local/as", "peer[north]/timer/hold", "peer[west]/remote/as"}, ""},
		"1001 peers": {func(c *Config) {
			for i := len(c.Peers); i < 1001; i++ {
				c.Peers = append(c.Peers, PeerConfig{})
			}
		}, []string{"peer"}, "1001"},
		"1000 peers": {func(c *Config) {
			a := addr("10.0.0.1")
			for i := len(c.Peers); i < 1000; i++ {
				c.Peers = append(c.Peers, PeerConfig{Name: fmt.Sprint("p", i), Remote: RemoteConfig{IP: a, AS: 64999}})
				a = a.Next()
			}
			c.SetDefaults()
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig()
			tc.edit(c)
			err := c.Validate()
			if diff := cmp.Diff(tc.fields, fields(t, err), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("fields: %s\n%v", diff, err)
			}
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), "xxx") {
				t.Errorf("%q shows the password", err)
			}
		})
	}
}

// fields lists the fields of a joined error and insists that each is complete.
func fields(t *testing.T, err error) []string {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is no joined error", err)
	}
	var names []string
	for _, e := range joined.Unwrap() {
		var fe *FieldError
		if !errors.As(e, &fe) || !errors.Is(e, ErrInvalid) || fe.Problem == "" || fe.Allowed == "" {
			t.Errorf("incomplete error %#v", e)
			continue
		}
		names = append(names, fe.Field)
	}
	return names
}

func FuzzConfig(f *testing.F) {
	seed, err := json.Marshal(testConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"peer":[{"name":"a","remote":{"ip":"fe80::1%x"}},{"name":"a"}]}`))
	f.Add([]byte(`{"listen":{"ip":"::"},"peer":[{"family":[{}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Config
		if json.Unmarshal(text, &c) != nil {
			return
		}
		c.SetDefaults()
		if err := c.Validate(); err != nil {
			if len(fields(t, err)) == 0 {
				t.Error("an error about nothing")
			}
			return
		}
		addresses := map[netip.Addr]bool{}
		for _, p := range c.Peers {
			if addresses[p.Remote.IP] || p.Remote.IP.Is4In6() || p.Remote.AS == 0 || p.Remote.Port == 0 ||
				p.Timer.Hold < 3 || len(p.Families) == 0 || len(p.Families) > 2 || c.peer(p.Name) == nil {
				t.Errorf("valid? %+v", p)
			}
			addresses[p.Remote.IP] = true
		}
	})
}
