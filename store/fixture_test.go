package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/config"
)

func verifyChain(t testing.TB, db *DB) {
	t.Helper()
	_, err := db.VerifyAudit(t.Context())
	check(t, err)
}

// fill puts something of every kind into a store: enough that there are branch
// pages, inline buckets, overflow pages and free pages.
func fill(t testing.TB, db *DB) {
	t.Helper()
	db.bolt.Load().NoSync = true // until it is closed, which is soon; a sync for each change takes seconds
	ctx := t.Context()
	for i := range 40 {
		check(t, db.CreateToken(ctx, testToken(fmt.Sprintf("token-%02d", i))))
	}
	for i := range 5 {
		check(t, revoke(ctx, db, fmt.Sprintf("token-%02d", i*7)))
	}
	var records []audit.Record
	for i := range 150 {
		records = append(records, audit.Record{
			Time: now, Phase: audit.Call, Principal: "alice", Surface: "cli",
			Command: "show version", Remote: fmt.Sprintf("127.0.0.1:%d", i), Outcome: "ok",
		})
	}
	check(t, db.AppendAudit(ctx, records))
	check(t, db.ReplaceAnnouncements(ctx, []bgp.Announcement{
		testAnnouncement("small", 3), testAnnouncement("large", 600), testAnnouncement("gone", 1),
	}, nil))
	check(t, db.ReplaceAnnouncements(ctx, nil, []string{"gone", "never there"}))
	for i := range 4 {
		_, err := addRevision(ctx, db, config.Revision{Who: "alice", How: "cli", Text: []byte(strings.Repeat(fmt.Sprintf("peer p%d { }\n", i), 200))})
		check(t, err)
		_, err = db.PutBlob(ctx, fmt.Sprintf("blob-%d", i), []byte(strings.Repeat("b", i*3000)))
		check(t, err)
	}
}

func testAnnouncement(id string, prefixes int) bgp.Announcement {
	a := bgp.Announcement{ID: id, Peers: []string{"north"}, Created: now, Principal: "alice",
		Attributes: bgp.Attributes{Origin: "igp", NextHop: netip.MustParseAddr("10.0.0.1"), Communities: []string{"64512:10"}}}
	for i := range prefixes {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		a.Prefixes = append(a.Prefixes, netip.PrefixFrom(addr, 32))
	}
	return a
}

// dump reads everything a store has to give, by kind and name, as JSON.
func dump(t testing.TB, db *DB) (map[string]string, error) {
	ctx, all := t.Context(), map[string]string{}
	add := func(kind, name string, v any) {
		b, err := json.Marshal(v)
		check(t, err)
		all[kind+" "+name] = string(b)
	}
	var errs []error
	meta, err := db.Meta(ctx)
	if errs = append(errs, err); err == nil {
		add("meta", "", meta)
	}
	tokens, err := db.Tokens(ctx)
	errs = append(errs, err)
	for _, v := range tokens {
		add("token", v.Name, v)
	}
	for i := range 40 {
		want := testToken(fmt.Sprintf("token-%02d", i))
		v, err := db.TokenByDigest(ctx, want.Digest)
		if err == nil {
			add("token", want.Name, v)
		}
	}
	announcements, err := db.Announcements(ctx)
	errs = append(errs, err)
	for _, v := range announcements {
		add("announcement", v.ID, v)
	}
	records, err := db.AuditRecords(ctx, 0, 10000)
	errs = append(errs, err)
	for _, v := range records {
		add("audit", fmt.Sprint(v.Seq), v)
	}
	head, err := db.AuditHead(ctx)
	if errs = append(errs, err); err == nil {
		add("head", "", head)
	}
	revisions, err := db.Revisions(ctx)
	errs = append(errs, err)
	for _, v := range revisions {
		add("revision", fmt.Sprint(v.Number), v)
	}
	for n := range uint64(5) {
		v, err := db.Revision(ctx, n)
		if err == nil {
			add("text", fmt.Sprint(n), string(v.Text))
		}
		if err != nil && !errors.Is(err, config.ErrNoRevision) {
			errs = append(errs, err)
		}
	}
	blobs, err := db.Blobs(ctx)
	errs = append(errs, err)
	for _, v := range blobs {
		add("blob", v.Name, v)
		data, _, err := db.Blob(ctx, v.Name)
		if errs = append(errs, err); err == nil {
			add("data", v.Name, string(data))
		}
	}
	return all, errors.Join(errs...)
}

// fixture is a filled, closed database: its bytes, the part of them in use, and
// its content.
type fixture struct {
	file    []byte
	used    int // bytes below the high-water mark
	root    int // a page in use: the root of the audit log
	content map[string]string
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	content, err := dump(t, db)
	check(t, err)
	var used, root int
	check(t, db.view(t.Context(), func(tx *bolt.Tx) error {
		used, root = int(tx.Size()), int(tx.Bucket([]byte(bucketAudit)).Root())
		return nil
	}))
	check(t, db.Close())
	file, err := os.ReadFile(filepath.Join(o.Dir, FileName))
	check(t, err)
	return fixture{file, used, root, content}
}

var update = flag.Bool("update", false, "write testdata/v1.db.gz anew")

