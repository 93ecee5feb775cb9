package local

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// socketName is the owner's socket in the data directory.
const socketName = "callgate.sock"

// maxSocketPath is the longest path that every system takes for a socket: the
// BSDs have 104 bytes, the last of them zero.
const maxSocketPath = 103

// listen makes the owner's socket. The caller holds the lock, so a socket that is
// there already belongs to an owner that was killed.
func listen(data string) (*net.UnixListener, error) {
	name := filepath.Join(data, socketName)
	if err := removeSocket(name); err != nil {
		return nil, err
	}
	addr, done, err := socketAddr(data)
	if err != nil {
		return nil, err
	}
	defer done()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: addr, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, errnoOf(err))
	}
	ln.SetUnlinkOnClose(false) // not by that name, and only while the lock is held
	// Nobody gets in before: the owner looks at each peer's uid too.
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// removeSocket removes a socket that nobody listens on. Anything else of that
// name is not ours.
func removeSocket(name string) error {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		err = fmt.Errorf("%s: is not a socket", name)
	}
	if err != nil {
		return err
	}
	return os.Remove(name)
}

// socketAddr is a name of the owner's socket that is short enough, good until
// done is called. Longer directories are reached through a link, in a directory
// that nobody else can write to.
func socketAddr(data string) (addr string, done func(), err error) {
	if data, err = filepath.Abs(data); err != nil {
		return "", nil, err
	}
	if addr = filepath.Join(data, socketName); len(addr) <= maxSocketPath {
		return addr, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "callgate-") // mode 0700
	if err != nil {
		return "", nil, fmt.Errorf("%s is too long for a socket, and there is no shorter way to it: %w", data, err)
	}
	link := filepath.Join(dir, "d")
	done = func() {
		// At worst a link and its directory stay behind.
		_ = os.Remove(link)
		_ = os.Remove(dir)
	}
	addr = filepath.Join(link, socketName)
	err = os.Symlink(data, link)
	if err == nil && len(addr) > maxSocketPath {
		err = fmt.Errorf("%s is too long for a socket, and so is %s", data, addr)
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return addr, done, nil
}
