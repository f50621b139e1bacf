package mcp

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzHeader reads any value of a mirrored header. What is not marked as
// encoded stands for itself; what is, for exactly one text.
func FuzzHeader(f *testing.F) {
	for _, seed := range []string{"", "eu-west", "=?base64?WsO8cmljaA==?=", "=?base64?IGxlZnQ=?=", "=?BASE64?WsO8?=", "=?base64?WsO8cmljaA?=", "=?base64??=",
		"=?base64?SGVs!!!bG8=?=", "=?base64?PT9iYXNlNjQ/eD89?=", "=?base64?/w==?=", "=?base64?QQ==\n?=", "=?base64?=", "=?base64?QR==?="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		inner, marked := strings.CutPrefix(value, "=?base64?")
		if marked {
			inner, marked = strings.CutSuffix(inner, "?=")
		}
		got, err := decodeHeader(value)
		switch {
		case !marked && (err != nil || got != value):
			t.Errorf("%q is not encoded, and was read as %q, %v", value, got, err)
		case marked && err == nil && (!utf8.ValidString(got) || base64.StdEncoding.EncodeToString([]byte(got)) != inner):
			t.Errorf("%q was read as %q, which is encoded otherwise", value, got)
		}
		if utf8.ValidString(value) {
			encoded := "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
			if got, err := decodeHeader(encoded); err != nil || got != value {
				t.Errorf("%q, encoded, was read as %q, %v", value, got, err)
			}
		}
	})
}
