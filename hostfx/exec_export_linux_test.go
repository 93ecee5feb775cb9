package hostfx

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Limits of commands.
const (
	MaxArgv      = maxArgv
	MaxExecFiles = maxExecFiles
)

// RefusedCalls are the system calls that commands do not have, whatever the arguments.
func RefusedCalls() []uint32 {
	return append(slices.Concat(refusedCalls, networkCalls), unix.SYS_SOCKET)
}

// NewestCall is the last one that was looked at.
const NewestCall = newestCall
