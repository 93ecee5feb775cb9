package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
)

// compileWord is the first argument of a compile child, and its protocol's
// version. The second is the seconds of processor time that it has.
const compileWord = "callgate-sandbox-compile-1"

// Main makes it possible that modules are compiled in processes of their own. A
// program that makes sandboxes calls it first in main, before it looks at its
// arguments; a test binary that does calls it first in TestMain. It returns at once,
// unless the process is one that a sandbox started to compile a module: then it
// does that and ends the process.
//
// A program that cannot call it names another that does, such as callgate, in
// [Options.Compiler].
func Main() {
	mainCalled.Store(true)
	if len(os.Args) != 3 || os.Args[1] != compileWord {
		return
	}
	if err := compileChild(os.Args[2], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitRefused)
	}
	os.Exit(0)
}

var mainCalled atomic.Bool

// exitRefused is how a compile child ends that wrote on stderr why it does not
// compile the module. Go itself ends with 2.
const exitRefused = 3

// Memory of a compile child. Beyond the first bound it collects garbage more
// eagerly, beyond the second it is out of memory.
const (
	compileHeap    = 2 << 30
	compileAddress = 3 << 30
)

// compileChild limits itself first and then reads the module, which may be
// hostile. It works in the current directory, which its parent made for it.
func compileChild(seconds string, in io.Reader, out io.Writer) error {
	runtime.GOMAXPROCS(2) // one compiles, one collects garbage
	debug.SetMemoryLimit(compileHeap)
	cpu, err := strconv.ParseUint(seconds, 10, 32)
	if err != nil {
		return err
	}
	if err := limitSelf(cpu); err != nil {
		return fmt.Errorf("limits of a process that compiles: %w", err)
	}
	wasm, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	artefact, err := compileHere(context.Background(), wasm)
	if err != nil {
		return err
	}
	_, err = out.Write(artefact)
	return err
}

// compileHere compiles in this process.
func compileHere(ctx context.Context, wasm []byte) (_ []byte, err error) {
	store, cache, err := openStore(".")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	defer cache.Close(ctx)
	rt := wazero.NewRuntimeWithConfig(ctx, engineConfig(cache))
	defer rt.Close(ctx)
	if _, err := rt.CompileModule(ctx, wasm); err != nil {
		return nil, err
	}
	return store.take(wasm)
}
