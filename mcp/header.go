package mcp

import (
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// checkTransport checks what HTTP says about a request before its body is read.
func checkTransport(w http.ResponseWriter, r *http.Request) (accepts, *failure) {
	a := acceptedAnswers(r.Header["Accept"])
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return a, refusal(http.StatusMethodNotAllowed, "only POST is answered here: MCP revision "+Revision+" has no GET stream and no sessions")
	case len(r.Header["Content-Type"]) > 1 || !isJSON(r.Header.Get("Content-Type")):
		return a, refusal(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	case !a.json && !a.stream:
		return a, refusal(http.StatusNotAcceptable, "Accept excludes both kinds of answer; send Accept: application/json, text/event-stream")
	}
	return a, nil
}

func isJSON(contentType string) bool {
	const want = "application/json"
	if contentType == want {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == want
}

// acceptedAnswers returns what an Accept header leaves room for. The revision
// makes clients list both media types, but widespread ones send just one, or
// none, which leaves room for both.
func acceptedAnswers(accept []string) (a accepts) {
	listed := false
	for _, line := range accept {
		for more := true; more; {
			var part string
			part, line, more = strings.Cut(line, ",")
			mediaType, params, _ := strings.Cut(part, ";")
			if mediaType = strings.TrimSpace(mediaType); mediaType == "" {
				continue
			}
			listed = true
			if refusedByQuality(params) {
				continue
			}
			switch strings.ToLower(mediaType) {
			case "application/json", "application/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.stream = true
			case "*/*":
				a = accepts{json: true, stream: true}
			}
		}
	}
	if !listed {
		return accepts{json: true, stream: true}
	}
	return a
}

// refusedByQuality reports whether the parameters of a media range hold a
// quality of zero (RFC 9110 section 12.4.2).
func refusedByQuality(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q == 0
		}
	}
	return false
}

// decodeHeader returns the text that a mirrored header value stands for: itself,
// or what =?base64?…?= holds. A value with only one of the marks is literal.
func decodeHeader(value string) (string, error) {
	const start, end = "=?base64?", "?="
	inner, ok := strings.CutPrefix(value, start)
	if !ok {
		return value, nil
	}
	if inner, ok = strings.CutSuffix(inner, end); !ok {
		return value, nil
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(inner)
	switch {
	case err != nil || strings.ContainsAny(inner, "\r\n"): // which the decoder would skip
		return "", errors.New("the value between =?base64? and ?= is not padded standard Base64")
	case !utf8.Valid(decoded):
		return "", errors.New("the Base64 value does not hold UTF-8")
	}
	return string(decoded), nil
}

// checkParamHeaders checks that the Mcp-Param-* headers of a tool call repeat
// the arguments that they mirror.
func checkParamHeaders(h http.Header, mirrored []command.Header, args jsontext.Value) *failure {
	for _, m := range mirrored {
		name := "Mcp-Param-" + m.Name
		if fail := checkParamHeader(name, h[textproto.CanonicalMIMEHeaderKey(name)], strings.Join(m.Path, "."), argumentAt(args, m.Path)); fail != nil {
			return fail
		}
	}
	return nil
}

// argumentAt returns the argument at a path of member names, nil if there is none.
func argumentAt(args jsontext.Value, path []string) jsontext.Value {
	for _, name := range path {
		if args.Kind() != '{' {
			return nil
		}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(args, &members, checked); err != nil {
			return nil
		}
		args = members[name]
	}
	return args
}

func checkParamHeader(name string, values []string, param string, arg jsontext.Value) *failure {
	kind := arg.Kind()
	switch {
	case kind == 0 || kind == 'n': // absent, null
		if len(values) > 0 {
			return headerMismatch("header %s is sent, but argument %s is not; send both or none", name, param)
		}
		return nil
	case kind == '{' || kind == '[':
		if len(values) > 0 {
			return headerMismatch("header %s cannot equal argument %s, which is no single value", name, param)
		}
		return nil // the input schema has the better words for it
	case len(values) == 0:
		return headerMismatch("header %s is missing; it must repeat argument %s", name, param)
	case len(values) > 1:
		return headerMismatch("header %s is sent %d times; send it once", name, len(values))
	}
	got, err := decodeHeader(values[0])
	if err != nil {
		return headerMismatch("header %s: %v", name, err)
	}
	if !equalsArgument(got, arg) {
		return headerMismatch("header %s differs from argument %s; they must be equal", name, param)
	}
	return nil
}

// equalsArgument compares a decoded header value with a string, number or boolean.
func equalsArgument(got string, arg jsontext.Value) bool {
	switch arg.Kind() {
	case '"':
		want, ok := text(arg)
		return ok && got == want
	case '0':
		return equalNumbers(got, string(arg))
	}
	return got == string(arg)
}

// equalNumbers compares a text with a JSON number by value, so that 3.0 equals
// 3. Beyond the integers that a float64 holds exactly only equal texts match.
func equalNumbers(got, want string) bool {
	if got == want {
		return true
	}
	const limit = 1<<53 - 1
	v := jsontext.Value(got)
	if v.Kind() != '0' || !v.IsValid() || strings.TrimSpace(got) != got {
		return false
	}
	a, errA := strconv.ParseFloat(got, 64)
	b, errB := strconv.ParseFloat(want, 64)
	return errA == nil && errB == nil && a == b && -limit <= a && a <= limit
}

// quoted returns s, or the beginning of a long one, as a JSON string for messages.
func quoted(s string) string {
	const most = 100
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}
