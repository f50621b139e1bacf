package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
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
	answer, err := c.ask(ctx, set, line)
	if err != nil {
		return err
	}
	if field := fileOf(set, line); field != "" && c.format == "text" {
		return printFile(c.out, answer, field)
	}
	return render(c.out, c.format, answer)
}

// encoding is the parameter, or the field of an answer, that says how what
// stands for a file is written.
const (
	encoding       = "encoding"
	encodingBase64 = "base64"
)

// fileOf returns the field of a command's answer that a shell prints alone, ""
// if there is none.
func fileOf(set *schema.Set, line string) string {
	decl := declared(set, strings.Fields(line))
	if decl == nil {
		return ""
	}
	return fileParameter(decl.Output)
}

// printFile writes the bytes that a field of an answer stands for.
func printFile(w io.Writer, answer json.RawMessage, field string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(answer, &fields); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var text, code string
	if err := json.Unmarshal(fields[field], &text); err != nil {
		return fmt.Errorf("read the answer: %s: %w", field, err)
	}
	if raw, ok := fields[encoding]; ok {
		if err := json.Unmarshal(raw, &code); err != nil {
			return fmt.Errorf("read the answer: %s: %w", encoding, err)
		}
	}
	data := []byte(text)
	if code == encodingBase64 {
		var err error
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("read the answer: %s: %w", field, err)
		}
	}
	_, err := w.Write(data)
	return err
}

// ask is command for an answer that is not printed as such.
func (c *cli) ask(ctx context.Context, set *schema.Set, line string) (json.RawMessage, error) {
	answer, err := newControlClient(c.controlSocket()).execute(ctx, line)
	if !errors.Is(err, errNoDaemon) {
		return answer, err
	}
	if needsDaemon(set, line) || c.socket != "" {
		return nil, fmt.Errorf("%w; start one with: %s", err, c.hint("start"))
	}
	return c.offline(ctx, line)
}

// needsDaemon reports whether a line is of no command that works on the
// database alone.
func needsDaemon(set *schema.Set, line string) bool {
	words := strings.Fields(line)
	for _, decl := range set.Commands() {
		if n := len(decl.Path); (decl.Offline || decl.Repair) && len(words) >= n && slices.Equal(words[:n], decl.Path) {
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
	log, err := c.offlineLogger()
	if err != nil {
		return nil, err
	}
	dir, _ := c.directory()
	res, err := appliance.Offline(ctx, appliance.Options{DataDir: dir, Version: builtinVersion(), Logger: log}, command.Call{
		Principal: &access.Principal{Name: localUser(), Accessor: fmt.Sprintf("uid:%d", os.Getuid()), Scope: access.Admin}, Surface: "cli", Line: line,
	})
	if err != nil {
		return nil, err
	}
	return res.JSON, nil
}

// commandLine makes one line of words that a shell has split. Where the command
// says so of a parameter, the name of a file is replaced by what is in it, or
// made absolute.
func (c *cli) commandLine(set *schema.Set, words []string) (string, error) {
	decl := declared(set, words)
	if decl == nil {
		return joinWords(words), nil
	}
	rest := words[len(decl.Path):]
	line := slices.Clone(words[:len(decl.Path)])
	bare := slices.DeleteFunc(slices.Clone(decl.Input.Params), func(p *schema.Node) bool { return !p.Positional })
	for i := 0; i < len(rest); i++ {
		param := decl.Input.Param(rest[i])
		if param != nil { // NAME VALUE
			line = append(line, rest[i])
			if !param.File && !param.Path || i+1 == len(rest) {
				continue
			}
			i++
			bare = slices.DeleteFunc(bare, func(p *schema.Node) bool { return p == param })
		} else if len(bare) > 0 && bare[0].Kind == schema.Leaf && !isValue(decl, rest, i) {
			param, bare = bare[0], bare[1:]
		}
		word, err := c.argument(decl, param, rest[i])
		if err != nil {
			return "", err
		}
		line = append(line, word)
	}
	return strings.Join(line, " "), nil
}

// isValue reports whether word i stands after the name of a parameter that takes
// it. For a flag that is true or false, and nothing else.
func isValue(decl *schema.Command, words []string, i int) bool {
	if i == 0 {
		return false
	}
	param := decl.Input.Param(words[i-1])
	return param != nil && (param.Kind != schema.Leaf || param.Type.Base != schema.Bool || words[i] == "true" || words[i] == "false")
}

// argument writes one word for the command line: the value of param, or, if that
// is nil, what stands for itself.
func (c *cli) argument(decl *schema.Command, param *schema.Node, word string) (string, error) {
	switch {
	case param != nil && param.Path:
		path, err := filepath.Abs(word)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", word, err)
		}
		return quoteWord(path), nil
	case param != nil && param.File:
		data, err := c.contents(param, word)
		if err != nil {
			return "", err
		}
		other := decl.Input.Param(encoding) != nil
		switch isText := utf8.Valid(data); {
		case isText && (!other || len(data) < 1<<20): // a large text may get several times as large by quoting
			return quoteWord(string(data)), nil
		case !other:
			return "", usagef("%s: %s must be UTF-8 text", word, param.Name)
		}
		return base64.StdEncoding.EncodeToString(data) + " " + encoding + " " + encodingBase64, nil
	}
	return joinWords([]string{word}), nil
}

// contents reads the file that stands for a parameter's value; "-" is standard
// input. What is too large for any such parameter is not read to its end.
func (c *cli) contents(param *schema.Node, name string) ([]byte, error) {
	var r io.Reader = c.in
	if name != "-" {
		f, err := os.Open(filepath.Clean(name))
		if err != nil {
			return nil, fmt.Errorf("read the %s: %w", param.Name, err)
		}
		defer f.Close()
		r = f
	}
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the %s from %s: %w", param.Name, name, err)
	case len(data) > most:
		return nil, fmt.Errorf("read the %s from %s: it is larger than 16 MiB (%d bytes), the most that is kept", param.Name, name, most)
	}
	return data, nil
}
