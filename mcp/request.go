package mcp

import (
	"context"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
)

// method answers a request that has passed checkEnvelope with the JSON of a
// result. The context ends when the caller goes away.
type method func(ctx context.Context, r *request) (result []byte, fail *failure)

// request is a message with what HTTP adds to it.
type request struct {
	message
	header    http.Header
	principal *access.Principal
	remote    string
	out       responder
	begun     time.Time   // when its method began
	leave     func()      // the request no longer counts as one under way; may be called twice
	give      func()      // the body is no longer held; may be called twice
	given     namedParams // set by checkEnvelope, like the following
	client    capabilities
	progress  jsontext.Value // the progressToken; nil: nobody wants to hear of progress
	trace     command.Trace
	traced    bool // trace is set
	recorded  bool // the method leaves the audit records itself
}

// Names of headers and of the members of _meta.
const (
	headerVersion = "Mcp-Protocol-Version" // in the canonical form of net/http
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"

	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
)

// namedParams are the params of methods that name something and give it arguments.
type namedParams struct {
	Name, Arguments jsontext.Value
	inputs
}

// requestMeta is params._meta, as far as every method needs it.
type requestMeta struct {
	Version, Capabilities, ClientInfo      jsontext.Value
	ProgressToken, TraceParent, TraceState jsontext.Value
}

// checkEnvelope checks what every request must carry: the version and method
// headers, _meta, and that they agree (page basic/transports/streamable-http).
func (r *request) checkEnvelope() *failure {
	meta, metaFail := r.meta()
	version, versionIsString := text(meta.Version)
	if r.method == "initialize" && meta.Version == nil && !slices.Equal(r.header[headerVersion], []string{Revision}) {
		return unsupportedVersion(r.initializeVersion())
	}
	inHeader, fail := r.single(headerVersion)
	if fail != nil {
		return fail
	}
	switch method, fail := r.single(headerMethod); {
	case fail != nil:
		return fail
	case method != r.method:
		return headerMismatch("header Mcp-Method says %q, the body's method is %q; they must be equal", method, r.method)
	}
	switch {
	case metaFail != nil:
		return metaFail
	case meta.Version == nil:
		return invalidParams("params._meta has no %s; it is required on every request, for example %q", metaVersion, Revision)
	case !versionIsString:
		return invalidParams("params._meta: %s must be a string", metaVersion)
	case meta.Capabilities == nil:
		return invalidParams("params._meta has no %s; it is required on every request and may be {}", metaCapabilities)
	case meta.Capabilities.Kind() != '{':
		return invalidParams("params._meta: %s must be an object", metaCapabilities)
	case meta.ClientInfo != nil && !isImplementation(meta.ClientInfo):
		return invalidParams("params._meta: %s must be an object with the strings name and version", metaClientInfo)
	case meta.ProgressToken != nil && !isID(meta.ProgressToken):
		return invalidParams("params._meta: progressToken must be a string or an integer")
	case inHeader != version:
		return headerMismatch("header MCP-Protocol-Version says %q, params._meta says %q; they must be equal", inHeader, version)
	case version != Revision:
		return unsupportedVersion(version)
	}
	r.progress = meta.ProgressToken
	if meta.TraceParent != nil {
		parent, _ := text(meta.TraceParent)
		state, _ := text(meta.TraceState)
		r.trace, r.traced = command.ParseTrace(parent, state)
	}
	r.client, fail = parseCapabilities(meta.Capabilities)
	return fail
}

// meta reads params._meta, and what else it meets on the way there.
func (r *request) meta() (m requestMeta, fail *failure) {
	if r.params == nil {
		return m, invalidParams("params is missing: every request needs params._meta with %s and %s", metaVersion, metaCapabilities)
	}
	if r.params.Kind() != '{' {
		return m, invalidParams("params must be an object")
	}
	var meta jsontext.Value
	command.Members(r.params, func(name []byte, value jsontext.Value) {
		switch string(name) {
		case "_meta":
			meta = value
		case "name":
			r.given.Name = value
		case "arguments":
			r.given.Arguments = value
		case "inputResponses":
			r.given.Responses = value
		case "requestState":
			r.given.State = value
		}
	})
	if meta == nil {
		return m, invalidParams("params._meta is missing: every request needs it, with %s and %s", metaVersion, metaCapabilities)
	}
	if meta.Kind() != '{' {
		return m, invalidParams("params._meta must be an object")
	}
	command.Members(meta, func(name []byte, value jsontext.Value) {
		switch string(name) {
		case metaVersion:
			m.Version = value
		case metaCapabilities:
			m.Capabilities = value
		case metaClientInfo:
			m.ClientInfo = value
		case "progressToken":
			m.ProgressToken = value
		case "traceparent":
			m.TraceParent = value
		case "tracestate":
			m.TraceState = value
		}
	})
	return m, nil
}

// initializeVersion returns the revision that a client of an older one asks for.
func (r *request) initializeVersion() string {
	if r.params.Kind() != '{' {
		return ""
	}
	var params struct {
		Version jsontext.Value `json:"protocolVersion"`
	}
	if err := json.Unmarshal(r.params, &params, checked); err != nil {
		return ""
	}
	version, _ := text(params.Version)
	return version
}

func isImplementation(v jsontext.Value) bool {
	if v.Kind() != '{' {
		return false
	}
	var hasName, hasVersion bool
	command.Members(v, func(name []byte, value jsontext.Value) {
		switch string(name) {
		case "name":
			hasName = value.Kind() == '"'
		case "version":
			hasVersion = value.Kind() == '"'
		}
	})
	return hasName && hasVersion
}

// single returns the value of a header that must be sent once. Of two, a proxy
// may have read the other one.
func (r *request) single(name string) (string, *failure) {
	shown := name
	if name == headerVersion {
		shown = "MCP-Protocol-Version"
	}
	switch values := r.header[name]; len(values) {
	case 1:
		return values[0], nil
	case 0:
		return "", headerMismatch("header %s is missing; this server speaks MCP revision %s only, which requires it here", shown, Revision)
	default:
		return "", headerMismatch("header %s is sent %d times; send it once", shown, len(values))
	}
}

// checkName checks that the Mcp-Name header repeats the parameter of the body
// that the method names its object by.
func (r *request) checkName(param, want string) *failure {
	raw, fail := r.single(headerName)
	if fail != nil {
		return fail
	}
	got, err := decodeHeader(raw)
	if err != nil {
		return headerMismatch("header Mcp-Name: %v", err)
	}
	if got != want {
		return headerMismatch("header Mcp-Name says %q, params.%s is %q; they must be equal", got, param, want)
	}
	return nil
}

// run answers a request; a defect in a method costs its caller an answer, not
// everybody the daemon.
func (s *Server) run(ctx context.Context, m method, r *request) (result []byte, fail *failure) {
	defer func() {
		switch v := recover(); {
		case v == nil:
		case v == http.ErrAbortHandler:
			panic(v)
		default:
			s.log.Error().Str("method", r.method).Interface("panic", v).Bytes("stack", debug.Stack()).Msg("a request ended in a panic")
			result, fail = nil, internalFailure()
		}
	}()
	r.begun = s.clock()
	if r.traced {
		ctx = command.WithTrace(ctx, r.trace)
	}
	return m(ctx, r)
}

func (s *Server) unknownMethod(name string) *failure {
	return &failure{
		status: http.StatusNotFound, code: codeMethodNotFound,
		message: "no method " + quoted(name) + "; this server answers " + strings.Join(slices.Sorted(maps.Keys(s.methods)), ", "),
	}
}
