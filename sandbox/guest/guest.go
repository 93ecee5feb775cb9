// Package guest is for writing tools in Go that run as WebAssembly guests of
// Callgate. docs/guest-abi.md is the interface it speaks.
//
// A tool says what it does with its arguments:
//
//	package main
//
//	import "github.com/callgate/callgate/sandbox/guest"
//
//	type args struct {
//		Path string `json:"path"`
//	}
//
//	type result struct {
//		Bytes int `json:"bytes"`
//	}
//
//	func init() {
//		guest.Handle(func(a args) (result, error) {
//			b, err := guest.ReadFile(a.Path)
//			return result{len(b)}, err
//		})
//	}
//
//	func main() { guest.Main() }
//
// and is built as a reactor, of which the host can take a snapshot:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o tool.wasm .
//
// or, with -tags callgate_command and without -buildmode, as a command. A reactor
// never runs main, so the handler is set while the package is initialised. What
// that leaves in memory can be what every call begins with, the seeds of math/rand
// among it: whatever nobody may guess comes from crypto/rand, within a call. Nor can
// the initialisation use effects, which are those of one call.
//
// # Effects
//
// [HTTP], [ReadFile], [WriteFile] and other functions for files, [Run] and others for
// commands, [Plan] and others for tasks, [Log] and [Charge] ask the host, which does what
// the grant of the call gives and refuses the rest with an [Errno]. Granted directories
// are also there for package os, as /<root>/<path>. A module imports what it uses, and
// callgate tools inspect says what grant that needs.
//
// # How a call ends
//
// A result is written to stdout as JSON. An error of the handler, or of what is
// around it, is written to stderr, which whoever made the call gets to see, and the
// guest ends with its status: 1, what an [Error] says, [StatusArguments] or
// [StatusResult]. A panic is the Go runtime's to end: a reactor traps, a command has
// the status 2, and the trace is on stderr.
//
// # Size
//
// A tool with [Handle] has 4.5 MB, half of which is the JSON of any Go type. One
// with [HandleBytes] that reads its arguments with package jsontext has 2.8 MB.
//
// # On other systems
//
// The package builds there, so that handlers can be tested. Effects are
// [errors.ErrUnsupported], and Main reads arguments and writes a result all the same.
package guest

import (
	"errors"
	"io"
	"os"

	"github.com/go-json-experiment/json"
)

// Statuses of a guest that failed before or after its handler. A status of a tool's
// own, in an [Error], is best 10 or more.
const (
	StatusError     = 1 // the handler returned an error that is no Error
	StatusArguments = 3 // the arguments are none of the handler's type
	StatusResult    = 4 // the result cannot be encoded or written
)

// Error is an error with a status of its own, for a handler to return.
type Error struct {
	Status uint32 // of the guest; 0 means StatusError
	Err    error  // what stderr says; nil is nothing
}

func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// handle is what the guest does.
var handle func(args []byte) ([]byte, error)

// Handle makes fn the tool. In is decoded from the canonical arguments: names of
// members match exactly, and one that In lacks is refused. Which members must be
// there is for the manifest's schema to say; what is absent is zero. Out is encoded as
// JSON, maps in the order of their keys.
func Handle[In, Out any](fn func(In) (Out, error)) {
	HandleBytes(func(args []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(args, &in, json.RejectUnknownMembers(true)); err != nil {
			return nil, &Error{StatusArguments, unfit(err)}
		}
		out, err := fn(in)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(out, json.Deterministic(true))
		if err != nil {
			return nil, &Error{StatusResult, errors.New("the result cannot be encoded")}
		}
		return b, nil
	})
}

// unfit says where arguments do not fit, and not what stands there.
func unfit(err error) error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok && e.JSONPointer != "" {
		return errors.New("the arguments do not fit the tool: at " + string(e.JSONPointer))
	}
	return errors.New("the arguments do not fit the tool")
}

// HandleBytes makes fn the tool: it gets the canonical arguments, one JSON object,
// and what it returns is the result as it stands.
func HandleBytes(fn func(args []byte) ([]byte, error)) { handle = fn }

// Main runs the tool once and ends the process with its status. It is what main of a
// command calls; a reactor is called by the host.
func Main() {
	if status := serve(handle, os.Stdin, os.Stdout, os.Stderr); status != 0 {
		os.Exit(int(status))
	}
}

// serve takes one call from the arguments on in to its status.
func serve(fn func([]byte) ([]byte, error), in io.Reader, out, log io.Writer) uint32 {
	b, err := answer(fn, in)
	if err == nil {
		if _, err = out.Write(b); err == nil {
			return 0
		}
		err = &Error{StatusResult, errors.New("the result cannot be written")}
	}
	if text := err.Error(); text != "" {
		_, _ = io.WriteString(log, text+"\n") // there is nobody else to tell
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Status != 0 {
		return e.Status
	}
	return StatusError
}

func answer(fn func([]byte) ([]byte, error), in io.Reader) ([]byte, error) {
	if fn == nil {
		return nil, errors.New("the tool has no handler: call guest.Handle while its package is initialised")
	}
	args, err := io.ReadAll(in)
	if err != nil {
		return nil, &Error{StatusArguments, errors.New("the arguments cannot be read")}
	}
	return fn(args)
}
