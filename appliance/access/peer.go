package access

import (
	"fmt"
	"net"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PeerPrincipal returns the local user at the other end of a unix socket, as
// the kernel saw them when they connected (SO_PEERCRED, unix(7)). Who may open
// the socket is decided by its mode; who could is an administrator.
func PeerPrincipal(conn *net.UnixConn) (*Principal, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("read peer credentials: %w", err)
	}
	if credErr != nil {
		return nil, fmt.Errorf("read peer credentials: %w", credErr)
	}
	uid := strconv.FormatUint(uint64(cred.Uid), 10)
	name := "uid " + uid
	if u, err := user.LookupId(uid); err == nil {
		name = u.Username
	}
	return peer(name, uid), nil
}

func peer(name, uid string) *Principal {
	return &Principal{Name: name, Accessor: "uid:" + uid, Scope: Admin}
}

// peerOwner returns the local user called owner (see Principal.Owner); nil if
// that is no local user's.
func peerOwner(owner string) *Principal {
	name, uid, ok := strings.Cut(strings.TrimSuffix(owner, ")"), " (uid:")
	if !ok {
		return nil
	}
	if p := peer(name, uid); p.Owner() == owner {
		return p
	}
	return nil
}
