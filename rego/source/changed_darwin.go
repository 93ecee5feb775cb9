package source

import (
	"io/fs"
	"syscall"
)

// changed is when the file last became another one, which `cp -p` does not hide.
func changed(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ctimespec.Nano()
	}
	return 0
}
