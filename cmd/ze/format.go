package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// formats are the values of --format.
var formats = []string{"text", "table", "json", "yaml"}

// render writes a command's JSON answer in one of formats.
func render(w io.Writer, format string, answer json.RawMessage) error {
	switch format {
	case "json":
		var b bytes.Buffer
		if err := json.Indent(&b, bytes.TrimSpace(answer), "", "  "); err != nil {
			return fmt.Errorf("format the answer: %w", err)
		}
		b.WriteByte('\n')
		_, err := w.Write(b.Bytes())
		return err
	case "yaml":
		var doc yaml.Node
		if err := yaml.Unmarshal(answer, &doc); err != nil {
			return fmt.Errorf("format the answer: %w", err)
		}
		blockStyle(&doc)
		enc := yaml.NewEncoder(w)
		enc.SetIndent(2)
		return enc.Encode(&doc)
	}
	v, err := readOrdered(jsontext.NewDecoder(bytes.NewReader(answer)))
	if err != nil {
		return fmt.Errorf("format the answer: %w", err)
	}
	obj, ok := v.(object)
	if !ok {
		return fmt.Errorf("format the answer: it is no object")
	}
	if format == "table" {
		return table(w, obj)
	}
	return text(w, obj, "")
}

// blockStyle turns JSON's flow style into YAML's usual one.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// object is a JSON object with its members in order.
type object []member

type member struct {
	name  string
	value any // object, []any, or text of a scalar
}

func readOrdered(dec *jsontext.Decoder) (any, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '{':
		var o object
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			m := member{name: name.String()}
			if m.value, err = readOrdered(dec); err != nil {
				return nil, err
			}
			o = append(o, m)
		}
		_, err = dec.ReadToken()
		return o, err
	case '[':
		a := []any{}
		for dec.PeekKind() != ']' {
			v, err := readOrdered(dec)
			if err != nil {
				return nil, err
			}
			a = append(a, v)
		}
		_, err = dec.ReadToken()
		return a, err
	}
	return tok.String(), nil
}

// text writes an object for people: values in lines, lists of objects as columns.
func text(w io.Writer, o object, indent string) error {
	width := 0
	for _, m := range o {
		width = max(width, len(m.name))
	}
	for _, m := range o {
		var err error
		switch v := m.value.(type) {
		case object:
			if _, err = fmt.Fprintf(w, "%s%s:\n", indent, m.name); err == nil {
				err = text(w, v, indent+"  ")
			}
		case []any:
			if rows, ok := objects(v); ok {
				if _, err = fmt.Fprintf(w, "%s%s:\n", indent, m.name); err == nil {
					err = columns(w, rows, indent+"  ")
				}
				break
			}
			if lines := cells(v); strings.ContainsAny(strings.Join(lines, ""), " \n") {
				// Values with spaces would run into each other.
				_, err = fmt.Fprintf(w, "%s%s:\n%s  %s\n", indent, m.name, indent, strings.Join(lines, "\n"+indent+"  "))
				break
			}
			_, err = fmt.Fprintf(w, "%s%-*s  %s\n", indent, width+1, m.name+":", cell(v))
		case string:
			if strings.Contains(v, "\n") {
				err = block(w, m.name, v, indent)
				break
			}
			_, err = fmt.Fprintf(w, "%s%-*s  %s\n", indent, width+1, m.name+":", clean(v))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block writes a text of several lines under its name.
func block(w io.Writer, name, text, indent string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s:\n", indent, name)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight(indent+"  "+cleanLine(line), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cleanLine is clean for a line whose tabs are wanted.
func cleanLine(line string) string {
	parts := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
	for i := range parts {
		parts[i] = clean(parts[i])
	}
	return strings.Join(parts, "\t")
}

// table writes the one list of objects in o as columns; without one, o itself
// as a column of names and one of values.
func table(w io.Writer, o object) error {
	var rest []object
	lists := 0
	for _, m := range o {
		a, _ := m.value.([]any)
		rows, ok := objects(a)
		if !ok {
			rest = append(rest, object{{"name", m.name}, {"value", cell(m.value)}})
			continue
		}
		if lists++; lists > 1 {
			if _, err := fmt.Fprintf(w, "\n%s\n", m.name); err != nil {
				return err
			}
		}
		if err := columns(w, rows, ""); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	if lists > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return columns(w, rest, "")
}

// objects returns a's elements if every one is an object.
func objects(a []any) ([]object, bool) {
	var rows []object
	for _, v := range a {
		o, ok := v.(object)
		if !ok {
			return nil, false
		}
		rows = append(rows, o)
	}
	return rows, len(rows) > 0
}

// columns aligns objects under the names of their members.
func columns(w io.Writer, rows []object, indent string) error {
	var names []string
	for _, r := range rows {
		for _, m := range r {
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		fmt.Fprintf(tw, "%s%s\n", indent, strings.TrimRight(strings.Join(cells, "\t"), "\t")) // errors come out of Flush
	}
	line(names)
	for _, r := range rows {
		cells := make([]string, len(names))
		for _, m := range r {
			cells[slices.Index(names, m.name)] = cell(m.value)
		}
		line(cells)
	}
	return tw.Flush()
}

func cells(values []any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = cell(v)
	}
	return out
}

// cell writes a value in one line.
func cell(v any) string {
	switch v := v.(type) {
	case []any:
		return strings.Join(cells(v), " ")
	case object:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = m.name + "=" + cell(m.value)
		}
		return strings.Join(parts, ",")
	}
	return clean(fmt.Sprint(v))
}

// clean keeps control characters that an answer may carry (a peer's message,
// say) from driving the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
