package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txtar")

// TestTranscripts sends the requests of testdata/*.txtar over TCP and compares
// the answers. A file "name => status code" holds a request; the status and
// the JSON-RPC code (ok for a result, tool-error for one with isError, asks for one that asks, - for no body, text for what
// is no JSON; with "stream" before it for the last of a stream of events) are written by hand and
// checked even by -update. The file "answer" after it is what came back: the
// status, the headers but Date and Connection, the body. In a request
//
//   - the header "MCP: method name" stands for the headers that a client of the
//     revision sends, Authorization apart; name may be left out;
//   - $META stands for the _meta member, $CAN({…}) for one with these client
//     capabilities, $STATE for the requestState of the last answer that had one,
//     $PAD for more spaces than a body may
//     have bytes, $ADMIN, $READ, $NARROW, $EXPIRED and $LOST for tokens, $HOST for the listener;
//   - Content-Length is added.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runTranscript(t, file)
		})
	}
}

const transcriptMaxBody = 4096

func runTranscript(t *testing.T, file string) {
	f := newFixture(t, func(o *Options) { o.MaxBody = transcriptMaxBody })
	server := httptest.NewServer(f.guarded())
	defer server.Close()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []txtar.File
	var state string
	for i, request := range archive.Files {
		if request.Name == "answer" {
			continue
		}
		_, want, ok := strings.Cut(request.Name, " => ")
		if !ok {
			t.Fatalf("%s: file %q does not say what to expect", file, request.Name)
		}
		answer, summary := exchange(t, server.Listener.Addr().String(), request, &state)
		if summary != want {
			t.Errorf("%s: %s: got %s\n%s", file, request.Name, summary, answer)
		}
		out = append(out, request, txtar.File{Name: "answer", Data: answer})
		if *update {
			continue
		}
		if i+1 == len(archive.Files) || archive.Files[i+1].Name != "answer" {
			t.Errorf("%s: %s: no answer is recorded; run go test -update and review it", file, request.Name)
			continue
		}
		if diff := cmp.Diff(string(archive.Files[i+1].Data), string(answer)); diff != "" {
			t.Errorf("%s: %s: (-recorded +got)\n%s", file, request.Name, diff)
		}
	}
	if *update && !t.Failed() {
		archive.Files = out
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// exchange sends a request on a connection of its own and returns the answer
// and its summary. state is the last requestState.
func exchange(t *testing.T, addr string, request txtar.File, state *string) (answer []byte, summary string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	method, raw := expand(strings.ReplaceAll(string(request.Data), "$STATE", *state), addr)
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s: %v", request.Name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", request.Name, err)
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, res.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		switch name {
		case "Date", "Connection", "Content-Length": // the last is in the body
		default:
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(res.Header[name], " | "))
		}
	}
	stream := res.Header.Get("Content-Type") == "text/event-stream"
	if method != http.MethodHead && !stream && res.ContentLength != int64(len(body)) {
		t.Errorf("%s: Content-Length is %d, the body has %d bytes", request.Name, res.ContentLength, len(body))
	}
	if m := requestState.FindSubmatch(body); m != nil {
		*state = string(m[1])
		body = bytes.ReplaceAll(body, m[1], []byte("$STATE"))
	}
	if len(body) > 0 {
		fmt.Fprintf(&b, "\n%s\n", body)
	}
	summary = strconv.Itoa(res.StatusCode) + " "
	if stream {
		events := bytes.Split(bytes.TrimSuffix(body, []byte("\n\n")), []byte("\n\n"))
		_, data, _ := bytes.Cut(events[len(events)-1], []byte("\ndata: "))
		return b.Bytes(), summary + "stream " + codeOf(t, request.Name, "application/json", data)
	}
	return b.Bytes(), summary + codeOf(t, request.Name, res.Header.Get("Content-Type"), body)
}

var (
	requestState   = regexp.MustCompile(`"requestState":"(v1\.[^"]*)"`)
	capabilitiesOf = regexp.MustCompile(`\$CAN\((\{.*?\})\)`)
)

// codeOf says what a body is, in the words of TestTranscripts.
func codeOf(t *testing.T, name, contentType string, body []byte) string {
	if len(body) == 0 {
		return "-"
	}
	if contentType != "application/json" {
		return "text"
	}
	var message struct {
		JSONRPC string
		Result  *struct {
			IsError    bool
			ResultType string
		}
		Error *struct{ Code int }
	}
	if err := json.Unmarshal(body, &message); err != nil || message.JSONRPC != "2.0" || (message.Result == nil) == (message.Error == nil) {
		t.Errorf("%s: the body is no JSON-RPC response: %s", name, body)
		return "?"
	}
	switch {
	case message.Error != nil:
		return strconv.Itoa(message.Error.Code)
	case message.Result.IsError:
		return "tool-error"
	case message.Result.ResultType == "input_required":
		return "asks"
	}
	return "ok"
}

const metaMember = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// expand turns a request of a transcript into bytes for the wire.
func expand(text, addr string) (method, raw string) {
	text = capabilitiesOf.ReplaceAllString(text, strings.Replace(metaMember, `Capabilities":{}`, `Capabilities":${1}`, 1))
	text = strings.NewReplacer("$META", metaMember, "$PAD", strings.Repeat(" ", transcriptMaxBody), "$ADMIN", adminToken,
		"$READ", readToken, "$NARROW", narrowToken, "$EXPIRED", expiredToken, "$LOST", lostToken, "$HOST", addr).Replace(text)
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(head, "\n"), "\n") {
		if short, ok := strings.CutPrefix(line, "MCP: "); ok {
			method, name, hasName := strings.Cut(short, " ")
			b.WriteString("Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
				"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " + method + "\r\n")
			if hasName {
				b.WriteString("Mcp-Name: " + name + "\r\n")
			}
			continue
		}
		b.WriteString(line + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	method, _, _ = strings.Cut(text, " ")
	return method, b.String()
}
