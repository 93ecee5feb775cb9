package hostfx

import (
	"os"
	"strconv"
)

// nameOf is the kernel's name for an open directory.
func nameOf(f *os.File) (name string, err error) {
	err = control(f, func(fd int) error {
		name, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		return err
	})
	return name, err
}
