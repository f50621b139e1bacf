package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/place"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/systemd"
)

// cli is one run of the program: its streams, environment and global flags.
type cli struct {
	stdio
	env environment

	dataDir   string
	socket    string
	logLevel  string
	format    string
	mcpPort   string
	mcpToken  string
	isVersion bool
}

func execute(ctx context.Context, io stdio, args []string) error {
	env, warnings, err := readEnvironment(os.Environ(), systemd.Credential)
	if err != nil {
		return err
	}
	c := &cli{stdio: io, env: env}
	for _, w := range warnings {
		fmt.Fprintln(io.err, "ze: warning: "+w)
	}
	set, err := schema.Load(builtin.Models())
	if err != nil {
		return fmt.Errorf("load the commands: %w", err)
	}
	root := c.root(set)
	root.SetArgs(plainWords(root, set, args))
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	return root.ExecuteContext(ctx)
}

// root builds the command tree: what this program does itself, and one command
// for each first word that the daemon's own commands begin with.
func (c *cli) root(set *schema.Set) *cobra.Command {
	root := &cobra.Command{
		Use:   "ze [flags] [CONFIG-FILE]",
		Short: "An operations appliance that AI assistants drive over MCP, and people from here",
		Long: `ze is one daemon with one database. Assistants drive it over MCP, people with this command.

  ze demo                    see it work, with a BGP session, in a throw-away place
  ze init && ze start        create the database and start the daemon
  ze --mcp 8080 ze.conf      start from a configuration file ("-" is standard input)
  ze cli -c 'show bgp'       run a command on the daemon
  ze show command list       list the daemon's commands
  ze help ai                 explain all of them to a model

Exit codes: ` + exitHelp() + `.`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          c.runFile,
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"data", "socket", "log-level", "mcp", "mcp-token"} {
			// An empty value is a variable that was not set, hardly ever a wish.
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
				return usagef("--%s is empty; give it a value or leave it out", name)
			}
		}
		if err := checkLevel(c.logLevel); err != nil {
			return usagef("--log-level: %w", err)
		}
		return nil
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see: %s --help", err, cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVar(&c.dataDir, "data", "", "directory of the database (default /var/lib/ze, for others than root only where it is, else $XDG_STATE_HOME/ze)")
	f.StringVar(&c.socket, "socket", "", "control socket of the daemon")
	f.StringVar(&c.logLevel, "log-level", "", "trace, debug, info, warn or error")
	c.startFlags(root)
	root.Flags().BoolVar(&c.isVersion, "version", false, "print the version")

	root.AddCommand(c.startCommand(), c.statusCommand(set), c.initCommand(), c.demoCommand(), c.cliCommand(set), c.envCommand(), speakerCommand(c.stdio))
	root.AddCommand(c.daemonCommands(set)...)
	if cfg, _, err := root.Find([]string{"config"}); err == nil {
		cfg.AddCommand(configCLI{c, set}.commands()...)
	}
	root.AddCommand(manualCommand(root))
	root.SetHelpCommand(c.helpCommand(root))
	return root
}

// statusCommand is the shortest way to ask what everybody asks first.
func (c *cli) statusCommand(set *schema.Set) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Args: noArguments, Annotations: forDaemon("show", "status"),
		Short: "Show what runs and where it answers: ze show status",
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.command(cmd.Context(), set, "show status") },
	}
	c.formatFlag(cmd)
	return cmd
}

// startFlags are the flags of every form that starts the daemon.
func (c *cli) startFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.mcpPort, "mcp", "", "serve MCP on this port of 127.0.0.1")
	cmd.Flags().StringVar(&c.mcpToken, "mcp-token", "", "bearer token with scope admin; visible in the process list, so rather set ZE_MCP_TOKEN")
}

// runFile is ze without a command: start from a configuration file.
func (c *cli) runFile(cmd *cobra.Command, args []string) error {
	switch {
	case c.isVersion:
		_, err := fmt.Fprintln(c.out, "ze "+builtinVersion().Version)
		return err
	case len(args) == 0:
		_ = cmd.Usage() // the error below says what is wrong
		return usagef("no command and no configuration file given")
	case !isConfigFile(args[0]):
		return unknownCommand(cmd, args[0])
	case len(args) > 1:
		return usagef("one configuration file is enough; what is %q for?", args[1])
	}
	file := args[0]
	text, err := readFile(c.in, file)
	if err != nil {
		return err
	}
	return c.serve(cmd.Context(), service{file: file, text: text})
}

