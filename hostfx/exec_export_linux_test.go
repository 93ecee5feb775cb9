package hostfx

// Limits of commands.
const (
	MaxArgv      = maxArgv
	MaxExecFiles = maxExecFiles
)

// RefusedCalls are the system calls that commands do not have, whatever the arguments.
func RefusedCalls() []uint32 { return refusedCalls }

// NewestCall is the last one that was looked at.
const NewestCall = newestCall
