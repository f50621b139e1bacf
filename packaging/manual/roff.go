package manual

import (
	"fmt"
	"strings"
)

// writer writes a page in the macros of man(7).
type writer struct{ strings.Builder }

func (w *writer) line(text string) { w.WriteString(text + "\n") }

func (w *writer) macro(name string, args ...string) {
	w.WriteString("." + name)
	for _, a := range args {
		w.WriteString(` "` + escape(a) + `"`)
	}
	w.line("")
}

// section writes s under a heading of macro, and its parts one level below.
func (w *writer) section(s Section, macro string) {
	w.macro(macro, s.Title)
	w.text(s.Text)
	w.items(s.Items)
	for _, p := range s.Parts {
		w.section(p, "SS")
	}
}

func (w *writer) items(items []Item) {
	for _, i := range items {
		w.line(".TP")
		w.macro("B", i.Term)
		w.text(i.Text)
		if len(i.Items) > 0 {
			w.line(".RS")
			w.items(i.Items)
			w.line(".RE")
		}
	}
}

// text writes paragraphs, and examples as they are.
func (w *writer) text(text string) {
	const asIs = "  "
	written, gap, example := false, false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if line == "" {
			gap = written
			continue
		}
		switch indented := strings.HasPrefix(line, asIs); {
		case indented != example:
			if example {
				w.line(".EE")
				w.line(".RE")
			}
			if gap || example {
				w.line(".PP")
			}
			if indented {
				w.line(".RS 2")
				w.line(".EX")
			}
			example = indented
		case gap && example:
			w.line("")
		case gap:
			w.line(".PP")
		}
		gap, written = false, true
		if example {
			line = line[len(asIs):]
		}
		w.line(guard(escape(line)))
	}
	if example {
		w.line(".EE")
		w.line(".RE")
	}
}

// guard keeps a line that begins like a macro from being one.
func guard(line string) string {
	if strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}

var special = strings.NewReplacer(`\`, `\(rs`, `-`, `\-`, `"`, `\(dq`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`)

// escape writes text so that it is printed as it is.
func escape(text string) string {
	var b strings.Builder
	for _, r := range special.Replace(text) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
