package source_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// A layer follows a bundle. Here it is a directory, unsigned; at a URL it would be
// verified first, as [rego.Verify] has it, and its epoch checked.
func Example() {
	dir, err := os.MkdirTemp("", "bundle")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	policy := "package callgate\n\ndecision := {\"decision\": \"deny\"}\n"
	if err := os.WriteFile(filepath.Join(dir, "policy.rego"), []byte(policy), 0o600); err != nil {
		panic(err)
	}

	place, err := source.At(dir, source.Access{})
	if err != nil {
		panic(err)
	}
	var decides atomic.Pointer[rego.Policy]
	f, err := source.New(source.Options{
		Layer:  "base",
		Source: place,
		MaxAge: time.Hour,
		Activate: func(ctx context.Context, s *source.Snapshot) (*source.Prepared, error) {
			p, err := rego.Open(ctx, s.FS, rego.Options{Name: "base"})
			if err != nil {
				return nil, err
			}
			return &source.Prepared{Revision: p.Revision(), Commit: func() error { decides.Store(p); return nil }}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := f.Start(ctx); err != nil {
		panic(err)
	}
	// go f.Run(ctx) keeps it up to date; f.Check() before every decision.
	fmt.Println(decides.Load().Revision().Name, f.Check())
	// Output: base <nil>
}
