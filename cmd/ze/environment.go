package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"ze.internal/ze/appliance/schema"
)

// environment holds the settings read from environment variables.
type environment struct {
	dataDir       string
	socket        string
	logLevel      string
	mcpToken      string
	mcpListen     []netip.AddrPort
	mcpCert       string
	mcpKey        string
	metricsListen []netip.AddrPort

	given map[string]string // what was set, by name
}

// setting is one registered name. Names are dotted; a variable is the name with
// underscores for dots, in any case: ze.mcp.listen is ZE_MCP_LISTEN.
type setting struct {
	name   string
	about  string
	form   string // the allowed form
	secret bool
	file   bool // a credential of this name is the file that it names
	set    func(e *environment, value string) error
}

func settings() []setting {
	const listen = "ADDRESS:PORT, several with commas"
	return []setting{
		{name: "ze.control.socket", form: "PATH", about: "control socket of the daemon",
			set: func(e *environment, v string) error { e.socket = v; return nil }},
		{name: "ze.data.dir", form: "DIRECTORY", about: "directory of the database",
			set: func(e *environment, v string) error { e.dataDir = v; return nil }},
		{name: "ze.log.level", form: "trace, debug, info, warn or error", about: "what is logged",
			set: func(e *environment, v string) error { e.logLevel = v; return checkLevel(v) }},
		{name: "ze.mcp.listen", form: listen, about: "where MCP is served, whatever the configuration says",
			set: func(e *environment, v string) (err error) { e.mcpListen, err = addresses(v); return err }},
		{name: "ze.mcp.token", form: "TOKEN", about: "a bearer token with scope admin", secret: true,
			set: func(e *environment, v string) error { e.mcpToken = v; return nil }},
		{name: "ze.mcp.url", form: "URL", about: "where ze-mcp reaches a daemon, instead of its control socket", set: notHere},
		{name: "ze.mcp.tls.cert", form: "FILE", about: "PEM file with the certificate chain of MCP, whatever the configuration says", file: true,
			set: func(e *environment, v string) error { e.mcpCert = v; return nil }},
		{name: "ze.mcp.tls.key", form: "FILE", about: "PEM file with its private key", file: true,
			set: func(e *environment, v string) error { e.mcpKey = v; return nil }},
		{name: "ze.metrics.listen", form: listen, about: "where metrics are served, whatever the configuration says",
			set: func(e *environment, v string) (err error) { e.metricsListen, err = addresses(v); return err }},
		{name: "ze.token", form: "TOKEN", about: "the bearer token of ze-mcp and ze-test", secret: true, set: notHere},
	}
}

// notHere is for what only other programs of ze read.
func notHere(*environment, string) error { return nil }

// variable is the environment variable of a setting.
func (s setting) variable() string { return strings.ToUpper(strings.ReplaceAll(s.name, ".", "_")) }

func (c *cli) envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "env", Short: "Settings that can be made by environment variables", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("%s takes a command; see: %s --help", cmd.CommandPath(), cmd.CommandPath())
		},
	}
	list := &cobra.Command{
		Use: "list", Args: noArguments,
		Short: "List the registered names, what they take, and which are set",
		Long: `List the registered names, what they take, and which are set.

The command line wins over the environment, the environment over a credential
of that name from the service manager (LoadCredential= in systemd.exec(5)), that
over the configuration, the configuration over the default.`,
		RunE: func(*cobra.Command, []string) error {
			var rows []object
			for _, s := range settings() {
				value := c.env.given[s.name]
				if s.secret && value != "" {
					value = "***"
				}
				rows = append(rows, object{{"name", s.name}, {"variable", s.variable()}, {"form", s.form}, {"about", s.about}, {"value", value}})
			}
			return columns(c.out, rows, "")
		},
	}
	cmd.AddCommand(list)
	return cmd
}

// readEnvironment reads the registered settings. It warns of names that nothing
// reads; a value that cannot be read is an error, since going on without it
// could open another door than was asked for. What no variable sets, a credential
// of its name does; credential returns the file of one.
func readEnvironment(variables []string, credential func(name string) (path string, ok bool)) (environment, []string, error) {
	e := environment{given: map[string]string{}}
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
				w += "; did you mean " + setting{name: near}.variable() + "?"
			}
			warnings = append(warnings, w)
			continue
		}
		e.given[name] = value
		if err := known[i].set(&e, value); err != nil {
			return e, warnings, usagef("environment variable %s: %w", variable, err)
		}
	}
	for _, s := range known {
		path, ok := credential(s.name)
		if _, given := e.given[s.name]; given || !ok {
			continue
		}
		value := path
		if !s.file {
			text, err := os.ReadFile(path)
			if err != nil {
				return e, warnings, usagef("read the credential %s: %w", s.name, err)
			}
			value = strings.TrimSpace(string(text))
		}
		e.given[s.name] = value
		if err := s.set(&e, value); err != nil {
			return e, warnings, usagef("credential %s: %w", s.name, err)
		}
	}
	return e, warnings, nil
}

func checkLevel(level string) error {
	if _, err := zerolog.ParseLevel(level); err != nil {
		return fmt.Errorf("log level %q: allowed are trace, debug, info, warn and error", level)
	}
	return nil
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
