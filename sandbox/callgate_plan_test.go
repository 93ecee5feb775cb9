package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// planner keeps a plan in memory.
type planner struct {
	mu   sync.Mutex
	plan call.Plan
	gone error
}

func (p *planner) Plan(context.Context) (call.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan.Clone(), p.gone
}

func (p *planner) Replan(_ context.Context, op call.PlanOp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, err := p.plan.Change(op)
	if err = errors.Join(err, p.gone); err == nil {
		p.plan = next
	}
	return err
}

// inSession is effects for a call of a session.
func (w *world) inSession(t testing.TB, s hostfx.Session, modes ...string) *hostfx.Effects {
	t.Helper()
	caps := w.more.Clone()
	if modes != nil {
		caps.FS = []call.FS{{Root: "docs", Path: "reports", Modes: modes}}
	}
	fx, err := w.host.OpenFor(t.Context(), granttest.Mint(t, call.Digest([]byte("tool")), args(t, `{}`), caps), s)
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

func TestCallgatePlan(t *testing.T) {
	w := open(t, sandbox.Options{})
	w.more = call.Caps{Plan: true}
	seen := func(t *testing.T, s hostfx.Session, p program, want string) {
		t.Helper()
		fx := w.inSession(t, s)
		out, o := w.box.Run(t.Context(), w.install(t, "poke"), args(t, p.args()), fx)
		if string(out) != want || o.Code != call.CodeOK {
			t.Errorf("numbers and answer %s, %s, want %s", out, o.Code, want)
		}
	}
	register := func(p program, task string) program { return p.tell(callRegister, task, "") }
	plan := program{}.step(callPlan, 0, 0, lengthAt).step(take, 0x8000, lengthAt).step(showTaken, 0x8000, lengthAt)

	s := hostfx.Session{ID: "s", Owner: "alice", Plan: &planner{}}
	seen(t, s, plan, "00[]")
	p := register(register(nil, `{"id":"fetch"}`), `{"id":"build","tools":["make"],"after":["fetch"]}`)
	seen(t, s, append(p, plan...), `0000[{"id":"fetch","status":"planned","tools":[],"after":[]},{"id":"build","status":"planned","tools":["make"],"after":["fetch"]}]`)
	p = program{}.tell(callAdvance, "build", "active").tell(callAdvance, "fetch", "active").tell(callAdvance, "fetch", "done").tell(callAdvance, "fetch", "failed")
	p = p.tell(callAdvance, "none", "active").tell(callAdvance, "build", "planned").tell(callAdvance, "build", "replaced").tell(callAdvance, "build", "")
	seen(t, s, p, "?00?4???")
	p = program{}.tell(callReplan, "fetch", "[]").tell(callReplan, "build", `[{"id":"one"},{"id":"two","after":["one"]}]`).tell(callReplan, "two", "[]")
	p = register(p, `{"id":"one"}`).tell(callReplan, "one", `[{"id":"two"}]`)
	seen(t, s, append(p, plan...), `?00>>00[{"id":"fetch","status":"done","tools":[],"after":[]},{"id":"build","status":"replaced","tools":["make"],"after":["fetch"]},`+
		`{"id":"one","status":"planned","tools":[],"after":[]},{"id":"two","status":"replaced","tools":[],"after":["one"]}]`)

	t.Run("malformed", func(t *testing.T) {
		p, want := program{}, ""
		for _, task := range []string{
			"", "{}", "[]", "null", `{"id":"A"}`, `{"id":null}`, `{"id":"x","status":"done"}`, `{"Id":"x"}`, `{"id":"x","id":"y"}`, `{"id":"x"} {}`,
			`{"id":"x","tools":["no tool"]}`, `{"id":"x","after":["none"]}`, `{"id":"x","after":"one"}`, `{"id":"` + "\xff" + `"}`,
			`{"id":"` + strings.Repeat("x", 20_000) + `"}`, strings.Repeat("[", 1000),
		} {
			p, want = register(p, task), want+"2"
		}
		for _, tasks := range []string{"", "{}", "null", "[{}]", "[null]", `[{"id":"one"},{"id":"x","status":""}]`} {
			p, want = p.tell(callReplan, "one", tasks), want+"2"
		}
		seen(t, s, p, want)
	})
	t.Run("full", func(t *testing.T) {
		s := hostfx.Session{ID: "s", Owner: "alice", Plan: &planner{}}
		p := program{}
		for i := range call.MaxTasks + 1 {
			p = register(p, fmt.Sprintf(`{"id":"t%d"}`, i))
		}
		seen(t, s, p, strings.Repeat("0", call.MaxTasks)+";")
	})
	t.Run("unavailable", func(t *testing.T) {
		s := hostfx.Session{ID: "s", Owner: "alice", Plan: &planner{gone: hostfx.ErrPlanUnavailable}}
		seen(t, s, register(nil, `{"id":"x"}`).step(callPlan, 0, 0, lengthAt), "66")
	})
	all := register(nil, `{"id":"x"}`).tell(callAdvance, "x", "active").tell(callReplan, "x", "[]").step(callPlan, 0, 0, lengthAt)
	t.Run("no session", func(t *testing.T) { seen(t, hostfx.Session{}, all, "3333") })
	t.Run("pointers", func(t *testing.T) {
		p := program{}.step(callPlan, 0, 0, pokeMemory-3).step(callPlan, 0, 0, 0xffffffff).step(callRegister, pokeMemory, 1)
		p = p.words(pokeMemory, 1).step(callAdvance, 0, 1, moreAt).step(callReplan, 0, 1, moreAt).step(callAdvance, pokeMemory, 1, moreAt)
		seen(t, s, p, "111111")
	})
	t.Run("no grant", func(t *testing.T) {
		w.more.Plan = false
		seen(t, s, all, "3333")
	})
}
