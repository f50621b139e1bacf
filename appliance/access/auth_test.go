package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// tokens stands for the store.
type tokens struct {
	mu       sync.Mutex
	byDigest map[[32]byte]Token
	err      error
	writes   int
	now      func() time.Time
}

func (s *tokens) TokenByDigest(_ context.Context, digest [32]byte) (Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Token{}, s.err
	}
	t, ok := s.byDigest[digest]
	if !ok {
		return Token{}, ErrNoToken
	}
	return t, nil
}
func (s *tokens) Now() time.Time {
	if s.now == nil {
		return time.Now()
	}
	return s.now()
}

func (s *tokens) UseTokens(_ context.Context, used map[[32]byte]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.writes++
	for digest, at := range used {
		if t, ok := s.byDigest[digest]; ok {
			t.Used = at
			s.byDigest[digest] = t
		}
	}
	return nil
}

func (s *tokens) RotateToken(context.Context, string, Token, time.Time) (Token, error) {
	return Token{}, errors.ErrUnsupported
}
func (s *tokens) Tokens(context.Context) ([]Token, error)  { return nil, errors.ErrUnsupported }
func (s *tokens) CreateToken(context.Context, Token) error { return errors.ErrUnsupported }
func (s *tokens) DeleteToken(context.Context, string) (bool, error) {
	return false, errors.ErrUnsupported
}
func (s *tokens) add(secret string, t Token) { s.byDigest[DigestOf(secret)] = t }

func TestSecrets(t *testing.T) {
	secret, other := NewSecret(rand.Reader), NewSecret(rand.Reader)
	if !regexp.MustCompile(`^ze_[a-z2-7]{52}$`).MatchString(secret) || secret == other {
		t.Errorf("secrets %s, %s", secret, other)
	}
	// All bits of the source are in it.
	if got := NewSecret(bytes.NewReader(bytes.Repeat([]byte{0xff}, 32))); got != "ze_"+strings.Repeat("7", 51)+"q" {
		t.Errorf("secret of ones: %s", got)
	}
	if _, ok := bearerToken("Bearer " + secret); !ok {
		t.Error("a new secret is not a bearer token")
	}
	if a := NewAccessor(rand.Reader); len(a) != 16 || a == NewAccessor(rand.Reader) {
		t.Errorf("accessor %s", a)
	}
	defer func() {
		if recover() == nil {
			t.Error("a secret without randomness")
		}
	}()
	NewSecret(bytes.NewReader(make([]byte, 31)))
}

