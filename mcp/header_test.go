package mcp

import (
	"net/http"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

func TestHeadersMirrorArgumentsInside(t *testing.T) {
	mirrored := []command.Header{{Name: "Team", Path: []string{"scope", "team"}}}
	for _, test := range []struct {
		args, header string
		sent, fits   bool
	}{
		{`{"scope":{"team":"ops"}}`, "ops", true, true},
		{`{"scope":{"team":"ops"}}`, "dev", true, false},
		{`{"scope":{"team":"ops"}}`, "", false, false},
		{`{"scope":{"team":""}}`, "", true, true},
		{`{"scope":{"team":null}}`, "", false, true},
		{`{"scope":{"team":null}}`, "", true, false},
		{`{"scope":{}}`, "", false, true},
		{`{"scope":7}`, "", false, true},
		{`{"team":"ops"}`, "ops", true, false},
		{``, "ops", true, false},
		{``, "", false, true},
	} {
		h := http.Header{}
		if test.sent {
			h.Set("Mcp-Param-Team", test.header)
		}
		var args jsontext.Value
		if test.args != "" {
			args = jsontext.Value(test.args)
		}
		if fail := checkParamHeaders(h, mirrored, args); (fail == nil) != test.fits {
			t.Errorf("arguments %s, header %v: %+v", test.args, h, fail)
		}
	}
}

func TestAcceptedAnswers(t *testing.T) {
	both, none := accepts{json: true, stream: true}, accepts{}
	for header, want := range map[string]accepts{
		"":                                       both,
		"application/json, text/event-stream":    both,
		"application/json":                       {json: true},
		"TEXT/Event-Stream":                      {stream: true},
		"text/event-stream;q=0.5, */*;q=0":       {stream: true},
		"application/*;q=0.1":                    {json: true},
		"text/html, */*;q=0.8":                   both,
		"text/html":                              none,
		"application/json;q=0":                   none,
		" , application/json ; charset=utf-8 , ": {json: true},
	} {
		if got := acceptedAnswers([]string{header}); got != want {
			t.Errorf("Accept %q: %+v, want %+v", header, got, want)
		}
	}
}
