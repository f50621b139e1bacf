package mcp

import "sync"

// budget bounds the octets of large bodies that are being read and answered.
// One caller has no more than a share of it: others can go on.
type budget struct {
	total, share int64

	mu   sync.Mutex
	held int64
	by   map[string]int64 // owner → held
}

// take takes size out of what owner may hold, and reports whether there was
// room. give gives it back, once.
func (b *budget) take(owner string, size int64) (give func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+size > b.total || b.by[owner]+size > b.share {
		return nil, false
	}
	if b.by == nil {
		b.by = make(map[string]int64)
	}
	b.held += size
	b.by[owner] += size
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.held -= size
		if b.by[owner] -= size; b.by[owner] == 0 {
			delete(b.by, owner)
		}
	}), true
}
