package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
)

// shellForm is a short way to say a command about the configuration.
type shellForm struct {
	use, short string
	words      []string // of the command; the arguments follow
	raw        string   // field of the answer that is printed alone, "" for all of it
}

func shellForms() []shellForm {
	return []shellForm{
		{"set PATH… VALUE…", "Write a value into your candidate", []string{"set"}, ""},
		{"delete PATH…", "Remove something from your candidate", []string{"delete"}, ""},
		{"diff", "Show what committing your candidate would change", []string{"show", "config", "diff"}, "diff"},
		{"commit [confirmed SECONDS] [comment TEXT]", "Make your candidate the running configuration", []string{"request", "config", "commit"}, ""},
		{"confirm", "Keep the commit that waits to be confirmed", []string{"request", "config", "confirm"}, ""},
		{"rollback NUMBER", "Make an earlier revision the running configuration", []string{"request", "config", "rollback"}, ""},
		{"discard", "Drop your candidate", []string{"request", "config", "discard"}, ""},
		{"history", "List every revision", []string{"show", "config", "history"}, ""},
	}
}

// configCLI is the cli with what it needs to send commands.
type configCLI struct {
	*cli
	set *schema.Set
}

// commands returns what ze config does beside the daemon's commands that
// begin with config.
func (c configCLI) commands() []*cobra.Command {
	out := []*cobra.Command{c.showCommand(), c.exportCommand(), c.editCommand(), c.formatCommand(), c.validateCommand()}
	for _, f := range shellForms() {
		cmd := &cobra.Command{Use: f.use, Short: f.short, Args: cobra.ArbitraryArgs, Annotations: forDaemon(f.words...),
			RunE: func(cmd *cobra.Command, args []string) error {
				return c.commandField(cmd.Context(), joinWords(slices.Concat(f.words, args)), f.raw)
			}}
		c.formatFlag(cmd)
		out = append(out, cmd)
	}
	return out
}

func (c configCLI) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [running | candidate | revision NUMBER] [PATH…]",
		Short: "Print the running configuration, another one, or a part of it",
		Args:  cobra.ArbitraryArgs, Annotations: forDaemon("show", "config"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || !slices.Contains([]string{"running", "candidate", "revision"}, args[0]) {
				args = append([]string{"running"}, args...)
			}
			return c.commandField(cmd.Context(), joinWords(append([]string{"show", "config"}, args...)), "text")
		},
	}
	c.formatFlag(cmd)
	return cmd
}

// commandField runs a command line and prints one field of the answer as it is,
// unless another format is asked for.
func (c configCLI) commandField(ctx context.Context, line, field string) error {
	if field == "" || c.format != "text" {
		return c.command(ctx, c.set, line)
	}
	text, err := c.askField(ctx, line, field)
	if err != nil {
		return err
	}
	_, err = c.out.Write([]byte(text))
	return err
}

// askField runs a command line and returns a text of its answer.
func (c configCLI) askField(ctx context.Context, line, field string) (string, error) {
	answer, err := c.ask(ctx, c.set, line)
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	var text string
	err = json.Unmarshal(answer, &fields)
	if err == nil {
		err = json.Unmarshal(fields[field], &text)
	}
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return text, nil
}

func (c configCLI) exportCommand() *cobra.Command {
	var secrets bool
	cmd := &cobra.Command{
		Use:   "export [--secrets] [FILE]",
		Short: "Write the running configuration to a file, or to standard output",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s takes one file, got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			line := "config export"
			if secrets {
				line += " secrets"
			}
			text, err := c.askField(cmd.Context(), line, "text")
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "-" {
				_, err = c.out.Write([]byte(text))
				return err
			}
			return replaceFile(args[0], []byte(text), 0o600)
		},
	}
	cmd.Flags().BoolVar(&secrets, "secrets", false, "passwords in clear; tokens are kept as digests only")
	return cmd
}

