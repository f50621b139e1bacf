package access

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Problem is one thing wrong with the authentication settings.
type Problem struct {
	Path    string // in the configuration, below the surface's block: "auth-mode", "identity[ci]/token"
	Message string // what is wrong
	Allowed string // what is allowed, and what to do next
}

// String returns the problem in one line.
func (p Problem) String() string { return p.Path + ": " + p.Message + "; " + p.Allowed }

// Settings is what decides who gets in, gathered from command line, environment,
// configuration and store. It is checked the same way by validation and before
// a surface starts to listen.
type Settings struct {
	Mode        string
	HasToken    bool             // a token by flag, environment or configuration
	Identities  []StaticToken    // of mode bearer-list; a zero Digest means that none was given
	Listeners   []netip.AddrPort // where the surface will listen
	StoreTokens int              // tokens in the store
	BindRemote  bool             // listening where other machines reach it is intended
	Cert, Key   string           // files of the TLS key pair, "" for none
}

// Check returns what is wrong. A surface with problems must not start.
func (s Settings) Check() []Problem {
	var problems []Problem
	add := func(path, message, allowed string) {
		problems = append(problems, Problem{path, message, allowed})
	}
	switch {
	case !slices.Contains(modes, s.Mode):
		add("auth-mode", fmt.Sprintf("unknown mode %q", s.Mode), strings.Join(modes, ", "))
	case s.Mode == ModeNone && s.HasToken:
		add("auth-mode", "mode none lets everybody in, yet a token is set", "use mode bearer, or remove the token")
	case s.Mode == ModeBearer && !s.HasToken && s.StoreTokens == 0:
		add("auth-mode", "mode bearer without any token: every call would be refused", "run `ze token create NAME`, or give one with --mcp-token")
	case s.Mode == ModeBearerList && !s.HasToken && s.StoreTokens == 0 && !slices.ContainsFunc(s.Identities, usable):
		add("auth-mode", "mode bearer-list without any token: every call would be refused",
			"add an identity with a token, run `ze token create NAME`, or give one with --mcp-token")
	}
	if len(s.Identities) > 0 && s.Mode != ModeBearerList {
		add("identity", fmt.Sprintf("identities have no effect in mode %q", s.Mode), "use mode bearer-list, or remove them")
	}
	problems = append(problems, checkIdentities(s.Identities)...)
	switch {
	case s.Cert != "" && s.Key == "":
		add("tls", "there is a certificate but no key", "give both cert and key, or neither")
	case s.Cert == "" && s.Key != "":
		add("tls", "there is a key but no certificate", "give both cert and key, or neither")
	}
	return append(problems, s.checkRemote()...)
}

// checkRemote holds a surface that other machines can reach to what that takes:
// the intention, callers who prove who they are, and a line that keeps secrets.
func (s Settings) checkRemote() (problems []Problem) {
	for _, l := range s.Listeners {
		if l.Addr().Unmap().IsLoopback() {
			continue
		}
		add := func(path, lacking, allowed string) {
			problems = append(problems, Problem{path, fmt.Sprintf("address %s can be reached from other machines, and %s", l, lacking), allowed})
		}
		if !s.BindRemote {
			add("server", "bind-remote is not true", "use 127.0.0.1 or ::1, or set bind-remote true, with TLS and a mode other than none")
		}
		if s.Mode == ModeNone {
			add("auth-mode", "mode none lets everybody in", "use mode bearer or bearer-list, or listen on 127.0.0.1 or ::1")
		}
		if s.Cert == "" || s.Key == "" {
			add("tls", "tokens would be sent in clear", "set tls { cert FILE; key FILE; }, or listen on 127.0.0.1 or ::1")
		}
		return problems // what holds for one holds for all
	}
	return nil
}

func usable(t StaticToken) bool { return t.Digest != [32]byte{} }

func checkIdentities(identities []StaticToken) []Problem {
	var problems []Problem
	names, digests := map[string]bool{}, map[[32]byte]string{}
	for _, t := range identities {
		path := "identity[" + t.Name + "]"
		if names[t.Name] {
			problems = append(problems, Problem{path, "there is another identity of this name", "give each its own name"})
		}
		names[t.Name] = true
		if !usable(t) {
			problems = append(problems, Problem{path + "/token", "there is no token", "give each identity a token of its own"})
			continue
		}
		if other, ok := digests[t.Digest]; ok {
			problems = append(problems, Problem{path + "/token", "identity " + other + " has the same token", "give each identity a token of its own"})
		}
		digests[t.Digest] = t.Name
	}
	return problems
}

// Warnings returns what is allowed but worth a line in the log.
func (s Settings) Warnings() []string {
	if s.Mode == ModeNone {
		return []string{"auth-mode none: every local user and every program on this machine may do everything; use bearer and `ze token create NAME`"}
	}
	return nil
}
