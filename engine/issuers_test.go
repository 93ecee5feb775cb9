package engine_test

import (
	"crypto/ed25519"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/token"
)

// What an issuer calls its grants says nothing about those of another: one that is
// trusted too cannot spend them, and gets no second run either.
func TestGrantsOfTwoIssuers(t *testing.T) {
	otherKey := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", 32)))
	otherPublic := otherKey.Public().(ed25519.PublicKey)
	v, err := token.NewVerifier(
		token.Issuer{Name: "decider", Keys: grantKeys},
		token.Issuer{Name: "other", Keys: token.Set{token.Thumbprint(otherPublic): otherPublic}},
	)
	if err != nil {
		t.Fatal(err)
	}
	h := apart(t, func(_, r *engine.Options) { r.Grants = &engine.Grants{Issuers: v, Audience: "runner"} })
	c := echo("x")
	raw := h.issue(c)
	p, err := token.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	others, err := token.NewSigner(otherKey)
	if err != nil {
		t.Fatal(err)
	}
	claims := p.Unverified()
	forged, err := others.Sign(t.Context(), claims) // in the first one's name
	if err != nil {
		t.Fatal(err)
	}
	h.refused(forged, c, call.CodeGrantInvalid)
	claims.Issuer = "other"
	same, err := others.Sign(t.Context(), claims) // in its own, with the same id
	if err != nil {
		t.Fatal(err)
	}
	h.runs(same, c)
	h.runs(raw, c)
	h.refused(same, c, call.CodeGrantSpent)
	h.refused(raw, c, call.CodeGrantSpent)
	h.runner = open(t, h.runners) // what is folded from the log says the same
	h.refused(same, c, call.CodeGrantSpent)
	h.refused(raw, c, call.CodeGrantSpent)
	if h.tool.count() != 2 {
		t.Errorf("%d runs", h.tool.count())
	}
}

// Grants that run and the revocation that ends them meet at one place: once Revoke has
// returned, none of them starts any more, and each that was refused was not spent.
func TestRevokeRacesExecute(t *testing.T) {
	const racers = 64
	for name, r := range map[string]call.Revocation{"the principal": {Principal: engine.PrincipalDigest(alice)}, "the tool": {Tool: "echo"}, "everything": {Epoch: 1}} {
		h := apart(t, nil)
		c := echo("x")
		raws := make([]string, racers)
		for i := range raws {
			raws[i] = h.issue(c)
		}
		var revoked atomic.Bool
		var ran atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, raw := range raws {
			wg.Go(func() {
				<-start
				if i == racers/2 {
					if err := h.runner.Revoke(t.Context(), r); err != nil {
						t.Error(err)
					}
					revoked.Store(true)
				}
				late := revoked.Load()
				_, err := h.execute(raw, c)
				switch {
				case err == nil && late:
					t.Errorf("%s: runs after it was revoked", name)
				case err == nil:
					ran.Add(1)
				case code(err) != call.CodeRevoked:
					t.Errorf("%s: Execute = %v", name, err)
				}
			})
		}
		close(start)
		wg.Wait()
		spent := int64(0)
		for _, rec := range h.ran.decoded(t) {
			if rec.Change != nil {
				spent += int64(len(rec.Change.Spent))
			}
		}
		if spent != ran.Load() || int64(h.tool.count()) != spent {
			t.Errorf("%s: %d ran, %d runs of the tool, %d spent", name, ran.Load(), h.tool.count(), spent)
		}
	}
}
