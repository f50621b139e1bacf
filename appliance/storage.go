package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/store"
)

// storage looks after an open database for the commands.
type storage struct {
	db      *store.DB
	dir     string                 // of the database
	private func(file string) bool // see Options
}

// Check implements builtin.Store.
func (s storage) Check(ctx context.Context) (builtin.StoreReport, error) {
	r, err := s.db.Check(ctx)
	return reportView(r), storeError(err, "")
}

// VerifyAudit implements builtin.Store.
func (s storage) VerifyAudit(ctx context.Context) (records, head uint64, err error) {
	records, err = s.db.VerifyAudit(ctx)
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		return 0, 0, &command.Error{Code: command.Damaged, Message: broken.Error(), Err: err,
			Actions: []string{"store check", "keep this database aside as evidence, and compare with the last backup: store dump audit"}}
	}
	if err != nil {
		return 0, 0, err
	}
	h, err := s.db.AuditHead(ctx)
	return records, h.Seq, err
}

// Stats implements builtin.Store.
func (s storage) Stats(ctx context.Context) (builtin.StoreStats, error) {
	st, err := s.db.Stats(ctx)
	v := builtin.StoreStats{Path: st.Path, Schema: st.Schema, Instance: st.Instance, Created: st.Created.UTC(), Size: st.Size, Free: st.Free}
	for _, k := range st.Kinds {
		v.Kinds = append(v.Kinds, builtin.StoreKind{Name: k.Kind, Records: k.Records})
	}
	return v, err
}

// Dump implements builtin.Store.
func (s storage) Dump(ctx context.Context, kind string, offset, count int) ([]builtin.StoreRecord, error) {
	records, err := s.db.Dump(ctx, kind, offset, count)
	views := make([]builtin.StoreRecord, len(records))
	for i, r := range records {
		views[i] = builtin.StoreRecord(r)
	}
	return views, err
}

// Backup implements builtin.Store.
func (s storage) Backup(ctx context.Context, file string, force bool) (builtin.StoreReport, error) {
	elsewhere := "name a file in " + s.dir + ", as " + filepath.Join(s.dir, "backup.db") + "; from there it can be copied"
	if s.private(file) {
		return builtin.StoreReport{}, &command.Error{Code: command.Invalid, Field: "file", Actions: []string{elsewhere},
			Message: fmt.Sprintf("nobody but the daemon's service would see %s: its %s is one of its own, and ends with it", file, filepath.Dir(file))}
	}
	r, err := s.db.Backup(ctx, file, force)
	err = storeError(err, "file")
	var refused *command.Error
	// A service may write in few places, and not even see some.
	if errors.As(err, &refused) && (errors.Is(err, store.ErrAccess) || errors.Is(err, store.ErrInvalid)) && filepath.Dir(file) != s.dir {
		refused.Actions = append(refused.Actions, elsewhere)
	}
	return reportView(r), err
}

// Restore implements builtin.Store: not under the daemon's feet.
func (s storage) Restore(_ context.Context, file string, _ bool) (builtin.StoreReport, string, error) {
	return builtin.StoreReport{}, "", &command.Error{Code: command.Conflict, Message: "the daemon is using the database",
		Actions: []string{"stop the daemon, as with: systemctl stop ze.socket ze", "then run, as the same user: ze store restore " + file}}
}

// Compact implements builtin.Store.
func (s storage) Compact(ctx context.Context) (before, after int64, err error) {
	c, err := s.db.Compact(ctx)
	return c.Before, c.After, storeError(err, "")
}

// Blobs implements builtin.Blobs.
func (s storage) Blobs(ctx context.Context) ([]builtin.Blob, error) {
	blobs, err := s.db.Blobs(ctx)
	views := make([]builtin.Blob, len(blobs))
	for i, b := range blobs {
		views[i] = builtin.Blob(b)
	}
	return views, err
}

// Blob implements builtin.Blobs.
func (s storage) Blob(ctx context.Context, name string) ([]byte, builtin.Blob, error) {
	data, b, err := s.db.Blob(ctx, name)
	return data, builtin.Blob(b), blobError(err)
}

// PutBlob implements builtin.Blobs.
func (s storage) PutBlob(ctx context.Context, name string, data []byte) (builtin.Blob, error) {
	b, err := s.db.PutBlob(ctx, name, data)
	return builtin.Blob(b), storeError(err, "content")
}

// DeleteBlob implements builtin.Blobs.
func (s storage) DeleteBlob(ctx context.Context, name string) error {
	return blobError(s.db.DeleteBlob(ctx, name))
}

func blobError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &command.Error{Code: command.NotFound, Field: "name", Message: err.Error(), Actions: []string{"blob ls"}, Err: err}
	}
	return storeError(err, "name")
}

// storeError tells the caller of a command about the store itself, or with its
// files, what the store says; with what is wrong about field.
func storeError(err error, field string) error {
	var whole *store.Error
	switch {
	case errors.As(err, &whole):
		e := &command.Error{Code: command.Unavailable, Message: strings.TrimSuffix(err.Error(), "; "+whole.Next), Actions: []string{whole.Next}, Err: err}
		switch whole.Kind {
		case store.ErrDamaged, store.ErrTooNew:
			e.Code = command.Damaged
		case store.ErrExists:
			e.Code = command.Conflict
		case store.ErrMissing:
			e.Code = command.NotFound
		}
		return e
	case errors.Is(err, store.ErrInvalid):
		return &command.Error{Code: command.Invalid, Field: field, Message: err.Error(), Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return &command.Error{Code: command.NotFound, Field: field, Message: err.Error(), Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &command.Error{Code: command.Forbidden, Field: field, Message: err.Error(), Err: err}
	case errors.Is(err, store.ErrBadRecord):
		return &command.Error{Code: command.Damaged, Message: err.Error(), Actions: []string{"store check"}, Err: err}
	}
	return err
}

func reportView(r store.Report) builtin.StoreReport {
	v := builtin.StoreReport{Path: r.Path, Schema: r.Schema, Size: r.Size, Records: r.Records, AuditHead: r.Head.Seq, Omitted: r.Omitted}
	var mend []string
	fatal := false
	for _, p := range r.Problems {
		v.Problems = append(v.Problems, problemLine(p))
		fatal = fatal || p.Fatal
		if p.Next != "" && !slices.Contains(mend, p.Next) {
			mend = append(mend, p.Next)
		}
	}
	restore := "put a backup in its place: " + store.CommandFor(filepath.Dir(r.Path), "store restore BACKUP")
	switch {
	case fatal:
		v.Repair = []string{restore}
	case len(r.Problems) > 0:
		v.Repair = append(mend, "or "+restore)
	}
	return v
}

func problemLine(p store.Problem) string {
	switch {
	case p.Bucket == "":
		return p.Reason
	case p.Key == "":
		return fmt.Sprintf("bucket %s: %s", p.Bucket, p.Reason)
	}
	return fmt.Sprintf("bucket %s, key %q: %s", p.Bucket, p.Key, p.Reason)
}
