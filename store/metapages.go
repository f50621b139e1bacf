package store

import (
	"fmt"
	"hash/fnv"
)

// metaPage is what a meta page says: the state after one commit. There are two,
// written in turn; the one with the higher transaction number counts.
type metaPage struct {
	pageSize, root, freelist, pages, txid uint64
}

// metas reads both meta pages and returns the one bbolt will use.
func (w *walker) metas(fallback bool) (metaPage, string, error) {
	if w.size == 0 {
		return metaPage{}, "", wrong("the file is empty")
	}
	first, err0 := w.readMeta(0)
	if isReadError(err0) {
		return metaPage{}, "", err0
	}
	var second metaPage
	err1 := wrong("not found")
	if err0 == nil {
		second, err1 = w.readMeta(first.pageSize)
	} else {
		// The page size is in the page that cannot be read.
		for size := uint64(minPageSize); size <= maxPageSize && err1 != nil; size *= 2 {
			if second, err1 = w.readMeta(size); err1 == nil && second.pageSize != size {
				err1 = wrong("found at a place that is not its own")
			}
		}
	}
	if isReadError(err1) {
		return metaPage{}, "", err1
	}
	switch {
	case err0 == nil && err1 == nil:
		if second.txid > first.txid {
			first = second
		}
		return first, "", nil
	case err0 != nil && err1 != nil:
		return metaPage{}, "", bothRefused(err0, err1)
	}
	survivor, page, bad := first, 1, err1
	if err0 != nil {
		survivor, page, bad = second, 0, err0
	}
	detail := fmt.Sprintf("meta page %d: %v; the other one describes the state after commit %d, one before the last or the last", page, bad, survivor.txid)
	if !fallback {
		return metaPage{}, "", &Error{Kind: ErrDamaged, Detail: detail}
	}
	return survivor, "using a database with a damaged meta page: the last change may be lost: " + detail, nil
}

// bothRefused picks the error to show when neither meta page can be used: a
// newer file is not a damaged one.
func bothRefused(err0, err1 error) error {
	for _, err := range []error{err0, err1} {
		if e, ok := err.(*Error); ok {
			return e
		}
	}
	return wrong("both meta pages are unusable: %v", err0)
}

func isReadError(err error) bool {
	switch err.(type) {
	case nil, pageError, *Error:
		return false
	}
	return true
}

func (w *walker) readMeta(offset uint64) (metaPage, error) {
	if offset+pageHeader+metaSize > w.size {
		return metaPage{}, wrong("the file ends before it")
	}
	var buf [pageHeader + metaSize]byte
	if _, err := w.file.ReadAt(buf[:], int64(offset)); err != nil {
		return metaPage{}, err
	}
	b := buf[pageHeader:]
	if native.Uint32(b) != metaMagic {
		return metaPage{}, wrong("not a bbolt file, or overwritten")
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSum])
	if sum.Sum64() != native.Uint64(b[metaSum:]) {
		return metaPage{}, wrong("its checksum is wrong")
	}
	if v := native.Uint32(b[4:]); v != metaVersion {
		return metaPage{}, &Error{Kind: ErrTooNew, Detail: fmt.Sprintf("bbolt file version %d, this version knows %d", v, metaVersion)}
	}
	m := metaPage{
		pageSize: uint64(native.Uint32(b[8:])),
		root:     native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]),
		pages:    native.Uint64(b[40:]),
		txid:     native.Uint64(b[48:]),
	}
	switch {
	case m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
		return m, wrong("page size %d", m.pageSize)
	case m.pages < 3 || m.pages > w.size/m.pageSize:
		return m, wrong("it needs %d pages of %d bytes and the file has %d bytes: truncated", m.pages, m.pageSize, w.size)
	}
	return m, nil
}