// Every released form of the database opens, with all that is in it. The file
// is written once, by the version that introduced the form.
func TestOpensVersion1(t *testing.T) {
	path := filepath.Join("testdata", "v1.db.gz")
	if *update {
		f := newFixture(t)
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(f.file)
		check(t, err)
		check(t, z.Close())
		check(t, os.MkdirAll("testdata", 0o755))
		check(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	packed, err := os.Open(path)
	check(t, err)
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	check(t, err)
	file, err := io.ReadAll(z)
	check(t, err)
	db, _, err := openBytes(t, file)
	check(t, err)
	t.Cleanup(func() { db.Close() })
	got, err := dump(t, db)
	check(t, err)
	// The same content, made by this version.
	if diff := cmp.Diff(newFixture(t).content, got); diff != "" {
		t.Errorf("(-this version +version 1)\n%s", diff)
	}
	verifyChain(t, db)
}

func TestAnnouncementsRoundTrip(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	med := uint32(0)
	full := testAnnouncement("full", 2)
	full.Attributes.MED, full.Attributes.NextHopSelf, full.Attributes.ASPath = &med, true, []uint32{64512, 4200000000}
	full.TagKey, full.TagValue, full.Expires = "ticket", "4711", now.Add(time.Hour)
	later := testAnnouncement("a-later", 0)
	later.Created = now.Add(time.Minute)
	same := testAnnouncement("b-same-time", 1)
	check(t, db.ReplaceAnnouncements(ctx, []bgp.Announcement{later, full, same, testAnnouncement("old", 1)}, nil))
	full.Prefixes = full.Prefixes[:1]
	check(t, db.ReplaceAnnouncements(ctx, []bgp.Announcement{full}, []string{"old", "full", "unknown"}))
	got, err := db.Announcements(ctx)
	check(t, err)
	want := []bgp.Announcement{same, full, later}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("announcements:\n got %+v\nwant %+v", got, want)
	}
	bad := testAnnouncement("bad", 2)
	bad.Prefixes[1] = netip.Prefix{}
	if err := db.ReplaceAnnouncements(ctx, []bgp.Announcement{bad}, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("invalid prefix: %v", err)
	}
}

// A hundred thousand prefixes are one record, written in one step.
func TestManyPrefixes(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	want := testAnnouncement("large", 100_000)
	start := time.Now()
	check(t, db.ReplaceAnnouncements(ctx, []bgp.Announcement{want}, nil))
	written := time.Since(start)
	got, err := db.Announcements(ctx)
	check(t, err)
	t.Logf("written in %v, read in %v", written, time.Since(start)-written)
	if len(got) != 1 || len(got[0].Prefixes) != 100_000 || got[0].Prefixes[99_999] != want.Prefixes[99_999] {
		t.Errorf("%d announcements", len(got))
	}
	if limit := 2 * time.Second; time.Since(start) > limit {
		t.Errorf("took %v, limit %v", time.Since(start), limit)
	}
}

func TestAuditChain(t *testing.T) {
	ctx, o := t.Context(), options(privateDir(t))
	db := openTest(t, o)
	records := []audit.Record{{Command: "a"}, {Command: "b"}}
	check(t, db.AppendAudit(ctx, records))
	if records[0].Seq != 1 || records[1].Seq != 2 || records[1].Prev != records[0].Hash {
		t.Errorf("sealed: %+v", records)
	}
	check(t, db.AppendAudit(ctx, nil))
	check(t, db.Close())
	db = openTest(t, o)
	check(t, db.AppendAudit(ctx, []audit.Record{{Command: "c"}}))
	head, err := db.AuditHead(ctx)
	check(t, err)
	got, err := db.AuditRecords(ctx, 1, 1)
	check(t, err)
	if head.Seq != 3 || len(got) != 1 || got[0].Command != "b" || got[0] != records[1] {
		t.Errorf("head %+v, record 2 %+v", head, got)
	}
	verifyChain(t, db)
	// An end that is not the end: nothing is added to such a chain.
	check(t, db.update(ctx, func(tx *bolt.Tx) error {
		return putJSON(tx, bucketAuditHead, []byte(keyHead), audit.Head{Seq: 2, Hash: records[1].Hash})
	}))
	if err := db.AppendAudit(ctx, []audit.Record{{Command: "d"}}); !errors.Is(err, ErrDamaged) {
		t.Errorf("append to a chain with another end: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(db.Collectors()...)
	check(t, db.CreateToken(t.Context(), testToken("a")))
	_, err := addRevision(t.Context(), db, config.Revision{Text: []byte("x")})
	check(t, err)
	check(t, testutil.GatherAndCompare(registry, bytes.NewBufferString(`
# HELP ze_store_records Records kept.
# TYPE ze_store_records gauge
ze_store_records{kind="announcement"} 0
ze_store_records{kind="audit"} 0
ze_store_records{kind="blob"} 0
ze_store_records{kind="candidate"} 0
ze_store_records{kind="revision"} 1
ze_store_records{kind="task"} 0
ze_store_records{kind="token"} 1
`), "ze_store_records"))
	families, err := registry.Gather()
	check(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			values[f.GetName()] = m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				values[f.GetName()] = float64(h.GetSampleCount())
			}
		}
	}
	if values["ze_store_commit_duration_seconds"] != 2 || values["ze_store_size_bytes"] < 16<<10 || values["ze_store_free_bytes"] == 0 {
		t.Errorf("metrics: %v", values)
	}
}

func BenchmarkAppendAudit(b *testing.B) {
	db := openTest(b, options(privateDir(b)))
	for b.Loop() {
		check(b, db.AppendAudit(b.Context(), []audit.Record{{Time: now, Phase: audit.Begin, Principal: "alice", Command: "announce"}}))
	}
}
