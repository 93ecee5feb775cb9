package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/token"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// scene is an engine with one tool and one call of it.
type scene struct {
	t      *testing.T
	o      engine.Options
	e      *engine.Engine
	log    *memory
	tool   *counted
	call   call.Call
	fails  error // what the tool returns
	panics bool
	dir    string // of a guest
}

func newScene(t *testing.T, tool string) *scene {
	t.Helper()
	s := &scene{t: t, log: &memory{}, tool: &counted{}, call: call.Call{Principal: alice, Tool: tool}}
	s.tool.fn = func(context.Context, *hostfx.Effects, echoArgs) (string, error) {
		if s.panics {
			panic("canary")
		}
		return "ran", s.fails
	}
	none := func(context.Context, *hostfx.Effects, map[string]string) (string, error) { return "ran", nil }
	s.o = engine.Options{Policy: always(allow), Log: s.log}
	switch tool {
	case "":
		s.call.Tool = "echo"
		s.o.Tools = []engine.Tool{s.tool.tool()}
	case "word-count":
		s.o.Tools, s.o.Host = []engine.Tool{engine.Host(countManifest, none)}, s.docs()
	case "fetch":
		s.o.Tools = []engine.Tool{engine.Host(fetchManifest, none)}
	case "clean":
		s.o.Tools = []engine.Tool{engine.Host(cleanManifest, none)}
	case "mail":
		s.o.Tools = []engine.Tool{engine.External(mailManifest)}
	default:
		guests, err := sandbox.New(t.Context(), sandbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { guests.Close(context.Background()) })
		dir := ""
		if tool == "trap" {
			dir = guestDir(t, tool, "{type: object, additionalProperties: false}", []byte(trapModule))
		} else {
			dir = guestTool(t, tool, "{type: object, additionalProperties: false}")
		}
		s.o.Tools, s.o.Guests, s.dir = []engine.Tool{engine.Wasm(dir)}, guests, dir
	}
	return s
}

// edited is a call of a tool whose module is another one by then.
func (s *scene) edited() error {
	if err := os.WriteFile(filepath.Join(s.dir, "m.wasm"), []byte(trapModule), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.once()
}

// docs is a host with a root that holds a link.
func (s *scene) docs() *hostfx.Host {
	dir := s.t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		s.t.Fatal(err)
	}
	h, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: dir}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { h.Close() })
	return h
}

func (s *scene) twice() error { s.once(); return s.once() }

func (s *scene) once() error { _, err := s.e.Do(s.t.Context(), s.call); return err }

// check compares what the caller was told and what the log says with the code and
// its station.
func (s *scene) check(want call.Code, station string, err error) {
	t := s.t
	t.Helper()
	told := call.CodeOK
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		told = d.Code
	} else if te, ok := errors.AsType[*engine.ToolError](err); ok {
		told = te.Result.Outcome.Code
	} else if err != nil {
		told = call.CodeOf(err, call.CodeInternal)
	}
	if station == later || station == never {
		told = want
	}
	if told != want {
		t.Fatalf("the caller is told %v, want %s", err, want)
	}
	s.e.Close()
	recs := s.log.decoded(t)
	if n := len(recs); n > 2 { // of the last call only
		recs = recs[n-1:]
		if station != refusal {
			t.Fatalf("%d records", n)
		}
	}
	var ended call.Status
	switch station {
	case outside:
		if want != call.CodeOverloaded && len(recs) > 0 {
			t.Errorf("records %+v", recs)
		}
		return
	case refusal:
		last := recs[len(recs)-1]
		if last.Type != call.TypeDecision || last.Code != want || last.Verdict == call.Allow || s.tool.count() != 0 {
			t.Errorf("records %+v, %d runs", recs, s.tool.count())
		}
		return
	case never:
		if len(recs) != 1 || recs[0].Code != want || recs[0].Decision != nil || recs[0].Outcome.Status != call.NotStarted {
			t.Errorf("records %+v", recs)
		}
		return
	case starting:
		ended = call.NotStarted
	case running:
		if ended = call.Failed; want == call.CodeOK {
			ended = call.Succeeded
		}
	case later:
		ended = call.Unfinished
	}
	if len(recs) != 2 || recs[0].Verdict != call.Allow || recs[0].Code != "" || recs[1].Type != call.TypeOutcome || recs[1].Code != want || recs[1].Outcome.Status != ended {
		t.Errorf("records %+v", recs)
	}
	if station == starting && s.tool.count() != 0 {
		t.Error("the tool ran")
	}
}

func (s *scene) overloaded() error {
	hold, held := make(chan struct{}), make(chan struct{})
	s.tool.fn = func(context.Context, *hostfx.Effects, echoArgs) (string, error) { close(held); <-hold; return "", nil }
	s.o.MaxCalls, s.o.Log = 1, &memory{}
	s.e = open(s.t, s.o)
	done := make(chan error)
	go func() { done <- s.once() }()
	<-held
	_, err := s.e.Do(s.t.Context(), s.call)
	close(hold)
	if first := <-done; first != nil {
		s.t.Error(first)
	}
	return err
}

