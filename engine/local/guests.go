package local

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/sandbox"
)

// Guests bounds what wasm tools take of the machine, all of them together. Zero
// fields mean the defaults of [sandbox.Options].
//
// A program with wasm tools calls [sandbox.Main] first in its main function, or
// names one that does.
type Guests struct {
	MaxMemory  int64         // bytes that runs may hold at a time
	CompileCPU time.Duration // processor time for compiling one module
	Compiler   []string      // program that compiles, with its arguments; nil: this one

	// Where compiled modules are kept, and the file with the key that authenticates
	// them; both are made when they are missing. "" means in the data directory. Data
	// directories may share them.
	Cache, CacheKey string
	CacheBytes      int64
}

// guests opens a sandbox that keeps what it compiled, under a key that is not beside
// it. Processes may do that at the same time.
func (c Config) guests(ctx context.Context) (*sandbox.Sandbox, error) {
	cache := cmp.Or(c.Guests.Cache, filepath.Join(c.Data, "cache"))
	keyFile := cmp.Or(c.Guests.CacheKey, filepath.Join(c.Data, "keys", "cache.key"))
	for _, dir := range []string{cache, filepath.Dir(keyFile)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	key, err := state.OpenKey(keyFile)
	if err != nil {
		return nil, err
	}
	return sandbox.New(ctx, sandbox.Options{
		CacheDir: cache, CacheKey: key, CacheBytes: c.Guests.CacheBytes,
		Compiler: c.Guests.Compiler, CompileCPU: c.Guests.CompileCPU, MaxConcurrent: c.MaxGuests, MaxMemory: c.Guests.MaxMemory,
	})
}
