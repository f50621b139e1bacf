package bgp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	communityForm         = "AS:VALUE with both from 0 to 65535, for example 64512:10, or no-export, no-advertise, no-export-subconfed, nopeer, blackhole, graceful-shutdown"
	largeCommunityForm    = "three numbers from 0 to 4294967295, for example 4200000001:1:2"
	extendedCommunityForm = "target: or origin: and AS:VALUE or ADDRESS:VALUE, for example target:64512:300, origin:192.0.2.1:7 or target:4200000001:7"
)

// wellKnown are the communities with a name (RFC 1997, RFC 3765, RFC 7999, RFC 8326).
var wellKnown = [...]struct {
	name  string
	value uint32
}{
	{"no-export", 0xFFFFFF01},
	{"no-advertise", 0xFFFFFF02},
	{"no-export-subconfed", 0xFFFFFF03},
	{"nopeer", 0xFFFFFF04},
	{"blackhole", 0xFFFF029A},
	{"graceful-shutdown", 0xFFFF0000},
}

// ParseCommunity reads a standard community, "64512:10" or a well-known name,
// into its four octets (RFC 1997).
func ParseCommunity(text string) (uint32, error) {
	for _, w := range wellKnown {
		if text == w.name {
			return w.value, nil
		}
	}
	as, value, found := strings.Cut(text, ":")
	if !found || strings.Contains(value, ":") {
		return 0, fmt.Errorf("%q is neither two numbers nor a well-known name", text)
	}
	hi, err := number(as, 32)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	lo, err := number(value, 16)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	if hi > 65535 {
		return 0, fmt.Errorf("%q: %d does not fit 16 bits; an AS number that large needs a large community, for example %d:%d:0", text, hi, hi, lo)
	}
	return uint32(hi<<16 | lo), nil
}

// FormatCommunity is the inverse of ParseCommunity; it prefers the name.
func FormatCommunity(c uint32) string {
	for _, w := range wellKnown {
		if c == w.value {
			return w.name
		}
	}
	return fmt.Sprintf("%d:%d", c>>16, c&0xFFFF)
}

// ParseLargeCommunity reads "4200000001:1:2" (RFC 8092).
func ParseLargeCommunity(text string) ([3]uint32, error) {
	var c [3]uint32
	parts := strings.Split(text, ":")
	if len(parts) != len(c) {
		return c, fmt.Errorf("%q is not three numbers", text)
	}
	for i, part := range parts {
		n, err := number(part, 32)
		if err != nil {
			return c, fmt.Errorf("%q: %w", text, err)
		}
		c[i] = uint32(n)
	}
	return c, nil
}

// FormatLargeCommunity is the inverse of ParseLargeCommunity.
func FormatLargeCommunity(c [3]uint32) string { return fmt.Sprintf("%d:%d:%d", c[0], c[1], c[2]) }

// Type octets of an extended community (RFC 4360 section 3, RFC 5668).
const (
	extTwoOctetAS  = 0x00
	extIPv4        = 0x01
	extFourOctetAS = 0x02

	extTarget = 0x02
	extOrigin = 0x03
)

// ParseExtendedCommunity reads a route target or route origin into its eight
// octets (RFC 4360 sections 4 and 5). The administrator decides the encoding:
// an AS of 16 bits leaves 32 bits for the value, an IPv4 address or a larger AS
// leaves 16 (RFC 5668).
func ParseExtendedCommunity(text string) ([8]byte, error) {
	var c [8]byte
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return c, fmt.Errorf("%q is not a kind, an administrator and a value", text)
	}
	switch parts[0] {
	case "target":
		c[1] = extTarget
	case "origin":
		c[1] = extOrigin
	default:
		return c, fmt.Errorf("%q: kind %q is not known", text, parts[0])
	}
	if a, err := netip.ParseAddr(parts[1]); err == nil {
		v, err := number(parts[2], 16)
		if err != nil {
			return c, fmt.Errorf("%q: %w after an address", text, err)
		}
		c[0] = extIPv4
		copy(c[2:6], a.AsSlice()) // four octets: the text has no room for an IPv6 address
		binary.BigEndian.PutUint16(c[6:], uint16(v))
		return c, nil
	}
	as, err := number(parts[1], 32)
	if err != nil {
		return c, fmt.Errorf("%q: %w", text, err)
	}
	if as > 65535 {
		v, err := number(parts[2], 16)
		if err != nil {
			return c, fmt.Errorf("%q: %w after an AS number above 65535", text, err)
		}
		c[0] = extFourOctetAS
		binary.BigEndian.PutUint32(c[2:], uint32(as))
		binary.BigEndian.PutUint16(c[6:], uint16(v))
		return c, nil
	}
	v, err := number(parts[2], 32)
	if err != nil {
		return c, fmt.Errorf("%q: %w", text, err)
	}
	c[0] = extTwoOctetAS
	binary.BigEndian.PutUint16(c[2:], uint16(as))
	binary.BigEndian.PutUint32(c[4:], uint32(v))
	return c, nil
}

// FormatExtendedCommunity is the inverse of ParseExtendedCommunity. Kinds it
// has no name for are eight octets in hexadecimal, "0x800600004d000000".
func FormatExtendedCommunity(c [8]byte) string {
	var kind string
	switch c[1] {
	case extTarget:
		kind = "target"
	case extOrigin:
		kind = "origin"
	}
	if kind != "" {
		switch c[0] {
		case extTwoOctetAS:
			return fmt.Sprintf("%s:%d:%d", kind, binary.BigEndian.Uint16(c[2:]), binary.BigEndian.Uint32(c[4:]))
		case extIPv4:
			return fmt.Sprintf("%s:%s:%d", kind, netip.AddrFrom4([4]byte(c[2:6])), binary.BigEndian.Uint16(c[6:]))
		case extFourOctetAS:
			return fmt.Sprintf("%s:%d:%d", kind, binary.BigEndian.Uint32(c[2:]), binary.BigEndian.Uint16(c[6:]))
		}
	}
	return fmt.Sprintf("0x%x", c[:])
}

// number reads a plain decimal number of at most the given bits.
func number(text string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s does not fit %d bits", text, bits)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}
