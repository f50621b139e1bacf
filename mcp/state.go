package mcp

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
)

// stateLifetime is how long a caller may take for one round.
const stateLifetime = 10 * time.Minute

const stateVersion = "v1."

// state is what a call carries from one round to the next in requestState (page
// basic/patterns/mrtr): the server keeps nothing.
type state struct {
	Expires time.Time                  `json:"expires"`
	Answers map[string]json.RawMessage `json:"answers,omitempty"` // of earlier rounds, by the key of the question
	Bound   []string                   `json:"bound,omitempty"`   // keys of the questions asked whose answer counts for this call only
}

// subject is what a state belongs to. With any other it does not open.
type subject struct {
	principal *access.Principal
	method    string
	name      string         // of the tool, or what else Mcp-Name repeats
	args      jsontext.Value // as the caller sent them; nil counts as {}
}

// bytes returns the subject without ambiguity, for authentication.
func (s subject) bytes() []byte {
	var b []byte
	for _, part := range []string{s.principal.Accessor, s.method, s.name} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	args := append(jsontext.Value(nil), s.args...)
	if args == nil {
		args = jsontext.Value("{}")
	}
	// A client may write the same arguments in another order the second time.
	_ = args.Format(jsontext.ReorderRawObjects(true), jsontext.AllowInvalidUTF8(true)) // it is valid
	sum := sha256.Sum256(args)
	return append(b, sum[:]...)
}

// sealer seals states with AES-256-GCM, so that a caller can neither read nor
// change them, nor use them for anything but their subject.
type sealer struct {
	aead  cipher.AEAD
	clock func() time.Time
}

func newSealer(key []byte, clock func() time.Time) (*sealer, error) {
	if key == nil {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // which never fails
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("mcp server: the key of states has %d bytes; it must have 32", len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("mcp server: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("mcp server: %w", err)
	}
	return &sealer{aead: aead, clock: clock}, nil
}

// seal returns the requestState that holds st for stateLifetime.
func (s *sealer) seal(of subject, st state) (string, error) {
	st.Expires = s.clock().Add(stateLifetime)
	plain, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	return stateVersion + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, of.bytes())), nil
}

// Why a requestState is refused; the text is for the caller.
var (
	errStateForeign = errors.New("params.requestState does not belong to this call, or was altered: " + startOver)
	errStateExpired = errors.New("params.requestState is older than 10 minutes: " + startOver)
)

const startOver = "call again from the start, without requestState and inputResponses"

// open returns what a requestState holds.
func (s *sealer) open(of subject, sealed string) (st state, err error) {
	text, ok := strings.CutPrefix(sealed, stateVersion)
	if !ok {
		return st, errStateForeign
	}
	// Strict, and without the line breaks the decoder skips: one state, one text.
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return st, errStateForeign
	}
	plain, err := s.aead.Open(nil, nil, b, of.bytes())
	if err != nil {
		return st, errStateForeign
	}
	if err := json.Unmarshal(plain, &st); err != nil {
		return st, errStateForeign
	}
	if !s.clock().Before(st.Expires) {
		return st, errStateExpired
	}
	return st, nil
}
