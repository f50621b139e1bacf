package bgp

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

const (
	maxASPath = 250 // one segment holds 255, and our own AS is prepended

	// maxAttributes bounds the encoded attributes of one route. A message has
	// 4096 octets; above about 4,070 the engine drops routes or dies.
	maxAttributes = 3500

	asTrans = 23456 // stands for "does not fit 16 bits" (RFC 6793) and is nobody's number
)

// Validate returns the first thing wrong with a as a *FieldError: every value
// in range, lists without duplicates, exactly one next hop, and an encoding
// that is sure to fit a BGP message. Which peers can take the next hop is the
// matter of a request, not of the attributes.
func (a *Attributes) Validate() error {
	if !slices.Contains([]string{"", "igp", "egp", "incomplete"}, a.Origin) {
		return &FieldError{Field: "origin", Problem: fmt.Sprintf("%q is no origin", a.Origin), Allowed: "igp, egp or incomplete", Err: ErrInvalid}
	}
	if a.NextHopSelf == a.NextHop.IsValid() {
		return &FieldError{Field: "next-hop", Problem: "an address and self exclude each other, and one is needed", Allowed: "self or an address, for example 192.0.2.1", Err: ErrInvalid}
	}
	if a.NextHop.IsValid() {
		if why := unusable(a.NextHop); why != "" {
			return &FieldError{Field: "next-hop", Problem: fmt.Sprintf("%q %s", a.NextHop, why), Allowed: addressForm, Err: ErrInvalid}
		}
	}
	if err := checkASPath(a.ASPath); err != nil {
		return err
	}
	if err := checkCommunities("community", a.Communities, communityForm, ParseCommunity); err != nil {
		return err
	}
	if err := checkCommunities("large-community", a.LargeCommunities, largeCommunityForm, ParseLargeCommunity); err != nil {
		return err
	}
	if err := checkCommunities("extended-community", a.ExtendedCommunities, extendedCommunityForm, ParseExtendedCommunity); err != nil {
		return err
	}
	if n := a.encodedSize(); n > maxAttributes {
		return &FieldError{
			Field:   a.longest(),
			Problem: fmt.Sprintf("the attributes take %d octets together", n),
			Allowed: fmt.Sprintf("at most %d octets; a community takes 4, a large one 12, an extended one 8, an AS number 4", maxAttributes),
			Err:     ErrInvalid,
		}
	}
	return nil
}

func checkASPath(path []uint32) error {
	if len(path) > maxASPath {
		return &FieldError{Field: "as-path", Problem: fmt.Sprintf("%d AS numbers", len(path)), Allowed: fmt.Sprintf("at most %d, for example [ 64512 64513 ]", maxASPath), Err: ErrInvalid}
	}
	for i, as := range path {
		if as == 0 || as == asTrans {
			return &FieldError{
				Field: fmt.Sprintf("as-path[%d]", i), Problem: fmt.Sprintf("AS %d is reserved and belongs to nobody", as),
				Allowed: "1 to 4294967295 except 23456, for example 64512", Err: ErrInvalid,
			}
		}
	}
	return nil
}

func checkCommunities[C comparable](field string, texts []string, form string, parse func(string) (C, error)) error {
	// What fits a message decides the bound; checked first so that a huge list costs nothing.
	if len(texts) > maxAttributes/4 {
		return &FieldError{Field: field, Problem: fmt.Sprintf("%d values", len(texts)), Allowed: fmt.Sprintf("no more than fit %d octets of attributes", maxAttributes), Err: ErrInvalid}
	}
	first := make(map[C]int, len(texts))
	for i, text := range texts {
		at := fmt.Sprintf("%s[%d]", field, i)
		c, err := parse(text)
		if err != nil {
			return &FieldError{Field: at, Problem: err.Error(), Allowed: form, Err: ErrInvalid}
		}
		if j, twice := first[c]; twice {
			return &FieldError{Field: at, Problem: fmt.Sprintf("%q is the same as %s[%d]", text, field, j), Allowed: "each community once", Err: ErrInvalid}
		}
		first[c] = i
	}
	return nil
}

// longest names the list that takes the most octets.
func (a *Attributes) longest() string {
	name, most := "as-path", 4*len(a.ASPath)
	for _, list := range [...]struct {
		name   string
		octets int
	}{
		{"community", 4 * len(a.Communities)}, {"large-community", 12 * len(a.LargeCommunities)},
		{"extended-community", 8 * len(a.ExtendedCommunities)},
	} {
		if list.octets > most {
			name, most = list.name, list.octets
		}
	}
	return name
}

// encodedSize returns an upper bound of the octets the attributes of one route
// take in an UPDATE (RFC 4271 section 4.3), with our AS prepended and, as the
// larger of the two forms, the next hop in MP_REACH_NLRI (RFC 4760) together
// with one IPv6 prefix.
func (a *Attributes) encodedSize() int {
	const header = 4 // flags, type, two octets of length
	n := header + 1  // ORIGIN
	n += header + 2 + 4*(len(a.ASPath)+1)
	n += header + 3 + 1 + 32 + 1 + 17
	if a.MED != nil {
		n += header + 4
	}
	if a.LocalPreference != nil {
		n += header + 4
	}
	for _, list := range [...]struct{ count, each int }{
		{len(a.Communities), 4}, {len(a.LargeCommunities), 12}, {len(a.ExtendedCommunities), 8},
	} {
		if list.count > 0 {
			n += header + list.count*list.each
		}
	}
	return n
}

// canonical returns valid attributes in the one form that equal ones share, so
// that "no-export" and "65535:65281" are kept and compared as the same value.
func (a Attributes) canonical() (Attributes, error) {
	if a.Origin == "" {
		a.Origin = "igp"
	}
	a.ASPath = append([]uint32(nil), a.ASPath...)
	var errs [3]error
	a.Communities, errs[0] = reformat(a.Communities, ParseCommunity, FormatCommunity)
	a.LargeCommunities, errs[1] = reformat(a.LargeCommunities, ParseLargeCommunity, FormatLargeCommunity)
	a.ExtendedCommunities, errs[2] = reformat(a.ExtendedCommunities, ParseExtendedCommunity, FormatExtendedCommunity)
	return a, errors.Join(errs[:]...)
}

func reformat[C any](texts []string, parse func(string) (C, error), format func(C) string) ([]string, error) {
	var out []string
	for _, text := range texts {
		c, err := parse(text)
		if err != nil {
			return nil, err
		}
		out = append(out, format(c))
	}
	return out, nil
}

// equal reports whether two canonical sets of attributes are the same route to a peer.
func (a *Attributes) equal(b *Attributes) bool { return reflect.DeepEqual(a, b) }
