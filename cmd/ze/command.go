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
)

func (c *cli) cliCommand() *cobra.Command {
	var line string
	cmd := &cobra.Command{
		Use:   "cli -c 'COMMAND'",
		Short: "Run a command line on the daemon",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if line == "" {
				return usagef("no command given; example: ze cli -c 'show bgp'")
			}
			return c.command(cmd.Context(), line)
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
func (c *cli) command(ctx context.Context, line string) error {
	return c.answer(ctx, command.Call{Line: line}, func(d *controlClient) (json.RawMessage, error) { return d.execute(ctx, line) })
}

func (c *cli) answer(ctx context.Context, call command.Call, ask func(*controlClient) (json.RawMessage, error)) error {
	if !slices.Contains(formats, c.format) {
		return usagef("--format %s: allowed are %s", c.format, strings.Join(formats, ", "))
	}
	answer, err := ask(newControlClient(c.controlSocket()))
	if errors.Is(err, errNoDaemon) {
		answer, err = c.offline(ctx, call, err)
	}
	if err != nil {
		return err
	}
	return render(c.out, c.format, answer)
}

// offline runs a command that needs nothing but the database.
func (c *cli) offline(ctx context.Context, call command.Call, noDaemon error) (json.RawMessage, error) {
	dir, _ := c.directory()
	call.Principal = &access.Principal{Name: localUser(), Accessor: "local", Scope: access.Admin}
	call.Surface = "cli"
	res, err := appliance.Offline(ctx, appliance.Options{DataDir: dir, Version: builtinVersion(), Logger: c.logger()}, call)
	var e *command.Error
	if errors.As(err, &e) && e.Code == command.Unknown {
		return nil, fmt.Errorf("%w; start it with: ze start", noDaemon)
	}
	if err != nil {
		return nil, err
	}
	return res.JSON, nil
}

// configCommands adds the forms of ze config that work with files.
func (c *cli) configCommands(root *cobra.Command) []*cobra.Command {
	var parent *cobra.Command
	for _, cmd := range root.Commands() {
		if cmd.Name() == "config" {
			parent = cmd
		}
	}
	validate := &cobra.Command{
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
	var comment string
	load := &cobra.Command{
		Use:   "import FILE",
		Short: "Check a configuration file and keep it as the newest revision",
		Args:  oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readFile(c.in, args[0])
			if err != nil {
				return err
			}
			arguments, err := json.Marshal(map[string]string{"text": string(text), "comment": comment})
			if err != nil {
				return fmt.Errorf("encode the configuration: %w", err)
			}
			path := []string{"config", "import"}
			return c.answer(cmd.Context(), command.Call{Path: path, Args: arguments}, func(d *controlClient) (json.RawMessage, error) {
				return d.post(cmd.Context(), "/api/v1/commands/"+strings.Join(path, "/"), arguments)
			})
		},
	}
	load.Flags().StringVar(&comment, "comment", "", "why; kept with the revision")
	c.formatFlag(load)
	if parent != nil {
		parent.AddCommand(validate, load)
		parent.Args = cobra.ArbitraryArgs
	}
	return nil
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef(`%s takes one file ("-" is standard input), got %d arguments`, cmd.CommandPath(), len(args))
	}
	return nil
}