func (s *scene) revoked() error {
	if err := s.e.Revoke(s.t.Context(), call.Revocation{Tool: "echo"}); err != nil {
		s.t.Fatal(err)
	}
	return s.once()
}

// twoHalves is an engine that issues grants and runs them.
func (s *scene) twoHalves() {
	s.o.Grants, s.o.State = issuing(s.t), state.NewLocal()
	s.o.Grants.Issuers, s.o.Grants.Audience = executing(s.t, true).Issuers, "runner"
}

func (s *scene) redeem(raw string) error {
	_, err := s.e.Execute(s.t.Context(), raw, s.call.Args)
	return err
}

// spentBefore has a grant that another executor of the store used.
func (s *scene) spentBefore() error {
	raw, err := s.e.Issue(s.t.Context(), s.call, "runner")
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := token.Parse(raw)
	if err != nil {
		s.t.Fatal(err)
	}
	c := p.Unverified()
	_, err = s.o.State.Spend(s.t.Context(), state.Spend{ID: call.Digest([]byte(c.Issuer + "\x00" + c.ID)), Now: time.Now(), Expires: c.Last(), Principals: []string{"p"}, Tool: "echo"})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.redeem(raw)
}

func (s *scene) votedDown() error {
	id := asked(s.t, s.e, s.call)
	by := call.Principal{ID: "lena", Kind: "user", Roles: []string{"lead"}, Auth: call.Auth{Method: "token"}}
	mustVote(s.t, s.e, id, by, true)
	return s.once()
}

// lateHost opens a grant when it is long over.
func (s *scene) lateHost() {
	h, err := hostfx.New(hostfx.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }})
	if err != nil {
		s.t.Fatal(err)
	}
	s.o.Host = h
}

func (s *scene) cancelled() error {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.tool.fn = func(ctx context.Context, _ *hostfx.Effects, _ echoArgs) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}
	_, err := s.e.Do(ctx, s.call)
	return err
}

// abandoned is a call of a tool that ignores that its caller went away.
func (s *scene) abandoned() error {
	ctx, cancel := context.WithCancel(s.t.Context())
	hold := make(chan struct{})
	s.t.Cleanup(func() { close(hold) })
	s.tool.fn = func(context.Context, *hostfx.Effects, echoArgs) (string, error) {
		cancel()
		<-hold
		return "", nil
	}
	_, err := s.e.Do(ctx, s.call)
	return err
}

// appended is a log that says of each record that it is there.
type appended struct {
	*memory
	one chan struct{}
}

func (a appended) Append(ctx context.Context, rec []byte) (int64, error) {
	defer func() { a.one <- struct{}{} }()
	return a.memory.Append(ctx, rec)
}

// oneStuck is an engine that refuses a tool once one run of it is abandoned.
func (s *scene) oneStuck() {
	s.o.MaxAbandoned, s.o.Log = 1, appended{s.log, make(chan struct{}, 8)}
}

// stuck is a call of such a tool.
func (s *scene) stuck() error {
	s.abandoned()
	for range 2 { // its decision and its outcome
		<-s.o.Log.(appended).one
	}
	s.tool = &counted{} // another one would count
	return s.once()
}

// crashed is a start after a crash between step 4 and 5 of the road.
func (s *scene) crashed() {
	s.o.State = &outliving{Local: state.NewLocal(), mark: state.Mark{Index: -1, Open: []string{"C"}}}
}

// killed loses the record of the outcome, as a process that dies does.
func (s *scene) killed() error {
	err := s.once()
	s.e.Close()
	s.log.records = s.log.records[:1]
	s.e = open(s.t, s.o)
	return err
}

// project opens an owner of a new project.
func (s *scene) project() local.Config {
	dir := filepath.Join(s.t.TempDir(), "p")
	if err := project.Write(dir); err != nil {
		s.t.Fatal(err)
	}
	c := local.Config{Data: filepath.Join(dir, "data"), Bundle: filepath.Join(dir, "bundle"), HostTools: s.o.Tools, DecideTimeout: time.Minute}
	e, err := local.Open(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { e.Close() })
	return c
}

func (s *scene) otherOwner() error {
	c := s.project()
	c.Node = "another"
	_, err := local.Dial(s.t.Context(), c)
	return err
}

func (s *scene) atTheSocket() error {
	k, err := local.Dial(s.t.Context(), s.project())
	if err != nil {
		s.t.Fatal(err)
	}
	defer k.Close()
	s.call.Tool = "\xff" // no JSON
	_, err = k.Do(s.t.Context(), s.call)
	return err
}
