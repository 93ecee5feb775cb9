package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// runner is a sandbox whose guests say which module they are of. It does not take
// modules that say bad.
type runner struct {
	mu        sync.Mutex
	installed []string
	ran       int
}

func (r *runner) Install(_ context.Context, digest string, module []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(string(module), "bad") {
		return &call.Error{Code: call.CodeGuestUnavailable, Detail: "no such instruction"}
	}
	r.installed = append(r.installed, digest)
	return nil
}

func (r *runner) Run(_ context.Context, digest string, _ call.Args, _ *hostfx.Effects) ([]byte, call.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran++
	if !slices.Contains(r.installed, digest) {
		return nil, call.Outcome{Status: call.NotStarted, Code: call.CodeGuestUnavailable}
	}
	return []byte(digest), call.Outcome{Status: call.Succeeded, Code: call.CodeOK}
}

const anything = "{type: object, additionalProperties: false}"

// pinned is an engine over one tool of wasm, whose files a test changes.
type pinned struct {
	t      *testing.T
	dir    string
	o      engine.Options
	e      *engine.Engine
	log    *memory
	runner *runner
}

func openPinned(t *testing.T, load func(string) engine.Tool, dir string) *pinned {
	t.Helper()
	p := &pinned{t: t, dir: dir, log: &memory{}, runner: &runner{}}
	p.o = engine.Options{Policy: always(allow), Log: p.log, Tools: []engine.Tool{load(dir)}, Guests: p.runner}
	p.open()
	t.Cleanup(func() { p.e.Close() })
	return p
}

func (p *pinned) open() {
	p.t.Helper()
	e, err := engine.New(p.o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.e = e
}

func (p *pinned) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pinned) edit(old, new string) {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "tool.yaml"))
	if err != nil || !strings.Contains(string(b), old) {
		p.t.Fatalf("tool.yaml: %q, %v", b, err)
	}
	p.write("tool.yaml", strings.Replace(string(b), old, new, 1))
}

// do makes one call, which runs the module with this text, or ends with the code.
func (p *pinned) do(want string) *engine.Denial {
	p.t.Helper()
	res, err := p.e.Do(p.t.Context(), call.Call{Principal: alice, Tool: "t", Args: []byte("{}")})
	denial, _ := errors.AsType[*engine.Denial](err)
	switch {
	case denial != nil && string(denial.Code) != want:
		p.t.Errorf("Do() = %s, %v, want %s", denial.Code, err, want)
	case denial == nil && (err != nil || string(res.Output) != call.Digest([]byte(want))):
		p.t.Errorf("Do() = %v, %v, want what %q gives", res, err, want)
	}
	return denial
}

const isChanged = string(call.CodeToolChanged)

// A tool whose files are no longer what was pinned does not run, nor does what
// was pinned: whoever looks at the files would be wrong about it.
func TestChangedToolIsRefused(t *testing.T) {
	for name, load := range map[string]func(string) engine.Tool{
		"beside its manifest": engine.Wasm,
		"from a bundle": func(dir string) engine.Tool {
			text, err := os.ReadFile(filepath.Join(dir, "tool.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			return engine.Manifested(string(text), dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPinned(t, load, guestDir(t, "t", anything, []byte("first")))
			p.do("first")
			p.write("m.wasm", "other")
			future := time.Now().Add(time.Hour)
			if err := os.Chtimes(filepath.Join(p.dir, "m.wasm"), future, future); err != nil {
				t.Fatal(err)
			}
			ran := p.runner.ran
			p.do(isChanged)
			if x, err := p.e.Explain(t.Context(), call.Call{Principal: alice, Tool: "t"}); err != nil || x.Code != call.CodeToolChanged {
				t.Errorf("Explain() = %+v, %v", x, err)
			}
			if err := os.Remove(filepath.Join(p.dir, "m.wasm")); err != nil {
				t.Fatal(err)
			}
			p.do(isChanged)
			if err := os.Symlink("real", filepath.Join(p.dir, "m.wasm")); err != nil {
				t.Fatal(err)
			}
			p.write("real", "first")
			p.do(isChanged) // a link leads to what somebody else may replace
			if err := os.Remove(filepath.Join(p.dir, "m.wasm")); err != nil {
				t.Fatal(err)
			}
			if p.runner.ran != ran {
				t.Error("something ran")
			}
			p.write("m.wasm", "first") // touched, but what it was
			p.do("first")
			p.do("first")
			p.edit("a guest", "a guest that says more of itself")
			if name == "from a bundle" {
				p.do("first") // nobody reads it
				return
			}
			p.do(isChanged)
			if err := os.Remove(filepath.Join(p.dir, "tool.yaml")); err != nil {
				t.Fatal(err)
			}
			p.do(isChanged)
		})
	}
}

// A module that its manifest does not name is not opened, and its code says why.
func TestOtherModuleIsNotOpened(t *testing.T) {
	dir := guestDir(t, "t", anything, []byte("first"))
	if err := os.WriteFile(filepath.Join(dir, "m.wasm"), []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{engine.Wasm(dir)}})
	if call.CodeOf(err, "") != call.CodeToolChanged || !strings.Contains(err.Error(), "m.wasm does not have the sha256") {
		t.Errorf("New() = %v", err)
	}
}