func (c configCLI) formatCommand() *cobra.Command {
	var inPlace bool
	cmd := &cobra.Command{
		Use:   "fmt [-w] FILE",
		Short: "Print a configuration file in its canonical form, comments kept",
		Args:  oneFile,
		RunE: func(_ *cobra.Command, args []string) error {
			if inPlace && args[0] == "-" {
				return usagef("-w changes a file, and standard input is none")
			}
			text, err := readFile(c.in, args[0])
			if err != nil {
				return err
			}
			tree, err := config.Parse(args[0], text)
			if err != nil {
				return rendered(err, text)
			}
			printed := tree.Print()
			if !inPlace {
				_, err = c.out.Write(printed)
				return err
			}
			if bytes.Equal(printed, text) {
				return nil
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			return replaceFile(args[0], printed, info.Mode().Perm())
		},
	}
	cmd.Flags().BoolVarP(&inPlace, "write", "w", false, "write it back to the file")
	return cmd
}

// validateCommand checks a file without any daemon or database.
func (c configCLI) validateCommand() *cobra.Command {
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
			if err != nil {
				return rendered(err, text)
			}
			for _, w := range cfg.Warnings {
				fmt.Fprintln(c.err, "ze: warning: "+w)
			}
			_, err = fmt.Fprintln(c.out, args[0]+": valid")
			return err
		},
	}
}

// rendered shows problems with the lines they are on.
func rendered(err error, text []byte) error {
	var problems config.Problems
	if errors.As(err, &problems) {
		return &exitError{code: exitConfig, err: errors.New(problems.Render(text))}
	}
	return err
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef(`%s takes one file ("-" is standard input), got %d arguments`, cmd.CommandPath(), len(args))
	}
	return nil
}

// replaceFile writes a file so that it holds the old text or all of the new one.
func replaceFile(name string, text []byte, mode fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", name, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close()) // or a crash might bring the old file back
}

func (c configCLI) editCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "edit",
		Short: "Edit your candidate with $VISUAL or $EDITOR",
		Long: `Edit your candidate with $VISUAL or $EDITOR.

Secrets are shown as "***"; where that is left, they stay as they are. What is
saved becomes the candidate; ze config diff shows what it would change, and
ze config commit makes it run.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.edit(cmd.Context()) },
	}
}

// edit has the user edit the candidate until it is accepted or given up. What
// is not accepted stays in its file.
func (c configCLI) edit(ctx context.Context) error {
	answer, err := c.ask(ctx, c.set, "show config candidate")
	if err != nil {
		return err
	}
	var candidate struct {
		Base uint64 `json:"base"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(answer, &candidate); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	before := candidate.Text
	f, err := os.CreateTemp("", "ze-*.conf") // 0600
	if err != nil {
		return fmt.Errorf("make a file to edit: %w", err)
	}
	_, err = f.WriteString(before)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("make a file to edit: %w", err)
	}
	for {
		if err := c.runEditor(ctx, f.Name()); err != nil {
			return errors.Join(err, os.Remove(f.Name()))
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			return fmt.Errorf("read what was edited: %w", err)
		}
		if string(text) == before {
			fmt.Fprintln(c.err, "ze: nothing was changed")
			return os.Remove(f.Name())
		}
		_, err = c.ask(ctx, c.set, fmt.Sprintf("config load %s base %d", quoteWord(string(text)), candidate.Base))
		loaded := err == nil
		if loaded {
			// Accepted as a candidate; a commit may ask for more.
			_, err = c.ask(ctx, c.set, "request config validate")
		}
		var wrong *command.Error
		switch {
		case err == nil:
			fmt.Fprintln(c.err, "ze: this is the candidate now; see: ze config diff; make it run: ze config commit")
			return os.Remove(f.Name())
		case !errors.As(err, &wrong) || wrong.Code != command.Invalid && wrong.Code != command.InvalidConfiguration:
			return fmt.Errorf("%w; what was edited is in %s", err, f.Name())
		}
		fmt.Fprintln(c.err, "ze: "+explainCommand(wrong))
		if again, err := c.editAgain(); err != nil || again {
			if err != nil {
				return err
			}
			continue
		}
		if loaded {
			fmt.Fprintln(c.err, "ze: this is the candidate now, but it cannot be committed yet")
			return os.Remove(f.Name())
		}
		return &exitError{code: exitConfig, err: fmt.Errorf("the candidate is as before; what was edited is in %s", f.Name())}
	}
}

// editAgain asks whether to go on. Where nobody can answer, it does not.
func (c configCLI) editAgain() (bool, error) {
	in, ok := c.in.(*os.File)
	if !ok || !isTerminal(in) {
		return false, nil
	}
	fmt.Fprint(c.err, "ze: edit again? [Y/n] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	return !strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "n"), nil
}

// runEditor runs the user's editor on a file. Its setting may hold arguments, so
// a shell reads it.
func (c configCLI) runEditor(ctx context.Context, file string) error {
	editor := "vi"
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if e := os.Getenv(name); e != "" {
			editor = e
			break
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run the editor %q: %w; choose another with EDITOR", editor, err)
	}
	return nil
}
