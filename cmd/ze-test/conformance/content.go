package conformance

import (
	"context"
	"encoding/json"
	"time"

	"ze.internal/ze/appliance/command"
)

// The smallest files of their kinds: an image of one pixel, a sound of none.
const (
	onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	noSound  = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
)

var (
	image    = block{Type: "image", Data: onePixel, MIMEType: "image/png"}
	sound    = block{Type: "audio", Data: noSound, MIMEType: "audio/wav"}
	embedded = block{Type: "resource", Resource: &resourceBlock{URI: "test://embedded-resource", MIMEType: "text/plain", Text: "What is embedded."}}
)

// keywords is the schema whose keywords the suite wants to see unchanged in the
// list of tools (scenario json-schema-2020-12).
const keywords = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},
"phone":{"type":"string"},"email":{"type":"string"}},
"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`

// contents are tools that show what an answer can hold.
func contents() []fixture {
	return []fixture{
		{tool: "test_simple_text", about: "Answers a text.", run: always(block{Type: "text", Text: "This is a simple text response for testing."})},
		{tool: "test_image_content", about: "Answers an image.", run: always(image)},
		{tool: "test_audio_content", about: "Answers a sound.", run: always(sound)},
		{tool: "test_embedded_resource", about: "Answers an embedded resource.", run: always(embedded)},
		{tool: "test_multiple_content_types", about: "Answers a text, an image and a resource.",
			run: always(block{Type: "text", Text: "Several kinds of content:"}, image, embedded)},
		{tool: "test_error_handling", about: "Fails.", run: func(context.Context, *command.Request) (any, error) {
			return nil, &command.Error{Code: command.Conflict, Message: "this tool intentionally fails"}
		}},
		{tool: "test_tool_with_progress", about: "Tells how far it is while it works.", run: progress},
		{tool: "test_logging_tool", about: "Works without a word.", run: always(block{Type: "text", Text: "Done."})},
		{tool: "json_schema_2020_12_tool", about: "Takes arguments that a schema with many keywords describes.", input: keywords,
			run: always(block{Type: "text", Text: "The arguments fit."})},
		{tool: "test_custom_header", about: "Takes an argument that is mirrored into a header.",
			input: `{"type":"object","properties":{"region":{"type":"string","description":"Where to look.","x-mcp-header":"Region"}},"additionalProperties":false}`,
			run: func(_ context.Context, r *command.Request) (any, error) {
				var in struct {
					Region string `json:"region"`
				}
				if err := r.Bind(&in); err != nil {
					return nil, err
				}
				return texts("region: " + in.Region)
			}},
	}
}

