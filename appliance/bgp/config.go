package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
)

const (
	maxPeers    = 1000
	maxPassword = 80 // TCP_MD5SIG_MAXKEYLEN of the kernel

	defaultPort         = 179
	defaultHold         = 90
	defaultConnectRetry = 5

	asForm = "1 to 4294967295 except 23456, for example 64512"
)

// peerName is what can be typed as one bare word of a command line.
var peerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// SetDefaults fills in what was left out: ports, timers, and for a peer
// without families the unicast family of its address.
func (c *Config) SetDefaults() {
	if c.Listen.IP.IsValid() && c.Listen.Port == 0 {
		c.Listen.Port = defaultPort
	}
	for i := range c.Peers {
		p := &c.Peers[i]
		if p.Remote.Port == 0 {
			p.Remote.Port = defaultPort
		}
		if p.Timer.Hold == 0 {
			p.Timer.Hold = defaultHold
		}
		if p.Timer.ConnectRetry == 0 {
			p.Timer.ConnectRetry = defaultConnectRetry
		}
		if len(p.Families) == 0 && p.Remote.IP.IsValid() {
			p.Families = []FamilyConfig{{Name: FamilyOf(p.Remote.IP)}}
		}
	}
}

// Validate reports everything wrong with a configuration whose defaults are
// set: nil, or *FieldError values joined by errors.Join. Paths are relative to
// the bgp block, "peer[north]/remote/as".
func (c *Config) Validate() error {
	var v faults
	if !c.RouterID.Is4() || c.RouterID.IsUnspecified() {
		v.add("router-id", fmt.Sprintf("%q is no router identifier", addressText(c.RouterID)), "four octets written as an IPv4 address, not 0.0.0.0, for example 192.0.2.7")
	}
	v.checkAS("local/as", c.Local.AS)
	if c.Local.IP.IsValid() {
		v.add("local/ip", fmt.Sprintf("%q: the source address is set per peer", c.Local.IP), "peer NAME { local { ip ADDRESS; } }")
	}
	v.checkListen(c.Listen)
	if len(c.Peers) > maxPeers {
		v.add("peer", fmt.Sprintf("%d peers", len(c.Peers)), fmt.Sprintf("at most %d", maxPeers))
		return errors.Join(v...)
	}
	names := make(map[string]int, len(c.Peers))
	addresses := make(map[netip.Addr]string, len(c.Peers))
	for i := range c.Peers {
		p := &c.Peers[i]
		at := "peer[" + p.Name + "]/"
		if j, twice := names[p.Name]; twice {
			at = fmt.Sprintf("peer[%d]/", i)
			v.add(at+"name", fmt.Sprintf("%q is also the name of peer[%d]", p.Name, j), "a name of its own")
		} else if !peerName.MatchString(p.Name) {
			at = fmt.Sprintf("peer[%d]/", i)
			v.add(at+"name", fmt.Sprintf("%q is no peer name", p.Name), "1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit, for example north")
		}
		names[p.Name] = i
		if p.Remote.IP.IsValid() {
			if other, twice := addresses[p.Remote.IP]; twice {
				v.add(at+"remote/ip", fmt.Sprintf("%q is also the address of peer %s; sessions are told apart by address alone", p.Remote.IP, other), "an address of its own")
			}
			addresses[p.Remote.IP] = p.Name
		}
		v.checkPeer(at, p, c)
	}
	return errors.Join(v...)
}

// faults collects what Validate finds.
type faults []error

func (v *faults) add(field, problem, allowed string) {
	*v = append(*v, &FieldError{Field: field, Problem: problem, Allowed: allowed, Err: ErrInvalid})
}

func (v *faults) checkAS(field string, as uint32) {
	if as == 0 || as == asTrans {
		v.add(field, fmt.Sprintf("AS %d is reserved and belongs to nobody", as), asForm)
	}
}

func (v *faults) checkListen(l ListenConfig) {
	if !l.IP.IsValid() {
		if l.Port != 0 {
			v.add("listen/ip", "is missing while listen/port is given", "an address of this machine, for example 127.0.0.1")
		}
		return
	}
	// The unspecified address is a fine thing to listen on: it means all of ours.
	if why := unusable(l.IP); why != "" && (!l.IP.IsUnspecified() || l.IP.Is4In6()) {
		v.add("listen/ip", fmt.Sprintf("%q %s", l.IP, why), "an address of this machine, for example 127.0.0.1, or 0.0.0.0 for all")
	}
	if l.Port == 0 {
		v.add("listen/port", "0 is no port", "1 to 65535, default 179")
	}
}