// pins are the records that say that a tool was taken up anew.
func (p *pinned) pins() (out []call.Record) {
	for _, r := range p.log.decoded(p.t) {
		if r.Type == call.TypePin {
			out = append(out, r)
		}
	}
	return out
}

// A tool that is being worked on runs as it is, and the log says so before it does.
func TestEditedToolIsTakenUp(t *testing.T) {
	dir := guestDir(t, "t", anything, []byte("first"))
	p := openPinned(t, engine.Edited, dir)
	p.do("first")
	p.do("first")
	if pins := p.pins(); len(pins) != 0 {
		t.Errorf("nothing changed, and there is %+v", pins)
	}

	p.write("m.wasm", "the second")
	p.do("the second")
	p.edit("a guest", "another guest")
	p.do("the second")
	p.do("the second")
	pins, last := p.pins(), ""
	if len(pins) != 2 {
		t.Fatalf("pins: %+v", pins)
	}
	for i, r := range p.log.decoded(t) {
		switch {
		case r.Type == call.TypeDecision && last == "":
			last = r.Tool.Digest
		case r.Type == call.TypePin:
			if r.Was != last || r.Tool.Digest == last || r.Tool.Name != "t" || r.Tool.Kind != "wasm" {
				t.Errorf("record %d: %+v, and the tool was %s", i, r, last)
			}
			last = r.Tool.Digest
		case r.Type == call.TypeDecision && r.Tool.Digest != last:
			t.Errorf("record %d is of another tool than the last that was taken up", i)
		}
	}

	for _, tt := range []struct{ why, module, old, new string }{
		{why: "no such instruction", module: "a bad module"},
		{why: "it is called u now", module: "third", old: "name: t", new: "name: u"},
		{why: "class", module: "third", old: "class: read", new: "class: magic"},
	} {
		p.write("m.wasm", tt.module)
		p.edit(tt.old, tt.new)
		ran := p.runner.ran
		if d := p.do(isChanged); d == nil || !strings.Contains(d.Error(), tt.why) || p.runner.ran != ran {
			t.Errorf("%s: %v", tt.why, d)
		}
		p.edit(tt.new, tt.old)
	}
	if len(p.pins()) != 2 {
		t.Error("what was refused is recorded as taken up")
	}
	p.do("third")

	p.write("m.wasm", "a fourth module")
	p.log.mu.Lock()
	p.log.fail = errors.New("disk full")
	p.log.mu.Unlock()
	p.do(string(call.CodeLogUnavailable))
	p.log.mu.Lock()
	p.log.fail = nil
	p.log.mu.Unlock()

	// On opening, what is there differs from what tool.yaml names; the log says that too,
	// and a log with such records opens.
	p.e.Close()
	before := len(p.pins())
	p.o.Tools = []engine.Tool{engine.Edited(dir)}
	p.open()
	if pins := p.pins(); len(pins) != before+1 || pins[before].Was == "" || pins[before].Was == pins[before].Tool.Digest {
		t.Errorf("pins: %+v", pins[before:])
	}
	p.do("a fourth module")
}

// A tool that is being worked on cannot grow out of the ceiling.
func TestEditedToolKeepsWithinTheCeiling(t *testing.T) {
	dir := guestDir(t, "t", anything, []byte("first"))
	p := &pinned{t: t, dir: dir, log: &memory{}, runner: &runner{}}
	p.o = engine.Options{Policy: always(allow), Log: p.log, Tools: []engine.Tool{engine.Edited(dir)}, Guests: p.runner, Ceiling: &call.Caps{}}
	p.open()
	defer p.e.Close()
	p.do("first")
	p.edit("class: read", "class: read\ncaps: {log: true}")
	if d := p.do(isChanged); d == nil || !strings.Contains(d.Error(), "log") {
		t.Errorf("Do() = %v", d)
	}
}

// Calls that find a change at the same time take it up once.
func TestEditedToolIsTakenUpOnce(t *testing.T) {
	p := openPinned(t, engine.Edited, guestDir(t, "t", anything, []byte("first")))
	p.write("m.wasm", "the second")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { p.do("the second") })
	}
	wg.Wait()
	if n := len(p.pins()); n != 1 || len(p.runner.installed) != 2 {
		t.Errorf("%d pins, installed %v", n, p.runner.installed)
	}
}
