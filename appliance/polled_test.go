//go:build !race

package appliance_test

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// polled is a connection that is never waited for.
type polled struct {
	fd   int
	head []byte // of the answer, as far as it has come
	rest int    // octets of the body still to come; -1 while the head is not complete
	buf  [64 << 10]byte
}

func dialPolled(t *testing.T, addr string) *polled {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f, err := conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &polled{fd: fd}
}

func (p *polled) send(t *testing.T, request []byte) {
	if n, err := unix.Write(p.fd, request); err != nil || n != len(request) {
		t.Fatalf("send %d octets: %d, %v", len(request), n, err)
	}
	p.head, p.rest = p.head[:0], -1
}

// answered takes what has come and reports whether that completes the answer.
func (p *polled) answered(t *testing.T) bool {
	n, err := unix.Read(p.fd, p.buf[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false
	case err != nil || n == 0:
		t.Fatalf("the server hangs up: %v", err)
	case p.rest >= 0:
		p.rest -= n
		return p.rest == 0
	}
	p.head = append(p.head, p.buf[:n]...)
	head, body, ok := bytes.Cut(p.head, []byte("\r\n\r\n"))
	if !ok {
		return false
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		t.Fatalf("the server answers %s", head)
	}
	_, length, _ := bytes.Cut(head, []byte("\r\nContent-Length: "))
	length, _, _ = bytes.Cut(length, []byte("\r\n"))
	size, err := strconv.Atoi(string(length))
	if err != nil {
		t.Fatal(err)
	}
	p.rest = size - len(body)
	return p.rest == 0
}
