// Package speaker runs the BGP engine, GoBGP, in a child process of ze's own
// binary. It owns that process, the private protocol spoken with it, and every
// translation between ze's types and the library's; nothing else in ze imports
// the library. It must not know who announces what or why, or how announcements
// are kept: on each start of the child it asks for all of them.
//
// The process boundary exists because the library cannot be contained within
// one: a panic in one of its goroutines ends the process that hosts it.
//
// # Which peer gets what
//
// Only routes announced here are exported; learned ones never are. One global
// export policy says so, as the library ignores per-peer ones, and it also
// holds each announcement's restriction to some peers:
//
//	restricted4, restricted6   prefixes some peer may not have
//	allow4-PEER, allow6-PEER   those of them this peer may have
//
//	local and not in restricted            accept
//	to PEER, local and in allow-PEER       accept
//	otherwise                              reject
//
// The sets change before the routes do, so a new route meets its final policy.
// The library judges the route it replaces by the new policy too, and so does
// not withdraw it from a peer that lost it; such peers get a soft reset out.
// Withdrawals pass every policy: when a prefix goes, all peers hear so, also
// those that never had it, and ignore it.
package speaker

import (
	"encoding/json"
	"errors"
	"fmt"

	"ze.internal/ze/appliance/bgp"
)

// The protocol is one JSON value a line, requests on the child's standard input,
// responses on its standard output in any order. Both ends are the same binary,
// so it has no version. Requests that change something run in the order they
// were sent; the others run at once.
type request struct {
	ID     uint64          `json:"id"`
	Method method          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

type response struct {
	ID     uint64          `json:"id"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *failure        `json:"error,omitempty"`
	Report *bgp.Report     `json:"report,omitempty"` // instead of all the others
}

type method string

const (
	methodStart    method = "start"    // startParams; the first request
	methodApply    method = "apply"    // bgp.Config
	methodAnnounce method = "announce" // []bgp.Path
	methodWithdraw method = "withdraw" // []netip.Prefix
	methodTeardown method = "teardown" // teardownParams
	methodPeers    method = "peers"    // → []bgp.PeerStatus
	methodRIB      method = "rib"      // bgp.RIBQuery → ribResult
	methodPing     method = "ping"     // answered when the BGP engine answers
	methodAlive    method = "alive"    // answered at once
)

type startParams struct {
	Config bgp.Config `json:"config"`
	Paths  []bgp.Path `json:"paths"`
}

type teardownParams struct {
	Peer   string `json:"peer"`
	Reason string `json:"reason"`
}

type ribResult struct {
	Routes []bgp.Route `json:"routes"`
	More   bool        `json:"more"`
}

// failure carries an error across the pipe. Field and Allowed are those of a
// bgp.FieldError.
type failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
	Allowed string `json:"allowed,omitempty"`
}

var kinds = map[string]error{
	"unavailable": bgp.ErrUnavailable,
	"not-found":   bgp.ErrNotFound,
	"invalid":     bgp.ErrInvalid,
	"state":       bgp.ErrState,
}

func toFailure(err error) *failure {
	f := &failure{Kind: "internal", Message: err.Error()}
	for kind, target := range kinds {
		if errors.Is(err, target) {
			f.Kind = kind
		}
	}
	if fe, ok := errors.AsType[*bgp.FieldError](err); ok {
		f.Message, f.Field, f.Allowed = fe.Problem, fe.Field, fe.Allowed
	}
	return f
}

func (f *failure) err() error {
	target := kinds[f.Kind]
	switch {
	case f.Field != "":
		return &bgp.FieldError{Field: f.Field, Problem: f.Message, Allowed: f.Allowed, Err: target}
	case target != nil:
		return &remoteError{f.Message, target}
	default:
		return fmt.Errorf("bgp speaker: %s", f.Message)
	}
}

// remoteError keeps the child's wording and what errors.Is knows it as.
type remoteError struct {
	message string
	kind    error
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.kind }

// unknownPeer says that a query names no configured peer.
func unknownPeer(name string) error {
	return &bgp.FieldError{
		Field: "peer", Problem: fmt.Sprintf("no peer is named %q", name),
		Allowed: "a configured peer's name; show bgp peer lists them", Err: bgp.ErrNotFound,
	}
}
