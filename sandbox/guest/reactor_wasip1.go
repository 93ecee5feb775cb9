//go:build !callgate_command

package guest

import "os"

// callgateCall is what the host calls of a reactor.
//
//go:wasmexport callgate_call
func callgateCall() uint32 { return serve(handle, os.Stdin, os.Stdout, os.Stderr) }
