package stdio

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// exchange sends a request of Revision and returns the response. Notifications
// go to each.
func (s *server) exchange(ctx context.Context, request jsontext.Value, each func(method string, notification jsontext.Value)) (r response, err error) {
	err = s.Upstream.Exchange(ctx, request, func(raw json.RawMessage) error {
		o := parseObject(jsontext.Value(raw))
		method := o.text("method")
		switch result, fail := o.get("result"), o.get("error"); {
		case !jsontext.Value(raw).IsValid():
			s.Logger.Warn().Msg("the server sent what is no JSON; it was left out")
		case method == "" && (result != nil) != (fail != nil):
			r = response{result, fail}
		case strings.HasPrefix(method, "notifications/") && o.get("id") == nil:
			each(method, jsontext.Value(raw))
		default: // no server sends requests in this revision
			s.Logger.Warn().Str("method", method).Msg("the server sent what is neither a notification nor a response; it was left out")
		}
		return nil
	})
	return r, err
}

// relay passes a request of Revision on, and everything that comes back.
func (s *server) relay(ctx context.Context, m message) response {
	acknowledged := false
	r, err := s.exchange(ctx, m.raw, func(method string, n jsontext.Value) {
		acknowledged = acknowledged || method == "notifications/subscriptions/acknowledged"
		s.write(n)
	})
	if ctx.Err() != nil {
		return response{} // nobody waits for it
	}
	if acknowledged {
		return s.endListen(m, r, err)
	}
	if err != nil {
		return s.unreachable(m, err)
	}
	return r
}

// endListen tells the host that its subscription is over, with a notification
// and with the response: hosts differ in which of them they wait for (page
// basic/patterns/cancellation).
func (s *server) endListen(m message, r response, err error) response {
	params := object{{"requestId", m.id}}
	if err != nil {
		params.set("reason", quote(err.Error()))
		r = response{result: object{
			{"resultType", quote("complete")},
			{"_meta", object{{metaSubscription, m.id}, {metaServerInfo, s.info()}}.encode()},
		}.encode()}
	}
	s.notify("notifications/cancelled", params)
	return r
}

func (s *server) info() jsontext.Value {
	return object{{"name", quote(s.Name)}, {"version", quote(s.Version)}}.encode()
}

// unreachable answers a request of Revision that did not reach the server. What
// the user has to do is said where a host shows it: to the model that called a
// tool, and in the instructions.
func (s *server) unreachable(m message, err error) response {
	meta := member{"_meta", object{{metaServerInfo, s.info()}}.encode()}
	version := parseObject(parseObject(m.params).get("_meta")).text(metaVersion)
	switch {
	case version != Revision:
		return response{error: (&failure{
			code: codeUnsupportedVersion, message: "requests that carry their version are served in revision " + Revision + " only",
			data: object{{"supported", encodeArray([]jsontext.Value{quote(Revision)})}, {"requested", quote(version)}}.encode(),
		}).encode()}
	case m.method == "server/discover":
		return response{result: object{
			{"resultType", quote("complete")},
			{"supportedVersions", encodeArray([]jsontext.Value{quote(Revision)})},
			{"capabilities", jsontext.Value(`{"tools":{}}`)},
			{"instructions", quote(err.Error())},
			{"ttlMs", jsontext.Value("0")}, {"cacheScope", quote("private")}, meta,
		}.encode()}
	case m.method == "tools/call":
		o := toolError(err)
		return response{result: append(object{{"resultType", quote("complete")}}, append(o, meta)...).encode()}
	}
	return failed(codeInternal, "%v", err)
}

// toolError is the result of a tool call that failed.
func toolError(err error) object {
	text := object{{"type", quote("text")}, {"text", quote(err.Error())}}.encode()
	return object{{"content", encodeArray([]jsontext.Value{text})}, {"isError", jsontext.Value("true")}}
}
