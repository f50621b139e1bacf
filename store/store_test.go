package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/config"
)

// now is what the clock of test stores shows.
var now = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

func options(dir string) Options {
	return Options{
		Dir: dir, Create: true, Instance: "test", Clock: func() time.Time { return now },
		Logger: zerolog.Nop(), LockTimeout: 200 * time.Millisecond,
	}
}

// privateDir returns a new directory as the store wants it.
func privateDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openTest(t testing.TB, o Options) *DB {
	t.Helper()
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testToken(name string) access.Token {
	return access.Token{
		Name: name, Accessor: "acc-" + name, Digest: access.DigestOf(name), Scope: access.Write,
		Allow: []string{"show bgp"}, Deny: []string{"request"}, Created: now, Expires: now.Add(time.Hour),
	}
}

// addRevision keeps r as the next revision and returns its number.
func addRevision(ctx context.Context, db *DB, r config.Revision) (uint64, error) {
	last, err := db.LatestRevision(ctx)
	if err != nil && !errors.Is(err, config.ErrNoRevision) {
		return 0, err
	}
	r = config.NewRevision(last.Number, now, r.Who, r.How, r.Comment, r.Text)
	return r.Number, db.CommitRevision(ctx, config.Step{Revision: r})
}

func TestTokensRoundTrip(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	forever := testToken("a")
	forever.Expires, forever.Allow, forever.Deny = time.Time{}, nil, nil
	want := []access.Token{forever, testToken("b"), testToken("c")}
	for _, i := range []int{2, 0, 1} {
		check(t, db.CreateToken(ctx, want[i]))
	}
	got, err := db.Tokens(ctx)
	check(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tokens:\n got %+v\nwant %+v", got, want)
	}
	one, err := db.TokenByDigest(ctx, want[1].Digest)
	check(t, err)
	if !reflect.DeepEqual(one, want[1]) {
		t.Errorf("token by digest: %+v", one)
	}
	same := testToken("b")
	same.Digest = access.DigestOf("other")
	if err := db.CreateToken(ctx, same); !errors.Is(err, access.ErrTokenExists) {
		t.Errorf("second token b: %v", err)
	}
	check(t, revoke(ctx, db, "b"))
	if _, err := db.TokenByDigest(ctx, want[1].Digest); !errors.Is(err, access.ErrNoToken) {
		t.Errorf("revoked token: %v", err)
	}
	if err := revoke(ctx, db, "b"); !errors.Is(err, access.ErrNoToken) {
		t.Errorf("second delete: %v", err)
	}
	check(t, db.CreateToken(ctx, testToken("b")))
}

func TestNamesAreChecked(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	long := string(make([]byte, 300))
	for _, name := range []string{"", "a\nb", "a\xff", long} {
		if err := db.CreateToken(ctx, access.Token{Name: name}); !errors.Is(err, ErrInvalid) {
			t.Errorf("token %q: %v", name, err)
		}
		if _, err := db.PutBlob(ctx, name, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("blob %q: %v", name, err)
		}
	}
}

func TestRevisions(t *testing.T) {
	ctx, o := t.Context(), options(privateDir(t))
	db := openTest(t, o)
	if _, err := db.LatestRevision(ctx); !errors.Is(err, config.ErrNoRevision) {
		t.Errorf("latest of none: %v", err)
	}
	for i, text := range []string{"bgp { }", "", "environment { }"} {
		n, err := addRevision(ctx, db, config.Revision{Who: "alice", How: "cli", Comment: text, Text: []byte(text)})
		check(t, err)
		if n != uint64(i+1) {
			t.Fatalf("revision %d has number %d", i+1, n)
		}
	}
	check(t, db.Close())
	db = openTest(t, o)
	latest, err := db.LatestRevision(ctx)
	check(t, err)
	want := config.Revision{Number: 3, Time: now, Who: "alice", How: "cli", Comment: "environment { }",
		Digest: "dec8661f9b4514464bb0de06f481d61de54359c7687e7d04ee6957e51fc24a90", Text: []byte("environment { }")}
	if !reflect.DeepEqual(latest, want) {
		t.Errorf("latest: %+v", latest)
	}
	first, err := db.Revision(ctx, 1)
	check(t, err)
	if string(first.Text) != "bgp { }" || first.Digest == latest.Digest {
		t.Errorf("first: %+v", first)
	}
	if _, err := db.Revision(ctx, 4); !errors.Is(err, config.ErrNoRevision) {
		t.Errorf("revision 4: %v", err)
	}
	all, err := db.Revisions(ctx)
	check(t, err)
	if len(all) != 3 || all[2].Text != nil || all[2].Number != 3 {
		t.Errorf("list: %+v", all)
	}
	if _, err := addRevision(ctx, db, config.Revision{Text: make([]byte, MaxRevisionSize+1)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
}

func TestBlobs(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	big := slices.Repeat([]byte("0123456789abcdef"), MaxBlobSize/16)
	for name, data := range map[string][]byte{"b": []byte("same"), "a": []byte("same"), "empty": {}, "big": big} {
		blob, err := db.PutBlob(ctx, name, data)
		check(t, err)
		if blob.Name != name || blob.Size != len(data) || !blob.Modified.Equal(now) {
			t.Errorf("put: %+v", blob)
		}
	}
	for name, want := range map[string]string{"a": "same", "b": "same", "empty": "", "big": string(big)} {
		data, blob, err := db.Blob(ctx, name)
		check(t, err)
		if string(data) != want || blob.Name != name {
			t.Errorf("blob %s: %d bytes, %+v", name, len(data), blob)
		}
	}
	if n := recordsIn(t, db, bucketBlobData); n != 3 {
		t.Errorf("%d copies for three different contents", n)
	}
	for _, data := range []string{"third", "other"} {
		_, err := db.PutBlob(ctx, "a", []byte(data))
		check(t, err)
	}
	if n := recordsIn(t, db, bucketBlobData); n != 4 {
		t.Errorf("%d copies for four different contents", n)
	}
	check(t, db.DeleteBlob(ctx, "big"))
	if data, _, err := db.Blob(ctx, "b"); err != nil || string(data) != "same" {
		t.Errorf("b after a was changed: %q, %v", data, err)
	}
	check(t, db.DeleteBlob(ctx, "b"))
	if n := recordsIn(t, db, bucketBlobData); n != 2 {
		t.Errorf("%d copies for two different contents", n)
	}
	if _, _, err := db.Blob(ctx, "b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted blob: %v", err)
	}
	if err := db.DeleteBlob(ctx, "b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	all, err := db.Blobs(ctx)
	check(t, err)
	if len(all) != 2 || all[0].Name != "a" || all[1].Name != "empty" {
		t.Errorf("list: %+v", all)
	}
	if _, err := db.PutBlob(ctx, "x", make([]byte, MaxBlobSize+1)); !errors.Is(err, ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
}

func recordsIn(t testing.TB, db *DB, bucket string) (n uint64) {
	t.Helper()
	check(t, db.view(t.Context(), func(tx *bolt.Tx) error {
		c, err := count(tx, bucket)
		n = c.count
		return err
	}))
	return n
}

func TestMetaSurvives(t *testing.T) {
	o := options(privateDir(t))
	check(t, openTest(t, o).Close())
	o.Instance = "another" // only for a new database
	m, err := openTest(t, o).Meta(t.Context())
	check(t, err)
	if want := (Meta{Instance: "test", Created: now, Schema: 1}); m != want {
		t.Errorf("meta: %+v", m)
	}
}

func TestContextEndsWaitForWriter(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	ctx, cancel := context.WithCancel(t.Context())
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- db.update(t.Context(), func(*bolt.Tx) error { close(entered); <-leave; return nil })
	}()
	<-entered
	cancel()
	if err := revoke(ctx, db, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("blocked write: %v", err)
	}
	close(leave)
	check(t, <-done)
}

func TestClosedStoreAnswersWithErrors(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	check(t, db.Close())
	if _, err := db.Tokens(t.Context()); err == nil {
		t.Error("read of a closed store succeeded")
	}
	if err := db.CreateToken(t.Context(), testToken("a")); err == nil {
		t.Error("write to a closed store succeeded")
	}
}

func BenchmarkTokenByDigest(b *testing.B) {
	db := openTest(b, options(privateDir(b)))
	for i := range 100 {
		check(b, db.CreateToken(b.Context(), testToken("token"+string(rune('a'+i/26))+string(rune('a'+i%26)))))
	}
	digest := access.DigestOf("tokenaa")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.TokenByDigest(b.Context(), digest); err != nil {
			b.Fatal(err)
		}
	}
}
