package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Whatever happened before, the next call ends as its explanation says, and
// explanations change nothing.
func TestExplainSaysWhatDoDoes(t *testing.T) {
	said := map[call.Code]int{}
	check := func(t *rapid.T) {
		now := newClock()
		var revision atomic.Int64 // of the policy
		p := policy(func(in *call.Input) (d call.Decision, err error) {
			text := string(in.Args.Bytes())
			d = allow
			defer func() {
				d.Revisions = []call.Revision{{Name: "test", Digest: fmt.Sprint("sha256:", revision.Load())}}
			}()
			switch {
			case strings.Contains(text, "deny"), strings.Contains(text, "out") && len(in.Session.Labels) > 0:
				return call.Decision{Verdict: call.Deny, Revisions: allow.Revisions}, nil
			case strings.Contains(text, "ask"):
				d = asking(oneLead)
			case strings.Contains(text, "label"):
				d.Labels = []string{"seen"}
			}
			if strings.Contains(text, "limit") {
				d.Limits = []call.Limit{{Name: "few", Key: in.Principal.ID, Burst: 2, Per: "5m"}}
			}
			return d, nil
		})
		log := &memory{}
		e, err := engine.New(engine.Options{Policy: p, Log: log, Tools: []engine.Tool{(&counted{}).tool()}, Now: now.Now, DecideTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		calls := func() call.Call {
			c := echo(rapid.SampledFrom([]string{"", "limit", "limit", "ask", "ask", "ask limit", "label", "out", "deny"}).Draw(t, "text"))
			c.Principal.ID = rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "who")
			if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
				c.Args = rapid.SampledFrom([]jsontext.Value{[]byte(`{`), []byte(`{"x":1}`), []byte(`{"n":1e400}`)}).Draw(t, "args")
			}
			return c
		}
		var ids []string
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			now.add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 10, 150, 4000}).Draw(t, "pause")) * time.Second)
			switch n := rapid.IntRange(0, 21).Draw(t, "operation"); {
			case n < 13:
				for range rapid.IntRange(0, 3).Draw(t, "others") {
					explain(t, e, calls())
				}
				c := calls()
				before := recorded(t, log)
				x := explain(t, e, c)
				if got := recorded(t, log); got != before {
					t.Fatalf("%d records more", got-before)
				}
				_, err := e.Do(t.Context(), c)
				got := code(err)
				if err == nil {
					got = call.CodeOK
				}
				if x.Code != got {
					t.Fatalf("%s was explained as %+v and ended as %v", c.Args, x, err)
				}
				said[got]++
				d, _ := errors.AsType[*engine.Denial](err)
				switch {
				case got == call.CodeRateLimited && !cmp.Equal(d.RetryAfter.Milliseconds(), x.Limits[0].RetryMS):
					t.Fatalf("wait %v, explained was %+v", d.RetryAfter, x.Limits)
				case got == call.CodeRequiresApproval && x.ApprovalID != "" && x.ApprovalID != d.ApprovalID:
					t.Fatalf("explained by %s, waits for %s", x.ApprovalID, d.ApprovalID)
				case got == call.CodeRequiresApproval, got == call.CodeApprovalStale:
					ids = append(ids, d.ApprovalID)
				}
			case n < 20 && len(ids) > 0:
				v := engine.Vote{Approval: rapid.SampledFrom(ids[max(0, len(ids)-2):]).Draw(t, "approval"), By: lead, Deny: rapid.Bool().Draw(t, "deny")}
				if _, err := e.Vote(t.Context(), v); err != nil && !errors.Is(err, state.ErrNoApproval) {
					t.Fatal(err)
				}
			case n == 20:
				revision.Store(rapid.Int64Range(1, 2).Draw(t, "revision"))
			case n == 21 && rapid.IntRange(0, 3).Draw(t, "revoke") == 0:
				r := rapid.SampledFrom([]call.Revocation{{Epoch: 1}, {Principal: engine.PrincipalDigest(alice)}}).Draw(t, "revocation")
				if err := e.Revoke(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	all := []call.Code{call.CodeOK, call.CodePolicyDenied, call.CodeRequiresApproval, call.CodeApprovalDenied, call.CodeRateLimited, call.CodeArgsInvalid, call.CodeRevoked}
	for range 10 { // one round does not come to every code each time
		if rapid.Check(t, check); testing.Short() || !slices.ContainsFunc(all, func(c call.Code) bool { return said[c] == 0 }) {
			return
		}
	}
	t.Errorf("not every code of %v: %v", all, said)
}

// Whoever gets an explanation may do with it what they like: it is neither the
// policy's decision nor what was asked.
func TestExplanationIsACopy(t *testing.T) {
	d := asking(call.ApprovalRule{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}, IDs: []string{"lea"}}})
	d.Labels = []string{"seen"}
	e := open(t, engine.Options{Policy: always(d), Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}})
	id := asked(t, e, echo("x"))
	want := explain(t, e, echo("x")).Approvals[0].From.Clone()
	x := explain(t, e, echo("x"))
	x.Labels[0], x.Approvals[0].From.Roles[0], x.Approvals[0].From.IDs[0] = "mine", "analyst", "alice"
	if got := explain(t, e, echo("x")); got.Labels[0] != "seen" || !cmp.Equal(want, got.Approvals[0].From) {
		t.Errorf("the next explanation: %v, %+v", got.Labels, got.Approvals[0].From)
	}
	if q, err := e.Approval(t.Context(), id); err != nil || !cmp.Equal(want, q.Rules[0].From) {
		t.Errorf("the question: %+v, %v", q.Rules, err)
	}
	if v := mustVote(t, e, id, lead, false); v.Standing != state.Approved {
		t.Errorf("after the lead's vote: %s", v.Standing)
	}
}

