package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

const loginManifest = `
name: login
description: takes a password
kind: host
class: write
facts: none
input:
  type: object
  properties:
    user: {type: string}
    password: {type: string, writeOnly: true}
    keys: {type: array, items: {type: object, additionalProperties: false, properties: {name: {type: string}, on: {type: boolean, writeOnly: true}}}}
  additionalProperties: false
`

func login(manifest string) engine.Tool {
	return engine.Host(manifest, func(context.Context, *hostfx.Effects, map[string]any) (string, error) { return "", nil })
}

func loginCall() call.Call {
	return call.Call{Principal: alice, Tool: "login", Args: []byte(`{"user":"al","password":"canary-pässword","keys":[{"name":"k","on":true},{"name":"l","on":true}]}`)}
}

// What the schema marks as secret is masked for everybody who looks, and shown to
// those who are asked once it is recorded that they looked.
func TestRevealIsRecordedFirst(t *testing.T) {
	log := &memory{}
	pending, err := state.OpenPending(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Policy: always(asking(oneLead)), Log: log, Salts: fixedSalts{}, Pending: pending, Tools: []engine.Tool{login(loginManifest)}}
	e := open(t, o)
	id := asked(t, e, loginCall())
	q, err := e.Approval(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"keys":[{"name":"k","on":null},{"name":"l","on":null}],"password":null,"user":"al"}`; string(q.Args) != want {
		t.Errorf("shown %s, want %s", q.Args, want)
	}
	want := []engine.Masked{{At: "/keys/0/on", Type: "boolean"}, {At: "/keys/1/on", Type: "boolean"}, {At: "/password", Type: "string", Bytes: 16}}
	digests := map[string]bool{}
	for i, m := range q.Masked {
		if !strings.HasPrefix(m.Digest, "hmac-sha256:") {
			t.Errorf("%s has the digest %s", m.At, m.Digest)
		}
		digests[m.Digest] = true
		q.Masked[i].Digest = ""
	}
	if diff := cmp.Diff(want, q.Masked); diff != "" || len(digests) != 3 {
		t.Errorf("masked: %s; %d digests: equal values are seen to be equal", diff, len(digests))
	}
	again, err := e.Approval(t.Context(), id)
	if err != nil || !digests[again.Masked[2].Digest] {
		t.Errorf("the digest of one value changes: %+v, %v", again.Masked, err)
	}

	records := len(log.decoded(t))
	said, eve, elsewhere := lead, lead, lead
	said.Auth = call.Auth{Method: "asserted", Issuer: "uid:7"}
	eve.ID, eve.Roles = "eve", []string{"visitor"}
	elsewhere.Tenant = "other"
	requester := alice
	requester.Roles, requester.Auth = []string{"lead"}, lead.Auth
	for name, tt := range map[string]struct {
		by   call.Principal
		id   string
		want error
	}{
		"only asserted":     {said, id, engine.ErrAsserted},
		"nobody asked":      {eve, id, state.ErrMayNotVote},
		"the requester":     {requester, id, state.ErrMayNotVote},
		"another tenant":    {elsewhere, id, state.ErrMayNotVote},
		"nobody":            {call.Principal{Auth: lead.Auth}, id, engine.ErrDenied},
		"no such approval":  {lead, "ap-NONE", state.ErrNoApproval},
		"one acting for":    {call.Principal{ID: "x", Kind: "user", Roles: lead.Roles, Auth: lead.Auth, OnBehalfOf: []call.Principal{lead}}, id, engine.ErrDenied},
		"with another case": {call.Principal{ID: "ALICE", Kind: "user", Roles: lead.Roles, Auth: lead.Auth}, id, state.ErrMayNotVote},
	} {
		if q, err := e.Reveal(t.Context(), tt.id, tt.by); !errors.Is(err, tt.want) || q.Args != nil {
			t.Errorf("%s: %+v, %v; want %v", name, q, err, tt.want)
		}
	}
	if n := len(log.decoded(t)); n != records {
		t.Errorf("%d records of nobody looking", n-records)
	}
	q, err = e.Reveal(t.Context(), id, lead)
	if err != nil || !strings.Contains(string(q.Args), "canary-pässword") || q.Masked != nil {
		t.Errorf("Reveal = %s, %v", q.Args, err)
	}
	recs := log.decoded(t)
	if r := recs[len(recs)-1]; len(recs) != records+1 || r.Type != call.TypeReveal || r.Approval != id || r.Principal.ID != "lena" || r.Time.IsZero() || r.Change != nil {
		t.Errorf("record %+v", r)
	}
	log.mu.Lock()
	log.fail = errors.New("disk full")
	log.mu.Unlock()
	if q, err := e.Reveal(t.Context(), id, lead); code(err) != call.CodeLogUnavailable || q.Args != nil {
		t.Errorf("shown without a record: %s, %v", q.Args, err)
	}
	for _, line := range log.records {
		if strings.Contains(string(line), "canary") {
			t.Errorf("a record holds it: %s", line)
		}
	}
}

// Of a tool that is no longer the one that was asked about nobody knows what is
// secret.
func TestMaskOfAnotherTool(t *testing.T) {
	log := &memory{}
	pending, err := state.OpenPending(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Policy: always(asking(oneLead)), Log: log, Salts: fixedSalts{}, Pending: pending, Tools: []engine.Tool{login(loginManifest)}}
	e := open(t, o)
	id := asked(t, e, loginCall())
	e.Close()
	for name, tools := range map[string][]engine.Tool{
		"another one": {login(strings.Replace(loginManifest, ", writeOnly: true", "", 1))},
		"none":        {(&counted{}).tool()},
	} {
		o.Tools = tools
		e := open(t, o)
		q, err := e.Approval(t.Context(), id)
		if err != nil || string(q.Args) != "null" || len(q.Masked) != 1 || q.Masked[0].At != "" || q.Masked[0].Type != "object" {
			t.Errorf("%s: %s, %+v, %v", name, q.Args, q.Masked, err)
		}
		e.Close()
	}
}

// A reason is part of the vote's record, and what cannot stand there is no vote.
func TestVotersReason(t *testing.T) {
	log := &memory{}
	now := newClock()
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: log, Now: now.Now, Tools: []engine.Tool{(&counted{}).tool()}})
	id := asked(t, e, echo("x"))
	for _, reason := range []string{strings.Repeat("x", engine.MaxReason+1), "two\nlines", "\x1b[31m", "\u202e", "\u200b", "\xff", "\x00", "tab\t"} {
		for _, deny := range []bool{false, true} {
			if _, err := e.Vote(t.Context(), engine.Vote{Approval: id, By: lead, Deny: deny, Reason: reason}); !errors.Is(err, engine.ErrReason) {
				t.Errorf("%q: %v", reason, err)
			}
		}
	}
	if q, err := e.Approval(t.Context(), id); err != nil || q.Standing != state.Open {
		t.Fatalf("%+v, %v", q, err)
	}
	reason := strings.Repeat("ü", engine.MaxReason/2)
	if _, err := e.Vote(t.Context(), engine.Vote{Approval: id, By: lead, Reason: reason}); err != nil {
		t.Fatal(err)
	}
	recs := log.decoded(t)
	want := &call.Vote{Approval: id, By: *recs[len(recs)-1].Principal, Principal: engine.PrincipalDigest(lead), At: now.Now(), Reason: reason}
	if diff := cmp.Diff(want, recs[len(recs)-1].Change.Voted); diff != "" {
		t.Error(diff)
	}
	if q, err := e.Approval(t.Context(), id); err != nil || len(q.Votes) != 1 || q.Votes[0].Reason != reason || !q.Votes[0].At.Equal(now.Now()) {
		t.Errorf("%+v, %v", q.Votes, err)
	}
}

// Whoever is told of new questions is told once their record is durable, and can see
// when nobody needs to answer any more.
func TestAnnounce(t *testing.T) {
	type told struct {
		a     call.Approval
		class string
		open  func(context.Context) bool
	}
	log, heard := &memory{}, []told(nil)
	o := engine.Options{Policy: always(asking(oneLead)), Log: log, Tools: []engine.Tool{(&counted{}).tool()}}
	o.Announce = func(a call.Approval, class string, open func(context.Context) bool) {
		recs := log.decoded(t)
		if r := recs[len(recs)-1]; r.Change == nil || r.Change.Asked.ID != a.ID {
			t.Errorf("told of %s before it is recorded", a.ID)
		}
		heard = append(heard, told{a, class, open})
		if len(heard) > 2 {
			panic("canary")
		}
	}
	e := open(t, o)
	ids := []string{asked(t, e, echo("x")), asked(t, e, echo("y"))}
	asked(t, e, echo("x")) // known
	if len(heard) != 2 || heard[0].a.ID != ids[0] || heard[0].class != "read" || heard[1].a.ID != ids[1] {
		t.Fatalf("heard %+v", heard)
	}
	mustVote(t, e, ids[0], lead, true)
	for i, want := range []bool{false, true} {
		if got := heard[i].open(t.Context()); got != want {
			t.Errorf("question %d is open: %v", i, got)
		}
	}
	if id := asked(t, e, echo("z")); id == "" || len(heard) != 3 {
		t.Error("whoever panics at the news changes the answer")
	}
	log.mu.Lock()
	log.fail = errors.New("disk full")
	log.mu.Unlock()
	if _, err := e.Do(t.Context(), echo("unrecorded")); code(err) != call.CodeLogUnavailable || len(heard) != 3 {
		t.Errorf("Do = %v, heard of %s", err, fmt.Sprint(heard))
	}
}
