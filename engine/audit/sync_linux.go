package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dataFile is a segment whose Sync leaves out the times of the file, which
// nobody reads and which would cost a second write.
type dataFile struct{ *os.File }

func (f dataFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
