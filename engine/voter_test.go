package engine_test

import (
	"errors"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

// Rules name users of the operating system as uid:N. Somebody whom an identity provider
// lets be called that is not that user: neither when they answer nor when they ask.
func TestOnlyTheSystemNamesItsUsers(t *testing.T) {
	d := call.Decision{Verdict: call.Ask, Approvals: []call.ApprovalRule{{Name: "owner", From: call.From{IDs: []string{"uid:1000"}}}}}
	e := open(t, engine.Options{Policy: always(d), Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}})
	c := echo("x")
	c.Principal.Tenant = ""
	id := asked(t, e, c)
	who := call.Principal{ID: "uid:1000", Kind: "user"}
	for _, method := range []string{"jwt", "mtls", "token"} {
		who.Auth = call.Auth{Method: method, Issuer: "https://idp.example"}
		if _, err := e.Vote(t.Context(), engine.Vote{Approval: id, By: who}); code(err) != call.CodePrincipalInvalid {
			t.Errorf("%s: Vote = %v", method, err)
		}
		if _, err := e.Reveal(t.Context(), id, who); code(err) != call.CodePrincipalInvalid {
			t.Errorf("%s: Reveal = %v", method, err)
		}
		asks := c
		asks.Principal = who
		if _, err := e.Do(t.Context(), asks); code(err) != call.CodePrincipalInvalid {
			t.Errorf("%s: Do = %v", method, err)
		}
		asks.Principal = c.Principal
		asks.Principal.OnBehalfOf = []call.Principal{who}
		if _, err := e.Do(t.Context(), asks); code(err) != call.CodePrincipalInvalid {
			t.Errorf("%s: Do on behalf of = %v", method, err)
		}
	}
	who.Auth = call.Auth{Method: "asserted", Issuer: "uid:7"}
	if _, err := e.Vote(t.Context(), engine.Vote{Approval: id, By: who}); !errors.Is(err, engine.ErrAsserted) {
		t.Errorf("Vote by a word = %v", err)
	}
	who.Auth = call.Auth{Method: "uid"}
	mustVote(t, e, id, who, false)
	if _, err := e.Do(t.Context(), c); err != nil {
		t.Errorf("Do = %v", err)
	}
}
