package builtin

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"text/template"

	"ze.internal/ze/appliance/command"
)

//go:embed prompt/*.md
var promptTexts embed.FS

type promptAnswer struct {
	Description string          `json:"description"`
	Messages    []promptMessage `json:"messages"`
}

type promptMessage struct {
	Role    string        `json:"role"`
	Content promptContent `json:"content"`
}

type promptContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// prompt implements one command for each text: the file is called as the rpc.
func (d Deps) prompt(r runs) {
	texts := template.Must(template.ParseFS(promptTexts, "prompt/*.md")) // which the binary holds
	for _, t := range texts.Templates() {
		r[strings.TrimSuffix(t.Name(), ".md")] = func(_ context.Context, r *command.Request) (any, error) {
			args := map[string]any{}
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			var b strings.Builder
			if err := t.Execute(&b, args); err != nil {
				return nil, fmt.Errorf("write the prompt %s: %w", r.Command.Prompt, err)
			}
			return promptAnswer{r.Command.Description, []promptMessage{{"user", promptContent{"text", b.String()}}}}, nil
		}
	}
}
