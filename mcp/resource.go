package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"mime"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// appType is the media type of a document that a host shows as an app
// (SEP-1865).
const appType = "text/html;profile=mcp-app"

// Freshness of what is read. What stands at any other URI is the daemon's state,
// old at once.
var (
	assetHints = cacheHints{TTL: 3_600_000, Scope: "private"}
	stateHints = cacheHints{TTL: 0, Scope: "private"}
)

// resourceEntry is a resource or template as a list shows it (page
// server/resources).
type resourceEntry struct {
	URI         string         `json:"uri,omitzero"`
	URITemplate string         `json:"uriTemplate,omitzero"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	MIMEType    string         `json:"mimeType,omitzero"`
	Size        int            `json:"size,omitzero"`
	Meta        jsontext.Value `json:"_meta,omitzero"`
}

// resourceContent is one entry of what a resource holds.
type resourceContent struct {
	URI      string         `json:"uri"`
	MIMEType string         `json:"mimeType,omitzero"`
	Text     *string        `json:"text,omitzero"`
	Blob     *string        `json:"blob,omitzero"`
	Meta     jsontext.Value `json:"_meta,omitzero"`
}

// assetMeta is what a host may know of a panel: it is one document that loads
// nothing, so the strictest policy suits it.
var assetMeta = jsontext.Value(`{"ui":{"csp":{"connectDomains":[],"resourceDomains":[]},"prefersBorder":true}}`)

// assetURI checks a ui:// address before anything is looked up by it.
func assetURI(uri string) error {
	const most, deepest = 2048, 8
	name, ok := strings.CutPrefix(uri, "ui://")
	switch {
	case !ok:
		return errors.New("the scheme is not ui")
	case len(uri) > most:
		return errors.New("the address is too long")
	case name == "" || strings.ContainsAny(name, "?#%\\\x00") || path.Clean("/"+name) != "/"+name:
		return errors.New("the path is not in its shortest form")
	case strings.Count(name, "/") >= deepest:
		return errors.New("the path has more than eight segments")
	}
	return nil
}

// checkAssets holds the addresses of the embedded assets to what is served.
func checkAssets(assets map[string][]byte) error {
	for uri := range assets {
		if err := assetURI(uri); err != nil {
			return errors.New("mcp server: asset " + quoted(uri) + ": " + err.Error())
		}
	}
	return nil
}

func assetType(uri string) string {
	switch ext := path.Ext(uri); ext {
	case ".html":
		return appType
	default:
		if t := mime.TypeByExtension(ext); t != "" {
			return t
		}
		return "application/octet-stream"
	}
}

func (s *Server) resourcesList(_ context.Context, r *request) ([]byte, *failure) {
	if fail := r.onePage(); fail != nil {
		return nil, fail
	}
	list := make([]resourceEntry, 0, len(s.assets))
	for _, uri := range slices.Sorted(maps.Keys(s.assets)) {
		c := content(uri, assetType(uri), s.assets[uri])
		list = append(list, resourceEntry{URI: uri, Name: resourceName(uri), MIMEType: c.MIMEType, Size: len(s.assets[uri]), Meta: c.Meta})
	}
	for _, res := range s.dispatcher.Registry().Resources(r.principal) {
		if len(res.Vars) == 0 {
			list = append(list, resourceEntry{URI: res.Text, Name: resourceName(res.Text), Description: res.Command.Description, MIMEType: "application/json"})
		}
	}
	slices.SortFunc(list, func(a, b resourceEntry) int { return strings.Compare(a.URI, b.URI) })
	return s.encodeEntries("resources", list)
}

func (s *Server) templatesList(_ context.Context, r *request) ([]byte, *failure) {
	if fail := r.onePage(); fail != nil {
		return nil, fail
	}
	list := []resourceEntry{}
	for _, res := range s.dispatcher.Registry().Resources(r.principal) {
		if len(res.Vars) > 0 {
			list = append(list, resourceEntry{URITemplate: res.Text, Name: resourceName(res.Text), Description: res.Command.Description, MIMEType: "application/json"})
		}
	}
	return s.encodeEntries("resourceTemplates", list)
}

// resourceName is what stands behind the scheme.
func resourceName(uri string) string {
	_, name, _ := strings.Cut(uri, "://")
	return name
}

// onePage refuses every cursor: no list has a second page.
func (r *request) onePage() *failure {
	var params struct {
		Cursor jsontext.Value `json:"cursor"`
	}
	if err := json.Unmarshal(r.params, &params, checked); err != nil {
		return invalidParams("params: %v", err)
	}
	if params.Cursor != nil {
		return refusedParams("no such cursor: the list is one page; ask without a cursor")
	}
	return nil
}

// encodeEntries encodes a list that depends on the caller.
func (s *Server) encodeEntries(member string, list any) ([]byte, *failure) {
	entries, err := json.Marshal(list)
	if err != nil {
		s.log.Error().Err(err).Msg("encode the list of " + member)
		return nil, internalFailure()
	}
	return s.cacheable(member, entries, perCaller), nil
}

// cacheable encodes a result with one member and hints.
func (s *Server) cacheable(member string, value jsontext.Value, hints cacheHints) []byte {
	b := make([]byte, 0, 128+len(value)+len(s.info))
	b = append(b, `{"resultType":"complete","`+member+`":`...)
	b = append(b, value...)
	b = strconv.AppendInt(append(b, `,"ttlMs":`...), hints.TTL, 10)
	b = append(b, `,"cacheScope":"`+hints.Scope+`","_meta":`...)
	return append(append(b, s.info...), '}')
}

func (s *Server) resourcesRead(ctx context.Context, r *request) ([]byte, *failure) {
	uri, fail := r.named("uri", "which resource to read")
	if fail != nil {
		return nil, s.refuse(ctx, r, command.Invalid, fail)
	}
	if strings.HasPrefix(uri, "ui:") {
		if err := assetURI(uri); err != nil {
			return nil, s.refuse(ctx, r, command.Invalid, noResource(uri, "not a ui:// address of this server: "+err.Error()))
		}
		asset, ok := s.assets[uri]
		if !ok {
			return nil, s.refuse(ctx, r, command.NotFound, noResource(uri, "no such resource; resources/list has what there is"))
		}
		return s.contents([]resourceContent{content(uri, assetType(uri), asset)}, assetHints)
	}
	res, vars := s.dispatcher.Registry().Resource(r.principal, uri)
	if res == nil {
		return nil, s.refuse(ctx, r, command.NotFound,
			noResource(uri, "no such resource; resources/list and resources/templates/list have what there is"))
	}
	values, err := res.Command.Values(vars)
	if err != nil {
		return nil, s.refuse(ctx, r, command.Invalid, noResource(uri, command.AsError(err).Error()))
	}
	result, interim, fail := s.answer(ctx, r, uri, nil, command.Call{Path: res.Command.Path, Values: values}, func(e *command.Error) *failure {
		return resourceFailure(uri, e)
	})
	if result == nil {
		return interim, fail
	}
	held, err := answerContents(uri, result)
	if err != nil {
		s.log.Error().Err(err).Str("uri", uri).Msg("read the answer of a resource")
		return nil, internalFailure()
	}
	return s.contents(held, stateHints)
}

func (s *Server) contents(held []resourceContent, hints cacheHints) ([]byte, *failure) {
	b, err := json.Marshal(held)
	if err != nil {
		s.log.Error().Err(err).Msg("encode the contents of a resource")
		return nil, internalFailure()
	}
	return s.cacheable("contents", b, hints), nil
}

// content returns bytes as one entry: as text where they are text.
func content(uri, mimeType string, held []byte) resourceContent {
	c := resourceContent{URI: uri, MIMEType: mimeType}
	if mimeType == appType {
		c.Meta = assetMeta
	}
	text := string(held)
	if utf8.ValidString(text) {
		c.Text = &text
		return c
	}
	blob := base64.StdEncoding.EncodeToString(held)
	c.Blob = &blob
	return c
}

// answerContents returns what a command answered as the entries of a resource:
// an object as JSON, and of an Answer its blocks of text and embedded resources.
func answerContents(uri string, result *command.Result) ([]resourceContent, error) {
	if result.Answer == nil || result.Answer.Content == nil {
		return []resourceContent{content(uri, "application/json", result.JSON)}, nil
	}
	var blocks []struct {
		Type     string           `json:"type"`
		Text     string           `json:"text"`
		Resource *resourceContent `json:"resource"`
	}
	if err := json.Unmarshal(result.Answer.Content, &blocks); err != nil {
		return nil, err
	}
	held := make([]resourceContent, 0, len(blocks))
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			held = append(held, content(uri, "text/plain", []byte(b.Text)))
		case b.Type == "resource" && b.Resource != nil:
			held = append(held, *b.Resource)
		default:
			return nil, errors.New("a block of type " + quoted(b.Type) + " is no part of a resource")
		}
	}
	return held, nil
}

// noResource says that nothing stands at uri.
func noResource(uri, why string) *failure {
	f := refusedParams("%s", why)
	f.data, _ = jsontext.AppendQuote([]byte(`{"uri":`), uri)
	f.data = append(f.data, '}')
	return f
}

// resourceFailure maps why the command behind a resource failed. What the URI
// names and is not there is not found, whatever the reason.
func resourceFailure(uri string, e *command.Error) *failure {
	switch e.Code {
	case command.NotFound, command.Unknown, command.Invalid:
		return noResource(uri, e.Error())
	}
	return commandFailure(e)
}

// uiMeta is the _meta member of a tool whose result a panel shows. Hosts of
// before the first stable text read only the flat key.
func uiMeta(t *command.Tool) (jsontext.Value, error) {
	type ui struct {
		ResourceURI string   `json:"resourceUri"`
		Visibility  []string `json:"visibility"`
	}
	return json.Marshal(struct {
		UI   ui     `json:"ui"`
		Flat string `json:"ui/resourceUri"`
	}{ui{t.UIResource, []string{"model", "app"}}, t.UIResource})
}
