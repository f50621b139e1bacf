package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
)

func (c *cli) cliCommand(set *schema.Set) *cobra.Command {
	var line string
	cmd := &cobra.Command{
		Use:   "cli -c 'COMMAND'",
		Short: "Run a command line on the daemon",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if line == "" {
				return usagef("no command given; example: ze cli -c 'show bgp'")
			}
			return c.command(cmd.Context(), set, line)
		},
	}
	cmd.Flags().StringVarP(&line, "command", "c", "", "the command line")
	c.formatFlag(cmd)
	return cmd
}

func (c *cli) formatFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.format, "format", "text", "how to print the answer: "+strings.Join(formats, ", "))
}

// command runs a command line on the daemon, or, if none runs and the command
// only needs the database, on that. It prints the answer.
func (c *cli) command(ctx context.Context, set *schema.Set, line string) error {
	if !slices.Contains(formats, c.format) {
		return usagef("--format %s: allowed are %s", c.format, strings.Join(formats, ", "))
	}
	answer, err := newControlClient(c.controlSocket()).execute(ctx, line)
	if errors.Is(err, errNoDaemon) {
		if needsDaemon(set, line) || c.socket != "" {
			return fmt.Errorf("%w; start one with: %s", err, c.hint("start"))
		}
		answer, err = c.offline(ctx, line)
	}
	if err != nil {
		return err
	}
	return render(c.out, c.format, answer)
}

// needsDaemon reports whether a line is of no command that works on the
// database alone.
func needsDaemon(set *schema.Set, line string) bool {
	words := strings.Fields(line)
	for _, decl := range set.Commands() {
		if n := len(decl.Path); decl.Offline && len(words) >= n && slices.Equal(words[:n], decl.Path) {
			return false
		}
	}
	return true
}

// hint is a command line of this program for the database in use.
func (c *cli) hint(command string) string {
	if dir, named := c.directory(); named {
		return "ze --data " + dir + " " + command
	}
	return "ze " + command
}

// offline runs a command that needs nothing but the database.
func (c *cli) offline(ctx context.Context, line string) (json.RawMessage, error) {
	dir, _ := c.directory()
	res, err := appliance.Offline(ctx, appliance.Options{DataDir: dir, Version: builtinVersion(), Logger: c.logger()}, command.Call{
		Principal: &access.Principal{Name: localUser(), Accessor: "local", Scope: access.Admin}, Surface: "cli", Line: line,
	})
	if err != nil {
		return nil, err
	}
	return res.JSON, nil
}

// commandLine makes one line of words that a shell has split. Where the command
// says so of its first positional parameter, the name of a file is replaced by
// what is in it.
func (c *cli) commandLine(set *schema.Set, words []string) (string, error) {
	for _, decl := range set.Commands() {
		n := len(decl.Path)
		if len(words) <= n || !slices.Equal(words[:n], decl.Path) {
			continue
		}
		for _, p := range decl.Input.Params {
			if !p.Positional {
				continue
			}
			if !p.File {
				break
			}
			text, err := readFile(c.in, words[n])
			if err != nil {
				return "", err
			}
			return joinWords(words[:n]) + " " + quoteWord(string(text)) + " " + joinWords(words[n+1:]), nil
		}
	}
	return joinWords(words), nil
}

// validateCommand checks a file without any daemon or database.
func (c *cli) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file as the daemon does before it starts",
		Args:  oneFile,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := readFile(c.in, args[0])
			if err != nil {
				return err
			}
			overrides, err := c.overrides()
			if err != nil {
				return err
			}
			cfg, err := appliance.LoadConfiguration(args[0], text, overrides, -1)
			var problems config.Problems
			if errors.As(err, &problems) {
				return &exitError{code: exitConfig, err: errors.New(problems.Render(text))}
			}
			if err != nil {
				return err
			}
			for _, w := range cfg.Warnings {
				fmt.Fprintln(c.err, "ze: warning: "+w)
			}
			_, err = fmt.Fprintln(c.out, args[0]+": valid")
			return err
		},
	}
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef(`%s takes one file ("-" is standard input), got %d arguments`, cmd.CommandPath(), len(args))
	}
	return nil
}
