//go:build linux && !amd64 && !arm64

package hostfx

import "golang.org/x/sys/unix"

// filterProgram is nil on processors that it was not written for.
func filterProgram(bool) []unix.SockFilter { return nil }
