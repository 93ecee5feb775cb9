package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// reservation is what a call takes, when it is admitted, of a limit that counts.
type reservation struct {
	name, key string // the limit's, as people read it and as the state has it
	charge    string // "" for what is known beforehand
	units     int64
	end       time.Time
}

// charges are what the call takes of limits when it is admitted: of what is known only
// afterwards, the most that it can be, so that no calls together use more than there
// is.
func (p *passage) charges() ([]state.Charge, error) {
	var out []state.Charge
	p.reserved = nil
	for _, l := range p.decision.Limits {
		c, err := p.chargeOf(l)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		if l.Counted() {
			p.reserved = append(p.reserved, reservation{name: c.Name, key: c.Key, charge: l.Charge, units: c.Cost, end: c.End})
		}
	}
	return out, nil
}

func (p *passage) chargeOf(l call.Limit) (state.Charge, error) {
	if call.Unmeasured(l.Charge) {
		return state.Charge{}, &call.Error{Code: call.CodeObligationUnsupported, Detail: "nobody measures what a limit charges"}
	}
	if l.Flaw() != "" {
		return state.Charge{}, &call.Error{Code: call.CodePolicyShape, Detail: "a limit is malformed"}
	}
	c := state.Charge{Name: call.InLayer(l.Layer, l.Name), Burst: l.Burst, Cost: max(1, l.Cost)}
	if call.Measured(l.Charge) {
		most, known := p.caps.Bounds.Ceiling(l.Charge)
		if !known {
			return c, &call.Error{Code: call.CodePolicyShape, Detail: "a limit charges " + l.Charge + ", which nothing bounds for this call"}
		}
		c.Cost = most
	}
	var err error
	if !l.Counted() {
		c.Per, _ = time.ParseDuration(l.Per)
		c.Key, err = p.limitKey(l)
		return c, err
	}
	begin, end := l.Window(p.at)
	c.Per, c.End = end.Sub(begin), end
	c.Key, err = p.limitKey(l, l.Per, strconv.FormatInt(begin.UnixNano(), 10))
	return c, err
}

// settleTimeout bounds how long a result waits for the state to take units back.
const settleTimeout = 5 * time.Second

// settleDown gives back what the run did not use of what the call reserved, and says
// what it used. A state that does not answer is no reason for a call that ran to fail:
// then the units stay taken.
func (p *passage) settleDown(o call.Outcome, output int) (used []call.Charged, change call.Change) {
	back := call.Uses{}
	for _, r := range p.reserved {
		units := r.units // of what nobody knows
		if o.Status == call.NotStarted {
			units = 0
		} else if r.charge != "" {
			n, known := p.used(r.charge, o, output)
			if known {
				units = min(n, maxUnits)
			}
			used = append(used, call.Charged{Limit: r.name, Charge: r.charge, Reserved: r.units, Used: units, Unknown: !known})
		}
		if units > r.units && !call.Measured(r.charge) {
			p.e.log.Warn().Str("call", p.id).Str("limit", r.name).Int64("reserved", r.units).Int64("used", units).Msg("used more than a limit reserved")
		}
		if units < r.units {
			back[r.key] = call.Use{Units: r.units - units, End: r.end.UnixNano()}
		}
	}
	if len(back) == 0 {
		return used, change
	}
	change, err := p.refund(back)
	if err != nil {
		p.e.log.Error().AnErr("cause", err).Str("call", p.id).Msg("not given back to limits")
	}
	return used, change
}

func (p *passage) refund(back call.Uses) (change call.Change, err error) {
	defer p.e.caught(&err)
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	return p.e.o.State.Refund(ctx, p.id, back)
}

// maxUnits is what every reader of a record keeps.
const maxUnits = 1<<53 - 1

// used is what the run used of the charge, if anybody knows. What a tool says counts
// when it came to its own end: one that was stopped may have used more.
func (p *passage) used(charge string, o call.Outcome, output int) (units int64, known bool) {
	switch {
	case o.Status != call.Succeeded && o.Status != call.Failed || o.Code == call.CodeInternal:
		return 0, false
	case charge == call.ChargeTime:
		return int64((o.Took + time.Millisecond - 1) / time.Millisecond), o.Took >= 0
	case charge == call.ChargeOutput && (!p.outside || o.Status == call.Succeeded):
		return int64(output), o.Code != call.CodeOutputExceeded
	case charge == call.ChargeHTTP && !p.outside:
		return p.httpBytes, p.measured
	case charge == call.ChargeFuel && !p.outside && p.tool.module != nil:
		return o.Fuel, true
	}
	n, ok := p.reported[charge]
	own := o.Status == call.Succeeded || o.Code == call.CodeToolError || o.Code == call.CodeOutputExceeded
	return n, ok && own && n >= 0
}