func TestAuthenticate(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	secret, static := NewSecret(rand.Reader), NewSecret(rand.Reader)
	s := &tokens{byDigest: map[[32]byte]Token{}, now: func() time.Time { return now }}
	s.add(secret, Token{Name: "ci", Accessor: "acc", Scope: Read, Allow: []string{"announce"}, Deny: []string{"show bgp"}})
	s.add("old", Token{Name: "old", Expires: now})
	s.add("new", Token{Name: "new", Expires: now.Add(1)})
	ci := &Principal{Name: "ci", Accessor: "acc", Scope: Read, Allow: []string{"announce"}, Deny: []string{"show bgp"}}
	admin := &Principal{Name: "static", Accessor: "static:static", Scope: Admin}
	for _, mode := range []string{ModeBearer, ModeBearerList} {
		a, err := NewAuthenticator(AuthOptions{
			Mode: mode, Store: s,
			Static: []StaticToken{{Name: "static", Digest: DigestOf(static), Scope: Admin}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			header string
			want   *Principal
			err    *AuthError
		}{
			{"Bearer " + secret, ci, nil},
			{"bearer " + secret, ci, nil},
			{"BEARER   " + secret, ci, nil},
			{"Bearer " + static, admin, nil},
			{"Bearer new", &Principal{Name: "new"}, nil},
			{"Bearer old", nil, ErrAuthExpired},
			{"", nil, ErrAuthMissing},
			{"Bearer", nil, ErrAuthMalformed},
			{"Bearer ", nil, ErrAuthMalformed},
			{"Bearer  ", nil, ErrAuthMalformed},
			{secret, nil, ErrAuthMalformed},
			{"Basic " + secret, nil, ErrAuthMalformed},
			{"Bearer" + secret, nil, ErrAuthMalformed},
			{"Bearer " + secret + " x", nil, ErrAuthMalformed},
			{"Bearer a,b", nil, ErrAuthMalformed},
			{"Bearer \x00", nil, ErrAuthMalformed},
			{"Bearer " + strings.Repeat("a", 513), nil, ErrAuthMalformed},
			{"Bearer " + strings.Repeat("a", 512), nil, ErrAuthUnknown},
			{"Bearer " + secret[:len(secret)-1], nil, ErrAuthUnknown},
			{"Bearer " + strings.ToUpper(secret), nil, ErrAuthUnknown},
		} {
			got, err := a.Authenticate(t.Context(), c.header)
			if c.err == nil {
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s, %q: %+v, %v", mode, c.header, got, err)
				}
				continue
			}
			if got != nil || !errors.Is(err, c.err) {
				t.Errorf("%s, %q: %+v, %v", mode, c.header, got, err)
			}
			if secret := strings.TrimSpace(strings.TrimPrefix(c.header, "Bearer")); len(secret) > 5 && strings.Contains(fmt.Sprintf("%+v", err), secret) {
				t.Errorf("%q: the error carries what was presented: %v", c.header, err)
			}
		}
		if err := testutil.CollectAndCompare(a.failures, strings.NewReader(`
# HELP ze_auth_failures_total Requests that were not authenticated; ze_mcp_requests_total has all of them.
# TYPE ze_auth_failures_total counter
ze_auth_failures_total{reason="expired"} 1
ze_auth_failures_total{reason="malformed"} 10
ze_auth_failures_total{reason="missing"} 1
ze_auth_failures_total{reason="unavailable"} 0
ze_auth_failures_total{reason="unknown"} 3
`)); err != nil {
			t.Error(err)
		}
	}
}

func TestAuthenticateRevokedAtOnce(t *testing.T) {
	s := &tokens{byDigest: map[[32]byte]Token{}}
	s.add("secret", Token{Name: "x", Scope: Admin})
	a, err := NewAuthenticator(AuthOptions{Mode: ModeBearer, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), "Bearer secret"); err != nil {
		t.Fatal(err)
	}
	delete(s.byDigest, DigestOf("secret"))
	if _, err := a.Authenticate(t.Context(), "Bearer secret"); !errors.Is(err, ErrAuthUnknown) {
		t.Errorf("revoked: %v", err)
	}
}

func TestAuthenticateStoreFails(t *testing.T) {
	broken := errors.New("broken")
	a, err := NewAuthenticator(AuthOptions{Mode: ModeBearer, Store: &tokens{err: broken}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Authenticate(t.Context(), "Bearer secret")
	if p != nil || !errors.Is(err, ErrAuthUnavailable) || !errors.Is(err, broken) || errors.Is(err, ErrAuthUnknown) {
		t.Errorf("%v, %v", p, err)
	}
}

func TestAuthenticateModes(t *testing.T) {
	a, err := NewAuthenticator(AuthOptions{Mode: ModeNone})
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "Bearer x", "nonsense"} {
		if p, err := a.Authenticate(t.Context(), header); err != nil || p.Name != "anonymous" || p.Scope != Admin {
			t.Errorf("mode none, %q: %+v, %v", header, p, err)
		}
	}
	for _, mode := range []string{"", "oauth", "None"} {
		if _, err := NewAuthenticator(AuthOptions{Mode: mode}); err == nil || !strings.Contains(err.Error(), "bearer-list") {
			t.Errorf("mode %q: %v", mode, err)
		}
	}
	// No store and no token: nobody.
	a, err = NewAuthenticator(AuthOptions{Mode: ModeBearer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), "Bearer x"); !errors.Is(err, ErrAuthUnknown) {
		t.Errorf("nobody: %v", err)
	}
}

func TestAuthenticateAllocations(t *testing.T) {
	secret := NewSecret(rand.Reader)
	a, err := NewAuthenticator(AuthOptions{Mode: ModeBearer, Static: []StaticToken{{Name: "s", Digest: DigestOf(secret)}}})
	if err != nil {
		t.Fatal(err)
	}
	header := "Bearer " + secret
	if n := testing.AllocsPerRun(100, func() { a.Authenticate(t.Context(), header) }); n > 1 {
		t.Errorf("%v allocations for a configured token", n)
	}
}

func TestGate(t *testing.T) {
	id := func(name, secret string) StaticToken {
		s := StaticToken{Name: name, Scope: Read}
		if secret != "" {
			s.Digest = DigestOf(secret)
		}
		return s
	}
	public := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("192.0.2.1:8080")}
	loopback := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("[::1]:8080")}
	for _, c := range []struct {
		name string
		s    Settings
		want []string // beginnings of the problems
	}{
		{"store token", Settings{Mode: ModeBearer, StoreTokens: 1, Listeners: loopback}, nil},
		{"static token", Settings{Mode: ModeBearer, HasToken: true, Listeners: loopback}, nil},
		{"none", Settings{Mode: ModeNone, Listeners: loopback}, nil},
		{"none, and tokens in the store", Settings{Mode: ModeNone, StoreTokens: 3}, nil},
		{"identity", Settings{Mode: ModeBearerList, Identities: []StaticToken{id("a", "1"), id("b", "2")}}, nil},
		{"list with store token", Settings{Mode: ModeBearerList, StoreTokens: 1}, nil},
		{"list with static token", Settings{Mode: ModeBearerList, HasToken: true}, nil},
		{"unset", Settings{}, []string{`auth-mode: unknown mode ""`}},
		{"unknown", Settings{Mode: "oauth", HasToken: true}, []string{`auth-mode: unknown mode "oauth"; none, bearer, bearer-list`}},
		{"none with token", Settings{Mode: ModeNone, HasToken: true}, []string{"auth-mode: mode none lets everybody in, yet a token"}},
		{"bearer without", Settings{Mode: ModeBearer}, []string{"auth-mode: mode bearer without any token"}},
		{"list without", Settings{Mode: ModeBearerList}, []string{"auth-mode: mode bearer-list without any token"}},
		{"identity without token", Settings{Mode: ModeBearerList, Identities: []StaticToken{id("a", "")}},
			[]string{"auth-mode: mode bearer-list without", "identity[a]/token: there is no token"}},
		{"two names", Settings{Mode: ModeBearerList, Identities: []StaticToken{id("a", "1"), id("a", "2")}}, []string{"identity[a]: there is another"}},
		{"two tokens", Settings{Mode: ModeBearerList, Identities: []StaticToken{id("a", "1"), id("b", "1")}}, []string{"identity[b]/token: identity a has the same"}},
		{"identity in bearer", Settings{Mode: ModeBearer, HasToken: true, Identities: []StaticToken{id("a", "1")}}, []string{"identity: identities have no effect"}},
		{"all interfaces", Settings{Mode: ModeBearer, HasToken: true, Listeners: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:8080")}},
			[]string{"server: address 0.0.0.0:8080 can be reached from other machines, and bind-remote is not true", "tls: address 0.0.0.0:8080"}},
		{"public", Settings{Mode: ModeNone, Listeners: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("[::]:1")}},
			[]string{"server: address 192.0.2.1:1", "auth-mode: address 192.0.2.1:1", "tls: address 192.0.2.1:1"}},
		{"no address", Settings{Mode: ModeNone, Listeners: []netip.AddrPort{{}}}, []string{"server: address", "auth-mode: address", "tls: address"}},
		{"remote", Settings{Mode: ModeBearer, HasToken: true, Listeners: public, BindRemote: true, Cert: "c", Key: "k"}, nil},
		{"remote, list", Settings{Mode: ModeBearerList, HasToken: true, Listeners: public, BindRemote: true, Cert: "c", Key: "k"}, nil},
		{"remote without saying so", Settings{Mode: ModeBearer, HasToken: true, Listeners: public, Cert: "c", Key: "k"}, []string{"server: address"}},
		{"remote in clear", Settings{Mode: ModeBearer, HasToken: true, Listeners: public, BindRemote: true}, []string{"tls: address"}},
		{"remote for everybody", Settings{Mode: ModeNone, Listeners: public, BindRemote: true, Cert: "c", Key: "k"}, []string{"auth-mode: address"}},
		{"half a pair", Settings{Mode: ModeBearer, HasToken: true, Cert: "c"}, []string{"tls: there is a certificate but no key"}},
		{"other half", Settings{Mode: ModeBearer, HasToken: true, Key: "k"}, []string{"tls: there is a key but no certificate"}},
		{"half a pair, remote", Settings{Mode: ModeBearer, HasToken: true, Listeners: public, BindRemote: true, Key: "k"}, []string{"tls: there is", "tls: address"}},
		{"tls at home", Settings{Mode: ModeBearer, HasToken: true, Listeners: loopback, Cert: "c", Key: "k"}, nil},
		{"may, need not", Settings{Mode: ModeNone, Listeners: loopback, BindRemote: true}, nil},
		{"mapped", Settings{Mode: ModeNone, Listeners: []netip.AddrPort{netip.MustParseAddrPort("[::ffff:127.0.0.1]:1")}}, nil},
	} {
		got := c.s.Check()
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.HasPrefix(got[i].String(), c.want[i]) && got[i].Allowed != ""
		}
		if !ok {
			t.Errorf("%s:\n got %v\nwant %q", c.name, got, c.want)
		}
		if warned := len(c.s.Warnings()) > 0; warned != (c.s.Mode == ModeNone) {
			t.Errorf("%s: warnings %v", c.name, c.s.Warnings())
		}
	}
	for _, s := range []Settings{{Mode: ModeBearer}, {Mode: ModeBearerList}} {
		if p := s.Check(); !strings.Contains(p[0].Allowed, "ze token create") || !strings.Contains(p[0].Allowed, "--mcp-token") {
			t.Errorf("%s: advice %q", s.Mode, p[0].Allowed)
		}
	}
}

func TestPeerPrincipal(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	uid := strconv.Itoa(os.Getuid())
	want := &Principal{Name: "uid " + uid, Accessor: "uid:" + uid, Scope: Admin}
	if u, err := user.LookupId(uid); err == nil {
		want.Name = u.Username
	}
	got, err := PeerPrincipal(s.(*net.UnixConn))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	s.Close()
	if _, err := PeerPrincipal(s.(*net.UnixConn)); err == nil {
		t.Error("credentials of a closed connection")
	}
}

func TestMay(t *testing.T) {
	p := &Principal{Scope: Read, Allow: []string{"announce"}, Deny: []string{"show bgp", "announce flowspec"}}
	for path, want := range map[string]bool{
		"show version": true, "show bgp": false, "show bgp rib": false, "show bgpx": true,
		"announce": true, "announce x": true, "announcements": false, "announce flowspec": false, "set x": false,
	} {
		need := Write
		if strings.HasPrefix(path, "show") {
			need = Read
		}
		if got := p.May(path, need); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
