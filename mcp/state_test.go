package mcp

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
)

func newTestSealer(t testing.TB, key []byte, clock func() time.Time) *sealer {
	t.Helper()
	s, err := newSealer(key, clock)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func smashHall() subject {
	return subject{principal: &access.Principal{Accessor: "a1"}, method: "tools/call", name: "ze_smash", args: jsontext.Value(`{"lamp":"hall","n":9007199254740993}`)}
}

func TestStateOpensForItsSubjectOnly(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := newTestSealer(t, nil, func() time.Time { return now })
	want := state{Answers: map[string]json.RawMessage{"k": json.RawMessage(`{"action":"accept"}`)}, Bound: []string{"ze-confirm"}}
	sealed, err := s.seal(smashHall(), want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.open(smashHall(), sealed)
	if err != nil || !reflect.DeepEqual(got.Answers, want.Answers) || !reflect.DeepEqual(got.Bound, want.Bound) {
		t.Errorf("opened %+v, %v; want %+v", got, err, want)
	}
	reordered := smashHall()
	reordered.args = jsontext.Value(`{ "n":9007199254740993, "lamp":"h\u0061ll"}`)
	if _, err := s.open(reordered, sealed); err != nil {
		t.Errorf("the same arguments in another spelling: %v", err)
	}
	for name, change := range map[string]func(*subject){
		"principal":     func(o *subject) { o.principal = &access.Principal{Accessor: "a2"} },
		"method":        func(o *subject) { o.method = "prompts/get" },
		"tool":          func(o *subject) { o.name = "ze_smas" },
		"arguments":     func(o *subject) { o.args = jsontext.Value(`{"lamp":"attic","n":9007199254740993}`) },
		"large integer": func(o *subject) { o.args = jsontext.Value(`{"lamp":"hall","n":9007199254740992}`) },
		"no arguments":  func(o *subject) { o.args = nil },
		// The parts are told apart, or a method could lend a letter to a tool.
		"borders": func(o *subject) { o.method, o.name = "tools/callz", "e_smash" },
	} {
		other := smashHall()
		change(&other)
		if st, err := s.open(other, sealed); err == nil {
			t.Errorf("another %s opens it: %+v", name, st)
		}
	}
	if _, err := newTestSealer(t, nil, s.clock).open(smashHall(), sealed); err == nil {
		t.Error("another server's key opens it")
	}
	now = now.Add(stateLifetime - time.Nanosecond)
	if _, err := s.open(smashHall(), sealed); err != nil {
		t.Errorf("shortly before its end: %v", err)
	}
	now = now.Add(time.Nanosecond)
	if _, err := s.open(smashHall(), sealed); err != errStateExpired {
		t.Errorf("at its end: %v, want %v", err, errStateExpired)
	}
}

// A daemon that starts its server anew keeps the key, or a reload would cost
// every caller the rounds it is in.
func TestStateOpensWithTheSameKey(t *testing.T) {
	key := make([]byte, 32)
	sealed, err := newTestSealer(t, key, time.Now).seal(smashHall(), state{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newTestSealer(t, key, time.Now).open(smashHall(), sealed); err != nil {
		t.Error(err)
	}
	if _, err := newSealer(key[:16], time.Now); err == nil {
		t.Error("a short key is taken")
	}
}

func TestEveryAlteredStateIsRefused(t *testing.T) {
	s := newTestSealer(t, nil, time.Now)
	for _, key := range []string{"a", "ab", "abc"} { // lengths, so that Base64 ends in each of its ways
		sealed, err := s.seal(smashHall(), state{Bound: []string{key}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(sealed) {
			for c := range byte(128) {
				altered := sealed[:i] + string(c) + sealed[i+1:]
				if _, err := s.open(smashHall(), altered); err == nil && altered != sealed {
					t.Errorf("opens with octet %d of %d as %q", i, len(sealed), c)
				}
			}
			if _, err := s.open(smashHall(), sealed[:i]); err == nil {
				t.Errorf("opens cut after %d octets", i)
			}
			if _, err := s.open(smashHall(), sealed[:i]+"\n"+sealed[i:]); err == nil {
				t.Errorf("opens with a line break at %d", i)
			}
		}
	}
}

// FuzzState opens any text with any subject. Only what was sealed may open, and
// nothing may panic.
func FuzzState(f *testing.F) {
	s := newTestSealer(f, make([]byte, 32), func() time.Time { return time.Unix(1_800_000_000, 0) })
	// Sealed with that key at that time; a constant, because every worker of the
	// fuzzer has to know it.
	const sealed = "v1.yZEeQG68_POnHGN6qU9yBYoQbORubNnINYBLlM_KaMM5KXZuVPmIE13_UXAD_jxnSiXmiAAFTprhnyD8IhaK_YMkLaa6uiuJ0serPygl0NtoDrblZg"
	if _, err := s.open(smashHall(), sealed); err != nil {
		f.Fatal(err)
	}
	f.Add(sealed, `{"lamp":"hall","n":9007199254740993}`)
	f.Add(sealed+"-TAMPERED", `{}`)
	f.Add("v1.", "")
	f.Add("v2."+strings.TrimPrefix(sealed, stateVersion), `{"lamp":"hall"}`)
	f.Add(stateVersion+base64.RawURLEncoding.EncodeToString(make([]byte, 64)), `null`)
	f.Fuzz(func(t *testing.T, text, args string) {
		of := smashHall()
		if of.args = jsontext.Value(args); !of.args.IsValid() {
			of.args = nil
		}
		if _, err := s.open(of, text); err == nil && text != sealed {
			t.Errorf("opens: %q", text)
		}
	})
}
