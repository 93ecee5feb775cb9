//go:build unix

package sandbox

import "golang.org/x/sys/unix"

// reserve takes address space that cannot be touched yet.
func reserve(n uint64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	return unix.Mmap(-1, 0, int(n), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// commit makes the first n bytes usable. They are zero.
func commit(space []byte, n uint64) error {
	if n == 0 {
		return nil
	}
	return unix.Mprotect(space[:n], unix.PROT_READ|unix.PROT_WRITE)
}

func release(space []byte) { _ = unix.Munmap(space) }
