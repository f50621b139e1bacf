package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
)

// The form of a bbolt file (go.etcd.io/bbolt, internal/common: page.go, meta.go,
// bucket.go). All numbers are in the machine's byte order.
//
//	page:    id u64, flags u16, count u16, overflow u32, then count elements, then keys and values
//	meta:    magic u32, version u32, page size u32, flags u32, root bucket (16), freelist u64, pages u64, txid u64, FNV-1a u64
//	branch:  pos u32, key size u32, page u64       pos counts from the element itself
//	leaf:    flags u32, pos u32, key size u32, value size u32
//	bucket:  root page u64, sequence u64; root 0: one leaf page follows inline
const (
	pageHeader  = 16
	elementSize = 16
	bucketSize  = 16
	metaSize    = 64
	metaSum     = 56 // the checksum covers what is before it

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	noFreelist  = math.MaxUint64

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf element

	minPageSize = 1 << 10
	maxPageSize = 1 << 24
	maxDepth    = 64 // of the tree; bbolt's 4 KiB pages reach a dozen with 2^64 keys
)

var native = binary.NativeEndian

// checkPages proves that bbolt can read the file without leaving it: sizes,
// both meta pages, and every page that the tree refers to. Without that, bbolt
// turns an empty file into a new database, and a wrong length in a page into a
// memory fault in a goroutine where nothing can recover.
//
// A damaged meta page is refused although the other one would do: it may have
// been the newer one, and going back to the state before silently undoes an
// acknowledged change. fallback accepts that; the warning then says so. A crash
// does not bring this about: a meta page lies within one sector.
func checkPages(path string, fallback bool) (warning string, err error) {
	w, err := openWalker(path)
	if err != nil {
		return "", err
	}
	defer w.file.Close()
	meta, warning, err := w.metas(fallback)
	if err == nil {
		err = w.walk(meta)
	}
	return warning, pagesError(path, err)
}

func openWalker(path string) (*walker, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, systemError(path, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, systemError(path, err)
	}
	return &walker{file: f, size: uint64(info.Size())}, nil
}

// pagesError is what an error of a walker means for the file.
func pagesError(path string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case pageError:
		return damaged(path, string(e))
	case *Error:
		e.Path = path
		switch e.Kind {
		case ErrTooNew:
			e.Next = nextTooNew(path, schemaVersion)
		case ErrDamaged:
			e.Next = nextFallback(path)
		}
		return e
	default:
		return systemError(path, err)
	}
}

// pageError says what is wrong with the file's structure.
type pageError string

func (e pageError) Error() string { return string(e) }

func wrong(format string, args ...any) error { return pageError(fmt.Sprintf(format, args...)) }

// walker visits every page of a file.
type walker struct {
	file    *os.File
	size    uint64 // of the file
	meta    metaPage
	seen    []uint64 // a bit for each page that is used
	buffers [][]byte // one for each level of the tree: keys of the levels above stay in use
}

// walk visits everything that m refers to.
func (w *walker) walk(m metaPage) error {
	w.meta, w.seen = m, make([]uint64, (m.pages+63)/64)
	if err := w.use(0, 1); err != nil {
		return err
	}
	if err := w.tree(m.root, 0, nil, nil); err != nil {
		return err
	}
	if m.freelist == noFreelist {
		return nil
	}
	return w.freelist(m.freelist)
}

// use marks pages id to id+overflow; each may be used once.
func (w *walker) use(id, overflow uint64) error {
	if id >= w.meta.pages || overflow >= w.meta.pages-id {
		return wrong("page %d (and %d after it) is outside the file's %d pages", id, overflow, w.meta.pages)
	}
	for i := id; i <= id+overflow; i++ {
		if w.seen[i/64]&(1<<(i%64)) != 0 {
			return wrong("page %d is used twice", i)
		}
		w.seen[i/64] |= 1 << (i % 64)
	}
	return nil
}

// read returns page id with its overflow pages, valid until the next read at
// this depth.
func (w *walker) read(id uint64, depth int) ([]byte, error) {
	if depth >= maxDepth {
		return nil, wrong("page %d is %d levels deep", id, depth)
	}
	if id >= w.meta.pages {
		return nil, wrong("page %d is outside the file's %d pages", id, w.meta.pages)
	}
	for depth >= len(w.buffers) {
		w.buffers = append(w.buffers, make([]byte, w.meta.pageSize))
	}
	b := w.buffers[depth][:w.meta.pageSize]
	if _, err := w.file.ReadAt(b, int64(id*w.meta.pageSize)); err != nil {
		return nil, readError(err)
	}
	overflow := uint64(native.Uint32(b[12:]))
	if self := native.Uint64(b); self != id {
		return nil, wrong("page %d says it is page %d", id, self)
	}
	if err := w.use(id, overflow); err != nil {
		return nil, err
	}
	if overflow == 0 {
		return b, nil
	}
	size := (overflow + 1) * w.meta.pageSize
	if uint64(cap(b)) < size {
		b = make([]byte, size)
		w.buffers[depth] = b
	}
	b = b[:size]
	if _, err := w.file.ReadAt(b, int64(id*w.meta.pageSize)); err != nil {
		return nil, readError(err)
	}
	return b, nil
}

// readError: the size was checked before, so an early end means that somebody
// else is changing the file.
func readError(err error) error {
	if err == io.EOF {
		return wrong("the file became shorter while it was read")
	}
	return err
}

