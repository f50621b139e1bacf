package manual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// tree is a program with all that a page can have.
func tree() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things.", Run: run}
	root.PersistentFlags().String("dir", "here", "a `directory`")
	work := &cobra.Command{
		Use: "work FILE", Short: "Work on a file", Run: run,
		Long:    "Work on a\nfile.\n\n  tool work -x a.txt   'quoted' \\n\n\n  .hidden\n\nIt's done…",
		Example: "  tool work b~c",
	}
	work.Flags().BoolP("extra", "x", false, "more of it")
	work.Flags().String("old", "", "")
	if err := work.Flags().MarkHidden("old"); err != nil {
		panic(err)
	}
	work.AddCommand(&cobra.Command{Use: "hard", Short: "Work hard", Run: run}, &cobra.Command{Use: "secret", Hidden: true, Run: run})
	root.AddCommand(work, &cobra.Command{Use: "shadow", Hidden: true, Run: run})
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(Command(root, "1.2", func(cmd *cobra.Command) ([]Section, error) {
		if cmd != root {
			return nil, nil
		}
		return []Section{
			{Title: "DESCRIPTION", Text: "Its own."},
			{Title: "FILES", Items: []Item{{Term: "a-file", Text: "one", Items: []Item{{Term: "part", Text: "of it"}}}}},
		}, nil
	}))
	return root
}

func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	root := tree()
	root.SetArgs([]string{"manual", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name()] = string(text)
	}
	want := map[string]string{
		"tool.1": `.TH "TOOL" "1" "" "tool 1.2" "tool"
.SH "NAME"
tool \- Do things
.SH "SYNOPSIS"
.B "tool [flags]"
.SH "DESCRIPTION"
Its own.
.SH "COMMANDS"
.TP
.B "work"
Work on a file.
.SH "FILES"
.TP
.B "a\-file"
one
.RS
.TP
.B "part"
of it
.RE
.SH "OPTIONS"
.TP
.B "\-\-dir directory"
a directory (default here)
.SH "SEE ALSO"
tool\-work(1)
`,
		"tool-work.1": `.TH "TOOL\-WORK" "1" "" "tool 1.2" "tool"
.SH "NAME"
tool\-work \- Work on a file
.SH "SYNOPSIS"
.B "tool work FILE [flags]"
.SH "DESCRIPTION"
Work on a
file.
.PP
.RS 2
.EX
tool work \-x a.txt   \(aqquoted\(aq \(rsn

\&.hidden
.EE
.RE
.PP
It\(aqs done\[u2026]
.PP
.RS 2
.EX
tool work b\(tic
.EE
.RE
.SH "COMMANDS"
.SS "tool work hard"
Work hard.
.SH "OPTIONS"
.TP
.B "\-x, \-\-extra"
more of it
.SH "OPTIONS OF EVERY COMMAND"
.TP
.B "\-\-dir directory"
a directory (default here)
.SH "SEE ALSO"
tool(1)
`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
