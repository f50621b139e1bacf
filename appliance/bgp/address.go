package bgp

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	prefixForm  = "a network prefix with its length, for example 192.0.2.0/24 or 2001:db8::/32"
	addressForm = "a unicast address of one system, for example 192.0.2.1 or 2001:db8::1"
)

// FamilyOf returns the unicast family addresses like a belong to.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4Unicast
	}
	return IPv6Unicast
}

// unusable says why a can be neither a peer's address nor a next hop, or "".
// Loopback addresses are fine: labs run whole networks on 127.0.0.0/8.
func unusable(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "is missing"
	case a.Is4In6():
		return "is an IPv4-mapped IPv6 address, which never matches a session; write " + a.Unmap().String()
	case a.IsUnspecified():
		return "is the unspecified address"
	case a.IsMulticast():
		return "is a multicast address"
	case a.Is6() && a.IsLinkLocalUnicast():
		return "is a link-local address, which means nothing beyond one link"
	case a.Zone() != "":
		return "has a zone"
	case a.Is4() && a.As4()[0] == 0:
		return "is inside 0.0.0.0/8, which no system may have"
	case a.Is4() && a.As4()[0] >= 240:
		return "is inside 240.0.0.0/4, which is reserved"
	}
	return ""
}

// parsePrefix reads one prefix of a request. Nothing is guessed: a missing
// length or host bits are errors, because masking them silently has taken whole
// networks off the air.
func parsePrefix(field, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, &FieldError{Field: field, Problem: prefixProblem(text), Allowed: prefixForm, Err: ErrInvalid}
	}
	if m := p.Masked(); m != p {
		return p, &FieldError{
			Field: field, Problem: fmt.Sprintf("%q has bits set beyond its length", text),
			Allowed: "the network itself, " + m.String(), Err: ErrInvalid,
		}
	}
	return p, nil
}

// prefixProblem says what is wrong with text that is no prefix.
func prefixProblem(text string) string {
	address, length, found := strings.Cut(text, "/")
	a, err := netip.ParseAddr(address)
	switch {
	case err != nil || a.Zone() != "":
		return fmt.Sprintf("%q does not begin with an IPv4 or IPv6 address", text)
	case !found:
		return fmt.Sprintf("%q has no length; for this one address write %s/%d", text, text, a.BitLen())
	}
	if n, err := strconv.Atoi(length); err == nil && n > a.BitLen() {
		return fmt.Sprintf("%q is longer than %d bits", text, a.BitLen())
	}
	return fmt.Sprintf("%q has a length that is not a plain number from 0 to %d", text, a.BitLen())
}

// notRoutable are the blocks no router may forward to (RFC 6890, RFC 5771,
// RFC 4291): nothing inside them can be announced.
var notRoutable = [...]struct {
	block netip.Prefix
	what  string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/127"), "unspecified and loopback"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// checkAnnounceable refuses prefixes that no peer should be sent.
func checkAnnounceable(field string, p netip.Prefix, allowDefault bool) error {
	if p.Bits() == 0 {
		if allowDefault {
			return nil
		}
		return &FieldError{
			Field: field, Problem: fmt.Sprintf("%q is the default route: every peer would send all its traffic here", p),
			Allowed: "a longer prefix, or the same call with allow-default true if that is meant", Err: ErrInvalid,
		}
	}
	for _, b := range notRoutable {
		if p.Bits() >= b.block.Bits() && b.block.Contains(p.Addr()) {
			return &FieldError{
				Field: field, Problem: fmt.Sprintf("%q is inside %s (%s), which is never routed", p, b.block, b.what),
				Allowed: prefixForm, Err: ErrInvalid,
			}
		}
	}
	return nil
}

// parsePrefixes reads the prefixes of a request, refusing duplicates.
func parsePrefixes(texts []string, limit int) ([]netip.Prefix, error) {
	if len(texts) == 0 {
		return nil, &FieldError{Field: "prefixes", Problem: "no prefix given", Allowed: "at least one prefix, for example [ 192.0.2.0/24 ]", Err: ErrInvalid}
	}
	if len(texts) > limit {
		return nil, &FieldError{Field: "prefixes", Problem: fmt.Sprintf("%d prefixes in one call", len(texts)), Allowed: fmt.Sprintf("at most %d", limit), Err: ErrInvalid}
	}
	prefixes := make([]netip.Prefix, len(texts))
	first := make(map[netip.Prefix]int, len(texts))
	for i, text := range texts {
		field := fmt.Sprintf("prefixes[%d]", i)
		p, err := parsePrefix(field, text)
		if err != nil {
			return nil, err
		}
		if j, twice := first[p]; twice {
			return nil, &FieldError{Field: field, Problem: fmt.Sprintf("%q is the same prefix as prefixes[%d]", text, j), Allowed: "each prefix once", Err: ErrInvalid}
		}
		first[p] = i
		prefixes[i] = p
	}
	return prefixes, nil
}
