package access

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"time"
)

// secretPrefix makes a secret recognisable to people and to scanners that look
// for leaked ones: ze_[a-z2-7]{52}.
const secretPrefix = "ze_"

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewSecret returns a bearer token of 256 random bits. It is shown once and
// never kept. rand is crypto/rand.Reader outside tests; like that reader,
// NewSecret does not return if there is no randomness.
func NewSecret(rand io.Reader) (secret string) { return secretPrefix + random(rand, 32) }

// NewAccessor returns a public handle of 80 random bits for a token: enough to
// name it in lists and in the audit log, useless for authentication.
func NewAccessor(rand io.Reader) string { return random(rand, 10) }

// NewToken makes a token: the secret, to be shown once, and what is kept of it.
// A zero expires means never.
func NewToken(rand io.Reader, name string, scope Scope, created, expires time.Time) (secret string, t Token) {
	secret = NewSecret(rand)
	return secret, Token{Name: name, Accessor: NewAccessor(rand), Digest: DigestOf(secret), Scope: scope, Created: created, Expires: expires}
}

// DigestOf returns what is kept of a secret. A plain hash suffices: 256 random
// bits cannot be guessed, however fast the hash.
func DigestOf(secret string) [32]byte {
	const usual = 64 // octets, for which no memory need be asked
	return sha256.Sum256(append(make([]byte, 0, usual), secret...))
}

// SecretForm is the form that CheckSecret demands, for people.
const SecretForm = "16 to 512 characters out of letters, digits and -._~+/=, as `ze token create` makes them"

// CheckSecret refuses a secret that somebody chose and that is too short to be
// safe, or that no Authorization header could carry.
func CheckSecret(secret string) error {
	if len(secret) < 16 {
		return fmt.Errorf("the token has %d characters, too few to be safe", len(secret))
	}
	if got, ok := bearerToken("Bearer " + secret); !ok || got != secret {
		return errors.New("the token has characters, or a length, that a bearer token cannot have")
	}
	return nil
}

func random(rand io.Reader, size int) string {
	b := make([]byte, size)
	if _, err := io.ReadFull(rand, b); err != nil {
		panic(fmt.Sprintf("access: no randomness for a new token: %v", err))
	}
	return encoding.EncodeToString(b)
}