// moving is a store whose session moves so often after policy has seen it.
type moving struct {
	state.Store
	often int
}

func (m *moving) Admit(ctx context.Context, a state.Admission) (state.Answer, error) {
	if m.often > 0 {
		m.often--
		return state.Answer{}, state.ErrSessionChanged
	}
	return m.Store.Admit(ctx, a)
}

func TestExplainDecidesAgain(t *testing.T) {
	s := &moving{Store: state.NewLocal()}
	e := open(t, engine.Options{Policy: always(allow), State: s, Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}})
	for often, want := range map[int]call.Code{0: call.CodeOK, 2: call.CodeOK, 3: call.CodeSessionChanged} {
		s.often = often
		if x := explain(t, e, echo("x")); x.Code != want || (x.Caps != nil) != (want == call.CodeOK) {
			t.Errorf("moved %d times: %+v, want %s", often, x, want)
		}
	}
}

// Whoever waits as long as told does not come a moment too early.
func TestExplainWaits(t *testing.T) {
	d := allow
	d.Limits = []call.Limit{{Name: "one", Key: "k", Burst: 1, Per: "1m"}}
	now := newClock()
	p := policy(func(*call.Input) (call.Decision, error) { return d, nil })
	e := open(t, engine.Options{Policy: p, Log: &memory{}, Now: now.Now, Tools: []engine.Tool{(&counted{}).tool()}})
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	now.add(1)
	x := explain(t, e, echo("x"))
	if x.Code != call.CodeRateLimited || x.Limits[0].RetryMS != 60_000 {
		t.Errorf("Explain = %+v", x)
	}
	now.add(time.Duration(x.Limits[0].RetryMS) * time.Millisecond)
	if x := explain(t, e, echo("x")); x.Code != call.CodeOK {
		t.Errorf("after the wait: %+v", x)
	}
	d.Limits[0].Cost = 2
	if x := explain(t, e, echo("x")); x.Code != call.CodeRateLimited || x.Limits[0].RetryMS != math.MaxInt64/1_000_000 {
		t.Errorf("one that never passes: %+v", x)
	}
}