// progress takes long enough between its reports that none is left out.
func progress(ctx context.Context, _ *command.Request) (any, error) {
	for _, done := range []float64{0, 50, 100} {
		command.Report(ctx, command.Progress{Done: done, Total: 100})
		if err := pause(ctx, 150*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return texts("Done.")
}

// pause waits, unless the caller goes away.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// changes are tools that change which tools and prompts there are: each call
// adds one, or takes it away again.
func (f *fixtures) changes() []fixture {
	toggle := func(d fixture) command.Run {
		return func(context.Context, *command.Request) (any, error) {
			c, err := d.command()
			if err != nil {
				return nil, err
			}
			if err := f.registry.Register(c); err == nil {
				return texts("Added " + c.Name() + ".")
			}
			if err := f.registry.Unregister(c.Name()); err != nil {
				return nil, err
			}
			return texts("Removed " + c.Name() + ".")
		}
	}
	return []fixture{
		{tool: "test_trigger_tool_change", about: "Changes which tools there are.", effect: command.EffectChange,
			run: toggle(fixture{tool: "test_tool_that_comes_and_goes", about: "Comes and goes.", run: always(block{Type: "text", Text: "Here."})})},
		{tool: "test_trigger_prompt_change", about: "Changes which prompts there are.", effect: command.EffectChange,
			run: toggle(fixture{prompt: "test_prompt_that_comes_and_goes", about: "Comes and goes.", run: saying(say("Here."))})},
	}
}

// say is a message of a prompt.
func say(text string) message { return message{"user", block{Type: "text", Text: text}} }

type message struct {
	Role    string `json:"role"`
	Content block  `json:"content"`
}

// saying is the Run of a prompt that always has the same messages.
func saying(messages ...message) command.Run {
	return func(context.Context, *command.Request) (any, error) { return prompt(messages...), nil }
}

func prompt(messages ...message) any {
	return struct {
		Messages []message `json:"messages"`
	}{messages}
}

// prompts are the prompts, whose names the suite fixes.
func prompts() []fixture {
	const (
		two = `{"type":"object","properties":{"arg1":{"type":"string","description":"One."},"arg2":{"type":"string","description":"The other."}},"required":["arg1","arg2"],"additionalProperties":false}`
		uri = `{"type":"object","properties":{"resourceUri":{"type":"string","description":"What to embed."}},"required":["resourceUri"],"additionalProperties":false}`
	)
	return []fixture{
		{prompt: "test_simple_prompt", about: "One message.", run: saying(say("This is a simple prompt for testing."))},
		{prompt: "test_prompt_with_arguments", about: "A message made of two arguments.", input: two,
			run: func(_ context.Context, r *command.Request) (any, error) {
				var in struct{ Arg1, Arg2 string }
				if err := r.Bind(&in); err != nil {
					return nil, err
				}
				return prompt(say("Prompt with arguments: arg1='" + in.Arg1 + "', arg2='" + in.Arg2 + "'")), nil
			}},
		{prompt: "test_prompt_with_embedded_resource", about: "A resource and a message.", input: uri,
			run: func(_ context.Context, r *command.Request) (any, error) {
				var in struct {
					URI string `json:"resourceUri"`
				}
				if err := r.Bind(&in); err != nil {
					return nil, err
				}
				held := block{Type: "resource", Resource: &resourceBlock{URI: in.URI, MIMEType: "text/plain", Text: "What stands at the address."}}
				return prompt(message{"user", held}, say("Please look at the resource above.")), nil
			}},
		{prompt: "test_prompt_with_image", about: "An image and a message.", run: saying(message{"user", image}, say("Please describe the image above."))},
		{prompt: "test_input_required_result_prompt", about: "Asks what its message should say.",
			run: func(ctx context.Context, _ *command.Request) (any, error) {
				got, err := ask(ctx, form("user_context", "What context should the prompt use?", "context"))
				if err != nil {
					return nil, err
				}
				return prompt(say("The context is: " + got["user_context"]["context"])), nil
			}},
	}
}

// resources are the resources, whose addresses the suite fixes.
func resources() []fixture {
	held := func(r resourceBlock) command.Run { return always(block{Type: "resource", Resource: &r}) }
	return []fixture{
		{resource: "test://static-text", about: "A text.",
			run: held(resourceBlock{URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource."})},
		{resource: "test://static-binary", about: "An image.",
			run: held(resourceBlock{URI: "test://static-binary", MIMEType: "image/png", Blob: onePixel})},
		{resource: "test://template/{id}/data", about: "A text about an id.",
			input: `{"type":"object","properties":{"id":{"type":"string","description":"Which one."}},"required":["id"],"additionalProperties":false}`,
			run: func(_ context.Context, r *command.Request) (any, error) {
				var in struct {
					ID string `json:"id"`
				}
				if err := r.Bind(&in); err != nil {
					return nil, err
				}
				data, err := json.Marshal(map[string]any{"id": in.ID, "templateTest": true, "data": "Data for ID: " + in.ID})
				if err != nil {
					return nil, err
				}
				return answer(block{Type: "resource", Resource: &resourceBlock{
					URI: "test://template/" + in.ID + "/data", MIMEType: "application/json", Text: string(data)}})
			}},
	}
}
