package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"ze.internal/ze/appliance/schema"
)

// environment holds the settings read from environment variables.
type environment struct {
	dataDir       string
	socket        string
	logLevel      string
	mcpToken      string
	mcpListen     []netip.AddrPort
	metricsListen []netip.AddrPort
}

// setting is one registered name. Names are dotted; a variable is the name with
// underscores for dots, in any case: ze.mcp.listen is ZE_MCP_LISTEN.
type setting struct {
	name string
	set  func(e *environment, value string) error
}

func settings() []setting {
	return []setting{
		{"ze.data.dir", func(e *environment, v string) error { e.dataDir = v; return nil }},
		{"ze.control.socket", func(e *environment, v string) error { e.socket = v; return nil }},
		{"ze.log.level", func(e *environment, v string) error { e.logLevel = v; return nil }},
		{"ze.mcp.token", func(e *environment, v string) error { e.mcpToken = v; return nil }},
		{"ze.mcp.listen", func(e *environment, v string) (err error) { e.mcpListen, err = addresses(v); return err }},
		{"ze.metrics.listen", func(e *environment, v string) (err error) { e.metricsListen, err = addresses(v); return err }},
	}
}

// readEnvironment reads the registered settings. It warns of names that nothing
// reads; a value that cannot be read is an error, since going on without it
// could open another door than was asked for.
func readEnvironment(variables []string) (environment, []string, error) {
	var e environment
	var warnings []string
	known := settings()
	names := make([]string, len(known))
	for i, s := range known {
		names[i] = s.name
	}
	for _, v := range variables {
		variable, value, _ := strings.Cut(v, "=")
		name := strings.ReplaceAll(strings.ToLower(variable), "_", ".")
		if !strings.HasPrefix(name, "ze.") || value == "" {
			continue
		}
		i := slices.Index(names, name)
		if i < 0 {
			w := "unknown environment variable " + variable
			if near := schema.Nearest(name, names); near != "" {
				w += "; did you mean " + strings.ToUpper(strings.ReplaceAll(near, ".", "_")) + "?"
			}
			warnings = append(warnings, w)
			continue
		}
		if err := known[i].set(&e, value); err != nil {
			return e, warnings, usagef("environment variable %s: %w", variable, err)
		}
	}
	return e, warnings, nil
}

// addresses reads ADDRESS:PORT[,ADDRESS:PORT…].
func addresses(list string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for a := range strings.SplitSeq(list, ",") {
		ap, err := netip.ParseAddrPort(strings.TrimSpace(a))
		if err != nil {
			return nil, fmt.Errorf("%q is not ADDRESS:PORT, as 127.0.0.1:8080", a)
		}
		out = append(out, ap)
	}
	return out, nil
}
