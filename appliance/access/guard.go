package access

import (
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Guard stands in front of every HTTP surface. Listening on loopback keeps other
// machines out, but not the web pages in this machine's browser: they can send
// requests here, and by rebinding a name of theirs to 127.0.0.1 they can read
// the answers. The guard refuses what a browser sends on behalf of any page but
// our own, before anything is routed. Programs, which send neither Origin nor
// Sec-Fetch-Site, pass.
type Guard struct {
	Hosts   []string // host names beside localhost, 127.0.0.1 and [::1], without port: what a proxy in front is called
	MaxBody int64    // bytes of a request's body; default 4 MiB. Reading beyond fails with *http.MaxBytesError

	Names   func(host string) bool // says of other host names that they are this server's; may be nil
	Refused func(*http.Request)    // told of every request refused; may be nil
}

const defaultMaxBody = 4 << 20

// Wrap returns next behind the guard.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	limit := g.MaxBody
	if limit <= 0 {
		limit = defaultMaxBody
	}
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "[::1]": true}
	for _, h := range g.Hosts {
		hosts[strings.ToLower(h)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := g.refuse(r, hosts); refusal != "" {
			if g.Refused != nil {
				g.Refused(r)
			}
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(refusal + "\n"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		next.ServeHTTP(w, r)
	})
}

// refuse returns why a request may not pass, "" if it may.
func (g *Guard) refuse(r *http.Request, hosts map[string]bool) string {
	name, ok := hostName(r.Host)
	if ok && !hosts[strings.ToLower(name)] {
		ok = g.Names != nil && g.Names(name)
	}
	if !ok {
		return "the Host header is not this server's; use http://127.0.0.1 or http://localhost, or configure the name that a proxy uses"
	}
	if origins := r.Header["Origin"]; len(origins) > 0 && (len(origins) > 1 || !ownOrigin(origins[0], r.Host)) {
		return "requests from other web pages are refused; open this server's own page, or send no Origin header"
	}
	// Values other than these two are cross-site, same-site, or from the future
	// (W3C Fetch Metadata Request Headers, section 2.3).
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return "requests from other web pages are refused; type the address, or open this server's own page"
		}
	}
	return ""
}

// ownOrigin reports whether origin is a page of the very host and port the
// request was sent to. "null", which sandboxed frames and files send, is not.
func ownOrigin(origin, host string) bool {
	rest, ok := strings.CutPrefix(origin, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(origin, "https://")
	}
	return ok && strings.EqualFold(rest, host)
}

// hostName returns the name of a Host header, without its port; an IPv6 address
// stays in brackets.
func hostName(host string) (string, bool) {
	name, port := host, ""
	if strings.HasPrefix(host, "[") {
		i := strings.IndexByte(host, ']')
		if i < 0 {
			return "", false
		}
		name, port = host[:i+1], host[i+1:]
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		name, port = host[:i], host[i:]
	}
	if port == "" {
		return name, name != ""
	}
	_, err := strconv.ParseUint(port[1:], 10, 16)
	return name, port[0] == ':' && err == nil
}

// Server returns an HTTP server for h with the limits every surface has: 10 s
// for the header, 30 s for the whole request, 60 s idle, 16 KiB of header. There
// is no limit on an answer: it may be a stream. errorLog may be nil.
func Server(h http.Handler, errorLog *log.Logger) *http.Server {
	return &http.Server{
		Handler:           answering(h),
		ConnContext:       withConnection,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorLog,
	}
}
