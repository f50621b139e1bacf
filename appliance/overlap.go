package appliance

import (
	"fmt"
	"net/netip"
	"strings"
)

// overlap is a listener that cannot be there for another one.
type overlap struct {
	from, path string // where it was asked for: outside of the configuration, or in it
	at         netip.AddrPort
	other      string // path of the other one
}

// overlaps returns the listeners that cannot have their addresses because others,
// which come before them, do.
func (c *Configuration) overlaps(o Overrides) (out []overlap) {
	var taken []overlap
	add := func(given []netip.AddrPort, from, path string, ip netip.Addr, port uint16) {
		l := overlap{path: path, at: netip.AddrPortFrom(ip, port)}
		if len(given) > 0 {
			l.from = from
		}
		for _, t := range taken {
			if port != 0 && overlapping(l.at, t.at) {
				l.other = strings.TrimSuffix(t.path, "/port")
				if t.from != "" {
					l.other = t.from
				}
				out = append(out, l)
				return
			}
		}
		taken = append(taken, l)
	}
	if m := c.Environment.MCP; m.Enabled {
		for _, s := range m.Servers {
			add(o.MCPListen, o.MCPListenFrom, fmt.Sprintf("environment/mcp/server[%s]/port", s.Name), s.IP, s.Port)
		}
	}
	if b := c.BGP; b != nil && b.Listen.IP.IsValid() {
		add(nil, "", "bgp/listen/port", b.Listen.IP, b.Listen.Port)
	}
	if m := c.Environment.Metrics; m.Enabled {
		for _, s := range m.Servers {
			add(o.MetricsListen, o.MetricsListenFrom, fmt.Sprintf("environment/metrics/server[%s]/port", s.Name), s.IP, s.Port)
		}
	}
	return out
}

// overlapping reports whether nobody can listen on both: they are one address, or
// one of them is every address.
func overlapping(a, b netip.AddrPort) bool {
	x, y := a.Addr().Unmap(), b.Addr().Unmap()
	all := func(x, y netip.Addr) bool { return x.IsUnspecified() && (x.Is6() || y.Is4()) }
	return a.Port() == b.Port() && (x == y || all(x, y) || all(y, x))
}
