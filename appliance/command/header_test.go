package command

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestHeadersOf(t *testing.T) {
	got, err := headersOf(json.RawMessage(`{"type":"object","properties":{
		"shard":{"type":"string","x-mcp-header":"Shard"},
		"page":{"type":"integer","x-mcp-header":"Page"},
		"x-mcp-header":{"type":"number"},
		"any":true,
		"scope":{"type":"object","properties":{"team":{"type":"boolean","x-mcp-header":"Team"}}},
		"list":{"type":"array","items":{"type":"string","x-mcp-header":"Never"}}}}`))
	want := []Header{{"Page", []string{"page"}}, {"Shard", []string{"shard"}}, {"Team", []string{"scope", "team"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		`{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"o":{"properties":{"b":{"type":"string","x-mcp-header":"a"}}}}}`,
	} {
		if got, err := headersOf(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}
