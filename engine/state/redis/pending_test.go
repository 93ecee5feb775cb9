package redis_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
)

var sharedKey = bytes.Repeat([]byte{7}, 32)

// raw is a client that looks at the server behind the store's back.
func raw(t testing.TB, address string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DialCtxFn: redis.Dial, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// question is a call that a lead must approve.
func question(id, what string, now time.Time) state.Admission {
	return state.Admission{
		Call: id, Now: now, Principal: "p-alice", Requester: call.RecordPrincipal{ID: "alice", Kind: "agent"}, Asks: asks[0],
		Bind: func(day time.Time) (state.Binding, error) {
			b := day.Format(time.DateOnly) + what
			return state.Binding{Exact: b, About: b}, nil
		},
	}
}

// asked makes a question that people may answer, and returns its id.
func asked(t testing.TB, s state.Store, id, what string, now time.Time) string {
	t.Helper()
	ans, err := s.Admit(t.Context(), question(id, what, now))
	if err != nil || ans.Approval == nil {
		t.Fatalf("Admit = %+v, %v", ans, err)
	}
	if err := s.Apply(t.Context(), ans.Change); err != nil {
		t.Fatal(err)
	}
	return ans.Approval.ID
}

// approved makes an approval that one call may use, and returns its id.
func approved(t testing.TB, s state.Store, id, what string, now time.Time) string {
	t.Helper()
	ap := asked(t, s, id, what, now)
	c, err := s.Vote(t.Context(), call.Vote{Approval: ap, By: call.RecordPrincipal{ID: "lena", Kind: "user", Roles: []string{"lead"}}, Principal: "p-lena"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return ap
}

// What one node put another one shows, whoever has only the server sees nothing of it,
// and it is gone when the approval is used, over or swept.
func TestPendingOnManyNodes(t *testing.T) {
	o := options(server)
	one := open(t, o)
	o.Node = "two"
	two := open(t, o)
	putter, err := redis.NewPending(one, sharedKey)
	if err != nil {
		t.Fatal(err)
	}
	getter, err := redis.NewPending(two, sharedKey)
	if err != nil {
		t.Fatal(err)
	}
	const secret = `{"token":"canary-4711"}`
	now := time.Now()
	if err := putter.Put("ap-NONE", []byte(secret)); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("arguments of no question: %v", err)
	}
	id := approved(t, one, "C1", "x", now)
	if err := putter.Put(id, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	if got, err := getter.Get(id); err != nil || string(got) != secret {
		t.Fatalf("Get = %q, %v", got, err)
	}
	c := raw(t, server.Address)
	name := "{" + o.Prefix + "}:pa:" + id
	sealed, err := c.Do(t.Context(), c.B().Get().Key(name).Build()).ToString()
	if err != nil || strings.Contains(sealed, "canary") {
		t.Errorf("the server sees %q, %v", sealed, err)
	}
	if ms, err := c.Do(t.Context(), c.B().Pttl().Key(name).Build()).AsInt64(); err != nil || ms <= 0 || ms > (2*time.Hour).Milliseconds() {
		t.Errorf("kept for %d ms, %v", ms, err)
	}
	// Under another approval's id it is nothing.
	other := asked(t, one, "C2", "y", now)
	if err := c.Do(t.Context(), c.B().Copy().Source(name).Destination("{"+o.Prefix+"}:pa:"+other).Replace().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if got, err := getter.Get(other); err == nil {
		t.Errorf("shown as another's: %q", got)
	}
	stranger, err := redis.NewPending(two, bytes.Repeat([]byte{8}, 32))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := stranger.Get(id); err == nil {
		t.Errorf("shown under another key: %q", got)
	}
	if ans, err := two.Admit(t.Context(), question("C3", "x", now)); err != nil || !ans.Admitted {
		t.Fatalf("Admit = %+v, %v", ans, err)
	}
	if got, err := getter.Get(id); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("after it is used: %q, %v", got, err)
	}
}

// A sweep leaves alone what another node is about to ask.
func TestPendingSweep(t *testing.T) {
	s := open(t, options(server))
	p, err := redis.NewPending(s, sharedKey)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	id := asked(t, s, "C1", "x", now)
	hidden, err := s.Admit(t.Context(), question("C2", "y", now))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{id, hidden.Approval.ID} {
		if err := p.Put(id, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for _, keep := range []bool{true, false} {
		if err := p.Sweep(func(string) bool { return keep }); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Get(id); (err == nil) != keep {
			t.Errorf("keep %v: Get = %v", keep, err)
		}
	}
	if _, err := p.Get(hidden.Approval.ID); err != nil {
		t.Errorf("arguments of a question that is not durable yet: %v", err)
	}
	if err := p.Drop(hidden.Approval.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(hidden.Approval.ID); err == nil {
		t.Error("dropped, and there")
	}
}

// Every node derives the same keys, and each tenant and day has its own.
func TestSalts(t *testing.T) {
	one, err := redis.NewSalts(sharedKey)
	if err != nil {
		t.Fatal(err)
	}
	two, err := redis.NewSalts(bytes.Clone(sharedKey))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := redis.NewSalts(sharedKey[:31]); err == nil {
		t.Error("a short key is taken")
	}
	seen := map[[32]byte]string{}
	for _, tenant := range []string{"", "a", "b", `a","2026-03-01`} {
		for _, day := range []time.Time{{}, noon, noon.Add(12*time.Hour - 1), noon.Add(12 * time.Hour)} {
			a, err := one.Key(tenant, day)
			b, err2 := two.Key(tenant, day.In(time.FixedZone("", 3600)))
			if err := errors.Join(err, err2); err != nil || a != b {
				t.Errorf("%q, %v: %v, two nodes have two keys", tenant, day, err)
			}
			of := tenant + " " + day.UTC().Format(time.DateOnly)
			if was, ok := seen[a]; ok && was != of {
				t.Errorf("%q and %q have one key", was, of)
			}
			seen[a] = of
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d keys", len(seen))
	}
}