// tree visits page id and what is below. All its keys lie in [low, high); nil
// means no bound.
func (w *walker) tree(id uint64, depth int, low, high []byte) error {
	b, err := w.read(id, depth)
	if err != nil {
		return err
	}
	switch flags := native.Uint16(b[8:]); flags {
	case flagLeaf:
		return w.leaf(b, id, depth, low, high)
	case flagBranch:
		return w.branch(b, id, depth, low, high)
	default:
		return wrong("page %d is no part of a tree (flags %#x)", id, flags)
	}
}

func (w *walker) branch(b []byte, id uint64, depth int, low, high []byte) error {
	count := int(native.Uint16(b[10:]))
	if count == 0 {
		return wrong("page %d is a branch without children", id)
	}
	key := func(i int) ([]byte, error) {
		e := pageHeader + i*elementSize
		if e+elementSize > len(b) {
			return nil, wrong("page %d: %d elements do not fit", id, count)
		}
		k, _, err := cut(b, e, native.Uint32(b[e:]), native.Uint32(b[e+4:]), 0)
		if err != nil {
			return nil, wrong("page %d, element %d: %v", id, i, err)
		}
		return k, nil
	}
	k, err := key(0)
	if err != nil {
		return err
	}
	for i := range count {
		if err := inOrder(id, i, k, low, high); err != nil {
			return err
		}
		next := high
		if i+1 < count {
			if next, err = key(i + 1); err != nil {
				return err
			}
			if bytes.Compare(k, next) >= 0 {
				return wrong("page %d: keys %d and %d are not in order", id, i, i+1)
			}
		}
		if err := w.tree(native.Uint64(b[pageHeader+i*elementSize+8:]), depth+1, k, next); err != nil {
			return err
		}
		low, k = k, next
	}
	return nil
}

// leaf visits a leaf page: one of the file's, or one inside a bucket's value.
func (w *walker) leaf(b []byte, id uint64, depth int, low, high []byte) error {
	count := int(native.Uint16(b[10:]))
	if pageHeader+count*elementSize > len(b) {
		return wrong("page %d: %d elements do not fit", id, count)
	}
	for i := range count {
		e := pageHeader + i*elementSize
		k, v, err := cut(b, e, native.Uint32(b[e+4:]), native.Uint32(b[e+8:]), native.Uint32(b[e+12:]))
		if err != nil {
			return wrong("page %d, element %d: %v", id, i, err)
		}
		if err := inOrder(id, i, k, low, high); err != nil {
			return err
		}
		if i > 0 && bytes.Equal(k, low) {
			return wrong("page %d: key %d is there twice", id, i)
		}
		low = k
		switch flags := native.Uint32(b[e:]); flags {
		case 0:
		case flagBucket:
			if err := w.bucket(v, id, depth); err != nil {
				if e, ok := err.(pageError); ok {
					err = wrong("bucket %s: %s", k, string(e))
				}
				return err
			}
		default:
			return wrong("page %d, element %d: flags %#x", id, i, flags)
		}
	}
	return nil
}

func (w *walker) bucket(v []byte, id uint64, depth int) error {
	if len(v) < bucketSize {
		return wrong("page %d: a bucket of %d bytes", id, len(v))
	}
	if root := native.Uint64(v); root != 0 {
		return w.tree(root, depth+1, nil, nil)
	}
	inline := v[bucketSize:]
	if len(inline) < pageHeader || native.Uint16(inline[8:]) != flagLeaf || depth+1 >= maxDepth {
		return wrong("page %d: an inline bucket that is no leaf", id)
	}
	return w.leaf(inline, id, depth+1, nil, nil)
}

// cut returns key and value of the element at offset e of page b.
func cut(b []byte, e int, pos, ksize, vsize uint32) (k, v []byte, err error) {
	start := uint64(e) + uint64(pos)
	end := start + uint64(ksize) + uint64(vsize)
	if ksize == 0 || pos < elementSize || end > uint64(len(b)) {
		return nil, nil, wrong("key of %d and value of %d bytes at %d do not fit in %d", ksize, vsize, start, len(b))
	}
	return b[start : start+uint64(ksize)], b[start+uint64(ksize) : end], nil
}

func inOrder(id uint64, i int, k, low, high []byte) error {
	if low != nil && bytes.Compare(k, low) < 0 || high != nil && bytes.Compare(k, high) >= 0 {
		return wrong("page %d: key %d is not in order", id, i)
	}
	return nil
}

// freelist visits a list of free pages. Ours is never written, but a file that
// went through bbolt's own tools has one.
func (w *walker) freelist(id uint64) error {
	b, err := w.read(id, 0)
	if err != nil {
		return err
	}
	if flags := native.Uint16(b[8:]); flags != flagFreelist {
		return wrong("page %d is no list of free pages (flags %#x)", id, flags)
	}
	ids, count := b[pageHeader:], uint64(native.Uint16(b[10:]))
	if count == math.MaxUint16 { // too many for the header: the first entry is the count
		count, ids = native.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return wrong("page %d: %d free pages do not fit", id, count)
	}
	for i := range count {
		if err := w.use(native.Uint64(ids[i*8:]), 0); err != nil {
			return wrong("free pages: %v", err)
		}
	}
	return nil
}
