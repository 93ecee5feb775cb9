package local

import (
	"fmt"
	"net"
	"os"

	"github.com/callgate/callgate/engine/call"
)

// Asserted is how an owner knows whomever another process of this user names: by
// the word of that process, whose uid the kernel vouches for. Give it to the
// principals of calls that this process makes itself, and they are recorded in
// the same way.
func Asserted() call.Auth { return assertedBy(os.Geteuid()) }

// User is the user that this process runs as, as the kernel vouches for it. An
// owner knows it across the socket as well.
func User() call.Principal { return userOf(os.Geteuid()) }

func assertedBy(uid int) call.Auth { return call.Auth{Method: "asserted", Issuer: uidName(uid)} }

func userOf(uid int) call.Principal {
	return call.Principal{ID: uidName(uid), Kind: "user", Auth: call.Auth{Method: "uid"}}
}

func uidName(uid int) string { return fmt.Sprintf("uid:%d", uid) }

// mayConnect reports whether an owner that runs as self serves that peer.
func mayConnect(peer, self int) bool { return peer == self || peer == 0 }

// peerUID is the user that the kernel says is at the other end.
func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { uid, inner = socketPeer(int(fd)) }); err != nil {
		return -1, err
	}
	return uid, inner
}