func (v *faults) checkPeer(at string, p *PeerConfig, c *Config) {
	if why := unusable(p.Remote.IP); why != "" {
		v.add(at+"remote/ip", fmt.Sprintf("%q %s", addressText(p.Remote.IP), why), addressForm)
	}
	if p.Remote.Port == 0 {
		v.add(at+"remote/port", "0 is no port", "1 to 65535, default 179")
	}
	v.checkAS(at+"remote/as", p.Remote.AS)
	if p.Local.AS != 0 {
		v.add(at+"local/as", fmt.Sprintf("%d: our AS number is the same towards every peer", p.Local.AS), "bgp { local { as NUMBER; } }")
	}
	v.checkLocalIP(at, p)
	if p.Remote.IP.IsValid() && c.Listen.IP.IsValid() && p.Remote.Port == c.Listen.Port &&
		(p.Remote.IP == c.Listen.IP || c.Listen.IP.IsUnspecified() && p.Remote.IP == p.Local.IP) {
		v.add(at+"remote/ip", fmt.Sprintf("%q is our own listener", netip.AddrPortFrom(p.Remote.IP, p.Remote.Port)), "the address and port of another BGP speaker")
	}
	if len(p.Password) > maxPassword {
		v.add(at+"password", fmt.Sprintf("%d octets long", len(p.Password)), fmt.Sprintf("at most %d octets", maxPassword))
	}
	if p.Passive && !c.Listen.IP.IsValid() {
		v.add(at+"passive", "true, but there is no listener the peer could connect to", "false, or bgp { listen { ip ADDRESS; } }")
	}
	if p.Multihop != 0 && p.Remote.AS == c.Local.AS {
		v.add(at+"multihop", fmt.Sprintf("%d: a session inside our own AS crosses any number of hops anyway", p.Multihop), "0 (default) unless remote/as differs from local/as")
	}
	if p.Timer.Hold < 3 {
		v.add(at+"timer/hold", fmt.Sprintf("%d seconds", p.Timer.Hold), "3 to 65535 seconds, default 90")
	}
	if p.Timer.ConnectRetry == 0 {
		v.add(at+"timer/connect-retry", "0 seconds", "1 to 65535 seconds, default 5")
	}
	v.checkFamilies(at, p.Families)
}

func (v *faults) checkLocalIP(at string, p *PeerConfig) {
	local, remote := p.Local.IP, p.Remote.IP
	if !local.IsValid() {
		return
	}
	if why := unusable(local); why != "" {
		v.add(at+"local/ip", fmt.Sprintf("%q %s", local, why), "an address of this machine, or none: the system chooses")
		return
	}
	if remote.IsValid() && local.Is4() != remote.Is4() {
		v.add(at+"local/ip", fmt.Sprintf("%q is not of the family of remote/ip %s", local, remote), "both IPv4 or both IPv6")
	}
}

func (v *faults) checkFamilies(at string, families []FamilyConfig) {
	if len(families) == 0 {
		v.add(at+"family", "no family", "at least one of ipv4/unicast, ipv6/unicast")
	}
	seen := make(map[Family]bool, len(families))
	for i, f := range families {
		if !f.Name.known() {
			v.add(fmt.Sprintf("%sfamily[%d]", at, i), fmt.Sprintf("%q is no family", f.Name), "ipv4/unicast or ipv6/unicast")
		} else if seen[f.Name] {
			v.add(fmt.Sprintf("%sfamily[%d]", at, i), fmt.Sprintf("%q is given twice", f.Name), "each family once")
		}
		seen[f.Name] = true
	}
}

func (f Family) known() bool { return slices.Contains(Families(), f) }

// addressText prints an address as it was written: nothing for one left out.
func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// clone returns a copy that shares nothing with c.
func (c *Config) clone() *Config {
	out := *c
	out.Peers = slices.Clone(c.Peers)
	for i := range out.Peers {
		out.Peers[i].Families = slices.Clone(out.Peers[i].Families)
	}
	return &out
}

// peer returns the peer called name, or nil.
func (c *Config) peer(name string) *PeerConfig {
	for i := range c.Peers {
		if c.Peers[i].Name == name {
			return &c.Peers[i]
		}
	}
	return nil
}

func (c *Config) peerNames() []string {
	names := make([]string, len(c.Peers))
	for i := range c.Peers {
		names[i] = c.Peers[i].Name
	}
	return names
}

// carries reports whether sessions with p exchange routes of family f.
func (p *PeerConfig) carries(f Family) bool {
	return slices.ContainsFunc(p.Families, func(c FamilyConfig) bool { return c.Name == f })
}