// isConfigFile reports whether an argument names a configuration file.
func isConfigFile(arg string) bool {
	if arg == "-" || slices.Contains([]string{".conf", ".cfg"}, filepath.Ext(arg)) {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}

func unknownCommand(root *cobra.Command, word string) error {
	var names []string
	for _, sub := range root.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	hint := ""
	if near := schema.Nearest(word, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return usagef("%q is neither a command nor a configuration file%s; see: ze --help", word, hint)
}

// directory returns the database's directory and whether it was named.
func (c *cli) directory() (dir string, named bool) {
	for _, d := range []string{c.dataDir, c.env.dataDir} {
		if d != "" {
			return d, true
		}
	}
	return place.DataDir(), false
}

// controlSocket returns where the daemon of this data directory is reached.
func (c *cli) controlSocket() string {
	dir, named := c.directory()
	switch {
	case c.socket != "":
		return c.socket
	case c.env.socket != "":
		return c.env.socket
	case named:
		return place.Socket(dir)
	}
	return place.Socket("")
}

// overrides returns the settings that win over the configuration text.
func (c *cli) overrides() (appliance.Overrides, error) {
	o := appliance.Overrides{
		MCPListen: c.env.mcpListen, MCPListenFrom: "ZE_MCP_LISTEN",
		MCPToken: c.env.mcpToken, MCPTokenFrom: "ZE_MCP_TOKEN",
		MetricsListen: c.env.metricsListen, MetricsListenFrom: "ZE_METRICS_LISTEN",
		MCPCert: c.env.mcpCert, MCPKey: c.env.mcpKey, MCPTLSFrom: "ZE_MCP_TLS_CERT and ZE_MCP_TLS_KEY",
	}
	if c.mcpToken != "" {
		o.MCPToken, o.MCPTokenFrom = c.mcpToken, "--mcp-token"
	}
	if c.mcpPort != "" {
		port, err := strconv.ParseUint(c.mcpPort, 10, 16)
		if err != nil {
			return o, usagef("--mcp %s: not a port; allowed: 0..65535, where 0 lets the system choose", c.mcpPort)
		}
		o.MCPListenFrom = "--mcp"
		o.MCPListen = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))}
	}
	return o, nil
}

// daemonCommands returns a command for each first word of the daemon's commands.
func (c *cli) daemonCommands(set *schema.Set) []*cobra.Command {
	var out []*cobra.Command
	seen := map[string]bool{}
	for _, decl := range set.Commands() {
		word := decl.Path[0]
		if seen[word] || decl.Hidden {
			continue
		}
		seen[word] = true
		cmd := &cobra.Command{
			Use: word + " …", Annotations: forDaemon(word),
			Short: shortHelp(set, word),
			Long:  longHelp(set, word),
			Args:  cobra.ArbitraryArgs, ValidArgsFunction: completeDaemon(set, word),
			RunE: func(cmd *cobra.Command, args []string) error {
				line, err := c.commandLine(set, append([]string{word}, args...))
				if err != nil {
					return err
				}
				return c.command(cmd.Context(), set, line)
			},
		}
		c.formatFlag(cmd)
		out = append(out, cmd)
	}
	return out
}

func shortHelp(set *schema.Set, word string) string {
	var subs []string
	for _, d := range set.Commands() {
		if d.Path[0] != word || d.Hidden {
			continue
		}
		if len(d.Path) == 1 {
			return firstSentence(d.Description)
		}
		if !slices.Contains(subs, d.Path[1]) {
			subs = append(subs, d.Path[1])
		}
	}
	return "On the daemon: " + strings.Join(subs, ", ")
}

func longHelp(set *schema.Set, word string) string {
	var b strings.Builder
	b.WriteString("Runs on the daemon, in the same words as everywhere:\n")
	for _, d := range set.Commands() {
		if d.Path[0] == word && !d.Hidden {
			fmt.Fprintf(&b, "\n  ze %s\n      %s\n", strings.Join(d.Path, " "), firstSentence(d.Description))
			if p := fileParameter(d.Input); p != "" {
				fmt.Fprintf(&b, "      in a shell, a file stands for <%s>; \"-\" is standard input\n", p)
				continue
			}
			for _, e := range d.Examples {
				fmt.Fprintf(&b, "      ze %s\n", e)
			}
		}
	}
	b.WriteString("\nParameters of a command: ze show command help COMMAND")
	return b.String()
}

// fileParameter returns the parameter, or the field of an answer, that is a
// file in a shell, "" if there is none.
func fileParameter(o *schema.Object) string {
	for _, p := range o.Params {
		if p.File {
			return p.Name
		}
	}
	return ""
}

func firstSentence(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i+1]
	}
	return s
}
