package redis_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// untrusted gives the session a label, on that node alone.
func untrusted(t *testing.T, s state.Store) {
	t.Helper()
	a := plain("L", time.Now())
	a.Labels, a.LabelsEnd = []string{"untrusted"}, time.Now().Add(time.Hour)
	admit(t, s, a)
}

// labelled reports whether the session has that label, once the server answers.
func labelled(t *testing.T, s state.Store) (has bool) {
	t.Helper()
	eventually(t, "the server is never ready", func() bool {
		got, err := s.Session(t.Context(), "s", time.Now())
		has = slices.Equal(got.Labels, []string{"untrusted"})
		return err == nil
	})
	return has
}

// A server that was emptied knows no nodes, and waits for all that there are.
func TestEmptiedServerWaitsForAll(t *testing.T) {
	srv := redistest.Start(t)
	p := newProxy(t, srv.Address)
	o := options(srv)
	o.Timeout = time.Second
	two := o
	two.Node, two.Address = "two", p.address
	a, b := open(t, o), open(t, two)
	untrusted(t, b)
	if _, err := a.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.set(cutAsking, false) // b can say nothing for a moment
	if _, err := srv.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Session(t.Context(), "s", time.Now()); err == nil {
		t.Error("it answers before the other node did")
	}
	p.set(pass, false)
	if !labelled(t, a) {
		t.Error("a session is trusted again, since its labels came from another node")
	}
}

// A node that the server did not wait for puts back its labels when it comes.
func TestLateNodePutsLabelsBack(t *testing.T) {
	srv := redistest.Start(t)
	p := newProxy(t, srv.Address)
	o := options(srv)
	a := open(t, o)
	o.Node, o.Address, o.Timeout = "two", p.address, time.Second
	b := open(t, o)
	older := copied(t, srv)
	untrusted(t, b)
	p.set(cutAsking, false)
	srv.Kill()
	restored(t, srv, older)
	srv.Run(t)
	c := raw(t, srv.Address)
	if err := c.Do(t.Context(), c.B().Hdel().Key("{"+o.Prefix+"}:nodes").Field("two").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if labelled(t, a) {
		t.Fatal("it cannot know")
	}
	p.set(pass, false)
	eventually(t, "the labels never come back", func() bool { return labelled(t, a) })
}

// A server's clock that was hours ahead, and is right again, has let expire that grants
// and approvals are used.
func TestServerClockStepsBack(t *testing.T) {
	o := options(server)
	s := open(t, o)
	st := stand(t, s)
	revoke(t, s)
	c := raw(t, server.Address)
	hours := c.B().Hincrby().Key("{" + o.Prefix + "}:meta").Field("clock").Increment(2 * 60 * 60).Build()
	if err := c.Do(t.Context(), hours).Error(); err != nil {
		t.Fatal(err)
	}
	st.void(t, s)
	if _, err := s.Epoch(t.Context()); err != nil {
		t.Error(err)
	}
}

// A vote against whose answer is lost is a vote, to be recorded, and not one that came
// too late. The arguments are gone with it.
func TestVoteAgainstIsSentTwice(t *testing.T) {
	s := open(t, options(server))
	p, err := redis.NewPending(s, sharedKey)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	id := asked(t, s, "C1", "x", now)
	if err := p.Put(id, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	v := call.Vote{Approval: id, By: call.RecordPrincipal{ID: "lena", Kind: "user", Roles: []string{"lead"}}, Principal: "p-lena", At: now, Deny: true}
	said, err := s.Against(t.Context(), v, 2)
	if err != nil || !slices.Equal(said, []string{"ok", "ok"}) {
		t.Errorf("the server says %q, %v", said, err)
	}
	if _, err := p.Get(id); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("Get = %v", err)
	}
}

// A log of which the server knows nothing voids what people approved once, and not again
// on every start of the node.
func TestLostOnce(t *testing.T) {
	o := options(server)
	s := open(t, o)
	before, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s, state.Recovery{Size: 5, Lost: true})
	after, err := s.Epoch(t.Context())
	if err != nil || after != before+1 {
		t.Errorf("epoch %d, then %d, %v", before, after, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = redis.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if m, err := s.Begin(t.Context()); err != nil || m.Index != 4 {
		t.Errorf("Begin = %+v, %v", m, err)
	}
	if _, err := s.Recover(t.Context(), state.Recovery{Size: 4}); !errors.Is(err, state.ErrLogBehind) {
		t.Errorf("a log that lost a record: %v", err)
	}
}

// A node with another key is refused while one runs that has the right one.
func TestNodesHaveOneKey(t *testing.T) {
	o := options(server)
	a := open(t, o)
	o.Node = "two"
	b := open(t, o)
	other := bytes.Repeat([]byte{8}, 32)
	for _, s := range []*redis.Store{a, a, b} {
		if err := s.CheckKey(t.Context(), sharedKey); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.CheckKey(t.Context(), other); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("CheckKey = %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.CheckKey(t.Context(), other); err != nil {
		t.Errorf("a new key when all others are stopped: %v", err)
	}
}
