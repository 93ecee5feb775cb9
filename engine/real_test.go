package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local/project"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/sandbox"
)

// real is the example project with every real part: bundle, log on disk, sandbox
// and roots.
type real struct {
	dir   string
	salts *audit.Salts
	o     engine.Options
}

func newReal(t *testing.T) *real {
	t.Helper()
	r := &real{dir: filepath.Join(t.TempDir(), "project")}
	if err := project.Write(r.dir); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	policy, err := rego.Open(t.Context(), os.DirFS(filepath.Join(r.dir, "bundle")), rego.Options{})
	must(err)
	guests, err := sandbox.New(t.Context(), sandbox.Options{})
	must(err)
	t.Cleanup(func() { guests.Close(context.Background()) })
	host, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: filepath.Join(r.dir, "files/docs")}}})
	must(err)
	t.Cleanup(func() { host.Close() })
	must(os.Mkdir(r.data(), 0o700))
	r.salts, err = audit.OpenSalts(r.data())
	must(err)
	log, err := audit.Open(r.data(), audit.Options{})
	must(err)
	t.Cleanup(func() { log.Close() })
	r.o = engine.Options{Policy: policy, Guests: guests, Host: host, Salts: r.salts, Log: log, DecideTimeout: time.Minute}
	for _, name := range []string{"read-file", "list-dir"} {
		r.o.Tools = append(r.o.Tools, engine.Wasm(filepath.Join(r.dir, "tools", name)))
	}
	return r
}

func (r *real) data() string { return filepath.Join(r.dir, "data") }

// records reads the log's files, as somebody else would.
func (r *real) records(t *testing.T) []call.Record {
	t.Helper()
	if _, err := audit.Verify(r.data(), ""); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.data(), "log/00000000000000000000.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []call.Record
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, `{"checkpoint":`) {
			continue
		}
		rec, err := call.DecodeRecord([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

func readFile(path string) call.Call {
	return call.Call{Principal: alice, Tool: "read-file", Args: []byte(`{"path":"` + path + `"}`)}
}
