package builtin

import (
	"bytes"
	"embed"
	"io/fs"
	"strings"
)

//go:embed ui
var panels embed.FS

// Assets returns the documents that present what commands answer, by the ui://
// address that ze:ui-resource names them by. Each is whole: it loads nothing.
func Assets() map[string][]byte {
	read := func(name string) []byte {
		b, err := panels.ReadFile(name)
		if err != nil {
			panic("builtin: " + err.Error()) // the file is in the binary
		}
		return b
	}
	style, script := read("ui/panel.css"), read("ui/panel.js")
	out := map[string][]byte{}
	files, err := fs.Glob(panels, "ui/*/*.html")
	if err != nil {
		panic("builtin: " + err.Error()) // the pattern is constant
	}
	for _, name := range files {
		page := bytes.Replace(read(name), []byte("/*panel.css*/"), style, 1)
		out["ui://"+strings.TrimPrefix(name, "ui/")] = bytes.Replace(page, []byte("/*panel.js*/"), script, 1)
	}
	return out
}
