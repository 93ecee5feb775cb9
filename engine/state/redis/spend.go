package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

type refundRequest struct {
	request
	ID    string `json:"id"`
	Nonce string `json:"nonce"` // of this request, however often it is sent
	Units []used `json:"units"`
}

type used struct {
	Key   string `json:"key"`
	Units string `json:"units"`
}

// Refund implements [state.Store].
func (s *Store) Refund(ctx context.Context, callID string, back call.Uses) (call.Change, error) {
	r := &refundRequest{ID: callID, Nonce: rand.Text()}
	for _, key := range slices.Sorted(maps.Keys(back)) {
		if n := back[key].Units; n > 0 {
			r.Units = append(r.Units, used{key, fixed(n)})
		}
	}
	ans, err := s.run(ctx, refund, r)
	if err != nil {
		return call.Change{}, err
	}
	var c call.Change
	got := ans.texts(0)
	for i := 0; i+1 < len(got); i += 2 {
		if len(got[i+1]) != 2*19 {
			return call.Change{}, errors.New("redis: units that are none")
		}
		n, err := units(got[i+1][:19])
		end, err2 := units(got[i+1][19:])
		if err := errors.Join(err, err2); err != nil {
			return call.Change{}, err
		}
		if c.Used == nil {
			c.Used = call.Uses{}
		}
		c.Used[got[i]] = call.Use{Units: -n, End: end}
	}
	return c, nil
}

type spendRequest struct {
	request
	ID      string   `json:"id"`
	Nonce   string   `json:"nonce"` // of this request, however often it is sent
	Expires string   `json:"expires"`
	Epoch   string   `json:"epoch"`
	Who     []string `json:"who"`
}

// Spend implements [state.Store].
func (s *Store) Spend(ctx context.Context, g state.Spend) (call.Change, error) {
	if err := errors.Join(within(g.Now), g.Check()); err != nil {
		return call.Change{}, err
	}
	r := &spendRequest{
		request: request{at: g.Now}, ID: g.ID, Nonce: rand.Text(), Expires: nanos(g.Expires), Epoch: decimal(g.Epoch), Who: []string{"t" + g.Tool},
	}
	for _, p := range g.Principals {
		r.Who = append(r.Who, "p"+p)
	}
	ans, err := s.run(ctx, spend, r)
	switch {
	case err != nil:
		return call.Change{}, err
	case ans.status == "ok":
		return call.Change{Spent: []call.Spent{{ID: g.ID, Expires: g.Expires.UTC()}}}, nil
	case ans.status == "spent":
		return call.Change{}, state.ErrSpent
	case ans.status == "revoked":
		return call.Change{}, state.ErrRevoked
	default:
		return call.Change{}, errors.New("redis: a grant whose time is over")
	}
}
