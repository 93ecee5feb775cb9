package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox/guests"
)

// policy decides with a function.
type policy func(*call.Input) (call.Decision, error)

func (p policy) Decide(_ context.Context, in *call.Input) (call.Decision, error) { return p(in) }

func always(d call.Decision) policy {
	return func(*call.Input) (call.Decision, error) { return d, nil }
}

var allow = call.Decision{Verdict: call.Allow, Revisions: []call.Revision{{Name: "test", Digest: "sha256:0"}}}

// memory is a log that can be told to fail.
type memory struct {
	mu      sync.Mutex
	records [][]byte
	fail    error
	panics  bool
}

func (m *memory) Append(_ context.Context, rec []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.panics {
		panic("log: secret in a panic")
	}
	if m.fail != nil {
		return -1, m.fail
	}
	m.records = append(m.records, rec)
	return int64(len(m.records) - 1), nil
}

func (m *memory) Replay(_ context.Context, yield func(int64, []byte) error) error {
	for i, r := range m.records {
		if err := yield(int64(i), r); err != nil {
			return err
		}
	}
	return nil
}

// decoded returns every record so far.
func (m *memory) decoded(t testing.TB) []call.Record {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]call.Record, len(m.records))
	for i, line := range m.records {
		r, err := call.DecodeRecord(line)
		if err != nil {
			t.Fatalf("record %d: %v\n%s", i, err, line)
		}
		out[i] = r
	}
	return out
}

const echoManifest = `
name: echo
description: gives its text back
kind: host
class: read
input:
  type: object
  properties:
    text: {type: string}
    n: {type: number}
  additionalProperties: false
caps:
  bounds: {timeout_ms: 5000, output_bytes: 1000}
`

type echoArgs struct {
	Text string  `json:"text"`
	N    float64 `json:"n"`
}

// tool is a host tool that counts its runs.
type counted struct {
	mu   sync.Mutex
	runs int
	fn   func(context.Context, *hostfx.Effects, echoArgs) (string, error)
}

func (c *counted) tool() engine.Tool {
	return engine.Host(echoManifest, func(ctx context.Context, fx *hostfx.Effects, in echoArgs) (string, error) {
		c.mu.Lock()
		c.runs++
		c.mu.Unlock()
		if c.fn != nil {
			return c.fn(ctx, fx, in)
		}
		return in.Text, nil
	})
}

func (c *counted) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.runs }

var alice = call.Principal{ID: "alice", Kind: "user", Roles: []string{"analyst"}, Auth: call.Auth{Method: "asserted"}}

func echo(text string) call.Call {
	return call.Call{Principal: alice, Tool: "echo", Args: fmt.Appendf(nil, `{"text":%q}`, text)}
}

func open(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	if o.DecideTimeout == 0 {
		o.DecideTimeout = time.Minute
	}
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// fixedSalts is one key that survives reopening.
type fixedSalts struct{}

func (fixedSalts) Key(string, time.Time) ([32]byte, error) { return [32]byte{1}, nil }

// noSalts has no key for one tenant.
type noSalts struct{}

func (noSalts) Key(tenant string, _ time.Time) ([32]byte, error) {
	if tenant == "keyless" {
		return [32]byte{}, errors.New("no key")
	}
	return [32]byte{2}, nil
}

// digest is the pin of the tool.
func (c *counted) digest(t testing.TB) string {
	t.Helper()
	m, err := tool.Parse([]byte(echoManifest))
	if err != nil {
		t.Fatal(err)
	}
	return m.Digest()
}

// guestTool writes the directory of a wasm tool around one of our guests.
func guestTool(t testing.TB, name, input string) (dir string) {
	t.Helper()
	module, err := guests.Module(name)
	if err != nil {
		t.Fatal(err)
	}
	return guestDir(t, name, input, module)
}

func guestDir(t testing.TB, name, input string, module []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	manifest := fmt.Sprintf("name: %s\ndescription: a guest\nkind: wasm\nclass: read\nmodule: m.wasm\nsha256: %q\ninput: %s\n",
		name, strings.TrimPrefix(call.Digest(module), "sha256:"), input)
	for file, b := range map[string][]byte{"tool.yaml": []byte(manifest), "m.wasm": module} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
