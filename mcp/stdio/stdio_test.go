package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serverFunc stands for a server over HTTP.
type serverFunc func(ctx context.Context, request object, each func(string) error) error

func (f serverFunc) Exchange(ctx context.Context, request []byte, each func(json.RawMessage) error) error {
	return f(ctx, parseObject(request), func(m string) error { return each(json.RawMessage(m)) })
}

// played is what a host was sent for its lines, in a bubble of synctest: the
// lines are sent one after the other, each when nothing moves any more.
func played(t *testing.T, up Upstream, lines ...string) (answers []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, to := io.Pipe()
		var out syncBuffer
		done := make(chan error)
		go func() {
			done <- Serve(t.Context(), Options{In: in, Out: &out, Upstream: up, Name: "bridge", Version: "1", Logger: zerolog.Nop()})
		}()
		for _, l := range lines {
			if _, err := io.WriteString(to, l+"\n"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(comeBack) // in the bubble: until nothing moves for that long
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		answers = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	})
	return answers
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func holds(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	modernCall = `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"x",` + modernMeta + `}}`
	shake      = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":%s}}`
)

// TestFraming: whatever the server sends, the host gets one message a line, of
// the kinds a server may send.
func TestFraming(t *testing.T) {
	up := serverFunc(func(_ context.Context, _ object, each func(string) error) error {
		for _, m := range []string{
			"{\"jsonrpc\":\"2.0\",\n \"method\":\"notifications/progress\",\r\n\"params\":{ \"progress\" : 1 }}",
			`{"jsonrpc":"2.0","id":"ze-1","method":"sampling/createMessage","params":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{}`,
			`{"jsonrpc":"2.0","method":"exit"}`,
			`{"jsonrpc":"2.0","id":1,"method":"notifications/progress"}`,
			`null`,
			"{\"jsonrpc\":\"2.0\",\"id\":7,\n\"result\":{\"text\":\"a\\nb\",\n\"n\":1e2}}",
		} {
			if err := each(m); err != nil {
				return err
			}
		}
		return nil
	})
	holds(t, played(t, up, modernCall),
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`,
		`{"jsonrpc":"2.0","id":41,"result":{"text":"a\nb","n":1e2}}`)
}

// TestSubscription: a subscription ends with a notification and a result, also
// when the server is lost; one that the host cancels ends with neither.
func TestSubscription(t *testing.T) {
	listen := `{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{},` + modernMeta + `}}`
	ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`
	ends := func(err error, response string) Upstream {
		return serverFunc(func(_ context.Context, _ object, each func(string) error) error {
			return errors.Join(each(ack), each(response), err)
		})
	}
	holds(t, played(t, ends(nil, `{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete"}}`), listen), ack,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`,
		`{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete"}}`)
	holds(t, played(t, ends(errors.New("lost it"), `{}`), listen), ack,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s","reason":"lost it"}}`,
		`{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"s","io.modelcontextprotocol/serverInfo":{"name":"bridge","version":"1"}}}}`)
	lasting := serverFunc(func(ctx context.Context, _ object, each func(string) error) error {
		if err := each(ack); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	holds(t, played(t, lasting, listen, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`), ack)
	holds(t, played(t, lasting, listen), ack) // the end of input ends it, too
}

// TestDrain: what is being answered when the input ends is answered if that
// takes no longer than a moment.
func TestDrain(t *testing.T) {
	after := func(d time.Duration) Upstream {
		return serverFunc(func(ctx context.Context, _ object, each func(string) error) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return each(`{"jsonrpc":"2.0","id":41,"result":{}}`)
			}
		})
	}
	holds(t, played(t, after(drainTime/2), modernCall), `{"jsonrpc":"2.0","id":41,"result":{}}`)
	holds(t, played(t, after(time.Hour), modernCall), "")
}

// conversation is a server that asks before it answers a call.
func conversation(t *testing.T, rounds ...string) Upstream {
	round := 0
	return serverFunc(func(_ context.Context, request object, each func(string) error) error {
		if request.text("method") != "tools/call" {
			return errors.New("not there")
		}
		params := parseObject(request.get("params"))
		params.drop("_meta")
		want, result, _ := strings.Cut(rounds[round], " => ")
		if got := string(params.encode()); got != want {
			t.Errorf("round %d: got %s, want %s", round, got, want)
		}
		round = min(round+1, len(rounds)-1)
		return each(`{"jsonrpc":"2.0","id":0,"result":` + result + `}`)
	})
}

// TestRounds: state is carried from round to round and no further, questions are
// asked in their order, and nobody is asked for ever.
func TestRounds(t *testing.T) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","requestState":"old"}}`
	answers := played(t, conversation(t,
		`{"name":"x"} => {"resultType":"input_required","requestState":"s1"}`,
		`{"name":"x","requestState":"s1"} => {"resultType":"input_required","requestState":"s2","inputRequests":{"b":{"method":"roots/list"},"a":{"method":"elicitation/create","params":{"message":"?"}}}}`,
		`{"name":"x","requestState":"s2","inputResponses":{"b":{"roots":[]},"a":{"action":"decline"}}} => {"resultType":"complete","content":[]}`,
	), fmt.Sprintf(shake, "2025-11-25", `{"roots":{},"elicitation":{}}`), call,
		`{"jsonrpc":"2.0","id":"nobody's","result":{"roots":[7]}}`,
		`{"jsonrpc":"2.0","id":"ze-4","result":{"roots":[]}}`,
		`{"jsonrpc":"2.0","id":"ze-5","result":{"action":"decline"}}`)
	holds(t, answers[1:],
		`{"jsonrpc":"2.0","id":"ze-4","method":"roots/list"}`,
		`{"jsonrpc":"2.0","id":"ze-5","method":"elicitation/create","params":{"message":"?"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)

	call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	for _, c := range []struct{ capabilities, asks, want string }{
		{`{}`, `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage"}}}`, `asks for \"sampling/createMessage\", which this host did not offer`},
		{`{"elicitation":{}}`, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url"}}}}`, `mode \"url\", which this host did not offer`},
		{`{}`, `{"resultType":"input_required","inputRequests":{"a":{"method":"tools/list"}}}`, `asks for \"tools/list\"`},
		{`{}`, `{"resultType":"task"}`, `a result of type task`},
	} {
		got := played(t, conversation(t, `{"name":"x"} => `+c.asks), fmt.Sprintf(shake, "2025-11-25", c.capabilities), call)
		if len(got) != 2 || !strings.Contains(got[1], c.want) {
			t.Errorf("%s: %s", c.asks, got)
		}
	}
}

// TestEndless: a server that never has enough does not hold a call for ever.
func TestEndless(t *testing.T) {
	up := serverFunc(func(_ context.Context, _ object, each func(string) error) error {
		return each(`{"jsonrpc":"2.0","id":0,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}`)
	})
	lines := []string{fmt.Sprintf(shake, "2025-11-25", `{"roots":{}}`), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`}
	for i := range maxRounds {
		lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":"ze-%d","result":{"roots":[]}}`, 3+2*i))
	}
	got := played(t, up, lines...)
	if last := got[len(got)-1]; len(got) != 2+maxRounds || !strings.Contains(last, "asked too often") {
		t.Errorf("%d messages, the last is %s", len(got), last)
	}
}

// TestDown: each revision is answered with what it has.
func TestDown(t *testing.T) {
	for _, c := range []struct {
		method, result string
		want           map[string]string
	}{
		{"tools/list", `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"x","title":"X","icons":[],"inputSchema":{},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"ui":1}},{"name":"y","outputSchema":{"type":"array"}}],"_meta":{"io.modelcontextprotocol/serverInfo":{},"k":1}}`, map[string]string{
			"2025-11-25": `{"tools":[{"name":"x","title":"X","icons":[],"inputSchema":{},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"ui":1}},{"name":"y"}],"_meta":{"k":1}}`,
			"2025-06-18": `{"tools":[{"name":"x","title":"X","inputSchema":{},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"ui":1}},{"name":"y"}],"_meta":{"k":1}}`,
			"2025-03-26": `{"tools":[{"name":"x","inputSchema":{},"annotations":{"readOnlyHint":true}},{"name":"y"}],"_meta":{"k":1}}`,
		}},
		{"tools/call", `{"resultType":"complete","content":[{"type":"resource_link","uri":"ze://a","name":"n","title":"t","icons":[]},{"type":"text","text":"x"}],"structuredContent":[1],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, map[string]string{
			"2025-11-25": `{"content":[{"type":"resource_link","uri":"ze://a","name":"n","title":"t","icons":[]},{"type":"text","text":"x"}],"structuredContent":{"value":[1]}}`,
			"2025-06-18": `{"content":[{"type":"resource_link","uri":"ze://a","name":"n","title":"t"},{"type":"text","text":"x"}],"structuredContent":{"value":[1]}}`,
			"2025-03-26": `{"content":[{"type":"text","text":"ze://a t"},{"type":"text","text":"x"}]}`,
		}},
		{"prompts/list", `{"prompts":[{"name":"p","title":"P","arguments":[{"name":"a","title":"A"}]}]}`, map[string]string{
			"2025-11-25": `{"prompts":[{"name":"p","title":"P","arguments":[{"name":"a","title":"A"}]}]}`,
			"2025-03-26": `{"prompts":[{"name":"p","arguments":[{"name":"a"}]}]}`,
		}},
		{"prompts/get", `{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ze://a","name":"n"}}]}`, map[string]string{
			"2025-06-18": `{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ze://a","name":"n"}}]}`,
			"2025-03-26": `{"messages":[{"role":"user","content":{"type":"text","text":"ze://a n"}}]}`,
		}},
	} {
		for version, want := range c.want {
			h := &host{version: version}
			if got := string(h.down(c.method, parseObject(jsontext.Value(c.result)))); got != want {
				t.Errorf("%s for %s: got\n%s\nwant\n%s", c.method, version, got, want)
			}
		}
	}
}

// TestForm: the first revision with forms has titled choices of another form,
// and no choice of several.
func TestForm(t *testing.T) {
	params := `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{` +
		`"one":{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b"}]},` +
		`"some":{"type":"array","title":"S","items":{"type":"string","enum":["x","y"]}},` +
		`"titled":{"type":"array","description":"Which?","items":{"anyOf":[{"const":"p","title":"P"}]}}},"required":["some"]}}`
	got, lists := (&host{version: "2025-06-18"}).form(parseObject(jsontext.Value(params)))
	holds(t, []string{string(got.encode()), strings.Join(lists, " ")},
		`{"message":"?","requestedSchema":{"type":"object","properties":{`+
			`"one":{"type":"string","enum":["a","b"],"enumNames":["A","b"]},`+
			`"some":{"type":"string","title":"S","description":"Several with commas, of: x, y"},`+
			`"titled":{"type":"string","description":"Which? Several with commas, of: p"}},"required":["some"]}}`,
		"some titled")
	holds(t, []string{string(splitLists(jsontext.Value(`{"action":"accept","content":{"one":"a, b","some":"x, y,","titled":""}}`), lists))},
		`{"action":"accept","content":{"one":"a, b","some":["x","y"],"titled":[]}}`)
	same, lists := (&host{version: "2025-11-25"}).form(parseObject(jsontext.Value(params)))
	if string(same.encode()) != params || lists != nil {
		t.Errorf("changed for a revision that has it all: %s", same.encode())
	}
}

// TestCapabilities: a host's capabilities reach the server in its words.
func TestCapabilities(t *testing.T) {
	for _, c := range []struct{ version, host, want string }{
		{"2025-03-26", `{"elicitation":{},"roots":{"listChanged":true}}`, `{"roots":{}}`},
		{"2025-06-18", `{"elicitation":{},"sampling":{"x":1}}`, `{"elicitation":{"form":{}},"sampling":{}}`},
		{"2025-11-25", `{"elicitation":{"url":{}},"sampling":{"tools":{}}}`, `{"sampling":{"tools":{}}}`},
		{"2025-11-25", `{"elicitation":{"form":{},"url":{}},"tasks":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":[]},"io.modelcontextprotocol/tasks":{}}}`,
			`{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":[]}}}`},
	} {
		h := &host{version: c.version, capabilities: parseObject(jsontext.Value(c.host))}
		if got := string(h.clientCapabilities()); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.version, c.host, got, c.want)
		}
	}
	server := `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}}`
	h := &host{version: "2025-11-25", capabilities: parseObject(jsontext.Value(`{"extensions":{"io.modelcontextprotocol/ui":{}}}`))}
	holds(t, []string{string(h.serverCapabilities(jsontext.Value(server)))},
		`{"tools":{"listChanged":true},"resources":{"listChanged":true},"extensions":{"io.modelcontextprotocol/ui":{}}}`)
}

// TestTooMany: a host cannot have everything at once, and its answers and
// cancellations still get through.
func TestTooMany(t *testing.T) {
	up := serverFunc(func(ctx context.Context, _ object, _ func(string) error) error { <-ctx.Done(); return ctx.Err() })
	var lines []string
	for i := range maxRunning + 1 {
		lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}`, i, modernMeta))
	}
	lines = append(lines, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{`+modernMeta+`}}`)
	got := played(t, up, lines...)
	if len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,`, maxRunning)) {
		t.Errorf("got %s", got)
	}
}

// TestReusedID: a host that cancels a request and uses its id again gets the
// answer to the second, also when the first takes its time to end.
func TestReusedID(t *testing.T) {
	var calls atomic.Int64
	up := serverFunc(func(_ context.Context, _ object, each func(string) error) error {
		n := calls.Add(1)
		time.Sleep(time.Duration(3+n) * comeBack) // in the bubble; deaf to ctx
		return each(fmt.Sprintf(`{"jsonrpc":"2.0","id":41,"result":{"call":%d}}`, n))
	})
	got := played(t, up, modernCall, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41}}`, modernCall)
	holds(t, got, `{"jsonrpc":"2.0","id":41,"result":{"call":2}}`)
}

// TestReadLine: lines of any length are taken apart at their breaks, and nowhere
// else.
func TestReadLine(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader("one\r\n  \n"+strings.Repeat("x", 40)+"\n"+strings.Repeat("y", 41)+"\nlast"), 16)
	const most = 39 // and the two octets of a line break
	for _, want := range []string{"one", "", strings.Repeat("x", 40), "too long", "last"} {
		l := readLine(in, most)
		got := string(l.text)
		if l.tooLong {
			got = "too long"
		}
		if got != want || l.err != nil {
			t.Errorf("got %q %v, want %q", got, l.err, want)
		}
	}
	if l := readLine(in, 10); l.err != io.EOF {
		t.Errorf("at the end: %v", l.err)
	}
}

// FuzzLines: whatever a host and a server send, each line to the host is one
// JSON object, or an array of them.
func FuzzLines(f *testing.F) {
	f.Add([]byte(modernCall+"\n"), []byte(`{"jsonrpc":"2.0","id":1,"result":{"a":"b"}}`))
	f.Add([]byte(fmt.Sprintf(shake, "2025-03-26", `{}`)+"\n[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}]\n"), []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}]}}`))
	f.Add([]byte(fmt.Sprintf(shake, "2025-06-18", `{"elicitation":{}}`)+"\n"+`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`+"\n"),
		[]byte(`{"id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"requestedSchema":{"properties":{"x":{"type":"array"}}}}}}}}`))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"method\":\n\r\n\xff\n"), []byte("\n\n{"))
	f.Fuzz(func(t *testing.T, lines, answer []byte) {
		up := serverFunc(func(_ context.Context, _ object, each func(string) error) error { return each(string(answer)) })
		var out syncBuffer
		synctest.Test(t, func(t *testing.T) {
			if err := Serve(t.Context(), Options{In: bytes.NewReader(lines), Out: &out, Upstream: up, Name: "bridge", Version: "1", Logger: zerolog.Nop()}); err != nil {
				t.Fatal(err)
			}
		})
		for line := range strings.Lines(out.String()) {
			v := jsontext.Value(line)
			if !strings.HasSuffix(line, "\n") || !v.IsValid() || v.Kind() != '{' && v.Kind() != '[' {
				t.Fatalf("%q", line)
			}
		}
	})
}
