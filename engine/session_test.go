package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

func TestSessions(t *testing.T) {
	now := newClock()
	// Reading marks the session; a marked session may not write.
	p := policy(func(in *call.Input) (call.Decision, error) {
		d := allow
		if strings.Contains(string(in.Args.Bytes()), "read") {
			d.Labels = []string{"untrusted-input"}
		} else if len(in.Session.Labels) > 0 {
			d = call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "after_untrusted"}}}
		}
		return d, nil
	})
	log := &memory{}
	o := engine.Options{Policy: p, Log: log, Now: now.Now, Tools: []engine.Tool{(&counted{}).tool()}}
	e := open(t, o)
	do := func(text, session, client string) call.Code {
		c := echo(text)
		c.Session, c.Client = session, client
		_, err := e.Do(t.Context(), c)
		return code(err)
	}
	own, err := e.OpenSession(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := e.OpenSession(t.Context(), call.Principal{ID: "bob", Kind: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if c := do("write", "", ""); c != "" {
		t.Fatalf("an unmarked session: %s", c)
	}
	do("read", "", "")
	e.Close()
	e = open(t, o)
	for _, tt := range []struct {
		name, session, client string
		want                  call.Code
	}{
		{"the label stays, also in another process", "", "", call.CodePolicyDenied},
		{"an invented session does not shed it", "so-new", "", call.CodeSessionInvalid},
		{"nor does somebody else's", foreign, "", call.CodeSessionInvalid},
		{"another client has a session of its own", "", "editor", ""},
		{"an opened session too", own, "", ""},
	} {
		if got := do("write", tt.session, tt.client); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	now.add(25 * time.Hour)
	if c := do("write", "", ""); c != "" {
		t.Errorf("a day later: %s", c)
	}
}

// Two calls race for a label: the one that comes second is decided again, on the
// session as it is now.
func TestSecondOfTwoDecidesAgain(t *testing.T) {
	var mu sync.Mutex
	decided := 0
	both := make(chan struct{})
	p := policy(func(in *call.Input) (call.Decision, error) {
		mu.Lock()
		decided++
		n := decided
		mu.Unlock()
		if n == 2 {
			close(both)
		}
		if n <= 2 {
			<-both // both see the session without the label
		}
		d := allow
		d.Labels = []string{"seen"}
		return d, nil
	})
	log := &memory{}
	e := open(t, engine.Options{Policy: p, Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := e.Do(context.Background(), echo("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if decided != 3 {
		t.Errorf("%d decisions, want 3: one of the two calls decides again", decided)
	}
}

func TestRevoke(t *testing.T) {
	log, tool := &memory{}, &counted{}
	d := asking(oneLead)
	o := engine.Options{Policy: policy(func(*call.Input) (call.Decision, error) { return d, nil }), Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{tool.tool()}}
	e := open(t, o)
	id := asked(t, e, echo("x"))
	mustVote(t, e, id, lead, false)
	if err := e.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if id2 := asked(t, e, echo("x")); id2 == id {
		t.Error("an approval survived its epoch")
	}
	d = allow
	for _, p := range []call.Principal{alice, lead} {
		if err := e.Revoke(t.Context(), call.Revocation{Principal: engine.PrincipalDigest(p)}); err != nil {
			t.Fatal(err)
		}
	}
	e.Close()
	e = open(t, o)
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeRevoked {
		t.Errorf("a revoked principal: %v", err)
	}
	refusedWithout(t, log, call.CodeRevoked)
	bob := echo("x")
	bob.Principal.ID = "bob"
	if _, err := e.Do(t.Context(), bob); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	bob.Principal.OnBehalfOf = []call.Principal{alice}
	if _, err := e.Do(t.Context(), bob); code(err) != call.CodeRevoked {
		t.Errorf("on behalf of a revoked principal: %v", err)
	}
	bob.Principal.OnBehalfOf = nil
	d = asking(oneLead)
	if _, err := e.Vote(t.Context(), engine.Vote{Approval: asked(t, e, bob), By: lead}); !errors.Is(err, state.ErrMayNotVote) {
		t.Errorf("a revoked approver: %v", err)
	}
	d = allow
	if err := e.Revoke(t.Context(), call.Revocation{Tool: "echo"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Do(t.Context(), bob); code(err) != call.CodeRevoked || tool.count() != 1 {
		t.Errorf("a revoked tool: %v, %d runs", err, tool.count())
	}
}
