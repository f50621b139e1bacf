package access

import (
	"io"
	"net/http"
	"time"
)

// endReadDeadline lifts the deadline for reading a request once the request has
// been read. net/http leaves it set, and when it passes takes a client that is
// silently waiting for its answer for one that has gone: every answer that takes
// longer would be cancelled.
func endReadDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lift := func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
		if r.Body == http.NoBody {
			lift()
		} else {
			r.Body = &body{r.Body, lift}
		}
		next.ServeHTTP(w, r)
	})
}

// body calls end when all of it has been read.
type body struct {
	io.ReadCloser
	end func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.end()
	}
	return n, err
}
