package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/internal/question"
)

const secondsPerDay = 24 * 60 * 60

// plan is what an admission does about approvals, decided here, on what the server had
// then. The script carries it out if nothing of that has changed.
type plan struct {
	on    looked
	keys  map[string]string // hash of a [question.Key] -> version
	found *question.Question
	fresh bool     // found is yet to be asked
	stale []string // ids of those that were approved, but not as the call would run now
	use   bool     // found is approved
	err   error    // why nothing can be done
}

type planRequest struct {
	Kind     string           `json:"kind"` // use, ask, wait or error
	Epoch    string           `json:"epoch"`
	Revs     string           `json:"revs"`
	Tenant   string           `json:"tenant"`
	Days     string           `json:"days"`
	Keys     []keyVersion     `json:"keys"`
	Void     []string         `json:"void"`
	ID       string           `json:"id,omitzero"`      // of use
	Expires  string           `json:"expires,omitzero"` // of use
	Waiting  string           `json:"waiting"`
	Question *questionRequest `json:"question,omitzero"` // of ask
}

type keyVersion struct {
	Key     string `json:"key"`
	Version string `json:"version"`
}

// questionRequest is a question as the server keeps it.
type questionRequest struct {
	ID        string `json:"id"`
	Asked     string `json:"asked"`
	Key       string `json:"key"`
	Expires   string `json:"expires"`
	Principal string `json:"principal"`
	Tenant    string `json:"tenant"`
	Day       string `json:"day"`
}

// hash makes a short key of what may be long, or anybody's business.
func hash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func keyOf(about string, r call.RecordPrincipal) string { return hash(question.Key(about, r)) }

// idOf is the id of the question that the admission may lead to.
func idOf(a state.Admission) string { return "ap-" + a.Call }

// plan reads the questions about this very call and decides.
func (s *Store) plan(ctx context.Context, a state.Admission) (*plan, error) {
	today := strconv.FormatInt(a.Now.Unix()/secondsPerDay, 10)
	days := []string{today}
	for range plans {
		r := &lookRequest{request: request{at: a.Now}, Tenant: hash(a.Requester.Tenant), Ask: idOf(a), Principal: a.Principal}
		if !a.Peek {
			r.Again = a.Call
		}
		exact, err := bind(a, days, r)
		if err != nil {
			return &plan{err: err}, nil
		}
		on, err := s.look(ctx, r)
		if err != nil {
			return nil, err
		}
		// What was asked on a day is bound under its key. Nobody knows which days there
		// are before the server says so.
		want := append(days[:0:0], on.days...)
		today = strconv.FormatInt(on.now.Unix()/secondsPerDay, 10)
		if !slices.Contains(want, today) {
			want = append(want, today)
		}
		slices.Sort(want)
		if !slices.Equal(want, days) {
			days = want
			continue
		}
		p := &plan{on: on, keys: map[string]string{}}
		for i, key := range r.Keys {
			p.keys[key] = on.versions[i]
		}
		p.choose(a, exact)
		if p.found == nil {
			if err := s.ask(ctx, p, a); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
	return nil, refused{errChanges}
}

// bind asks for the questions that are bound under the keys of these days.
func bind(a state.Admission, days []string, r *lookRequest) (exact map[string]string, err error) {
	exact = map[string]string{}
	for _, day := range days {
		n, err := strconv.ParseInt(day, 10, 64)
		if err != nil {
			return nil, errors.New("redis: a day that is none")
		}
		b, err := a.Bind(time.Unix(n*secondsPerDay, 0).UTC())
		if err != nil {
			return nil, err
		}
		key := keyOf(b.About, a.Requester)
		if _, ok := exact[key]; !ok {
			exact[key] = b.Exact
			r.Keys = append(r.Keys, key)
		}
	}
	return exact, nil
}

// choose finds the question that the call is to wait for or to use.
func (p *plan) choose(a state.Admission, exact map[string]string) {
	now := question.Now{Rules: question.Plain(a.Asks), Tool: a.Tool, Policy: a.Policy, At: p.on.now, Revoked: p.on.revoked}
	best := 0
	for _, q := range p.on.questions {
		now.Binding = exact[q.key]
		if rank := q.Rank(now); rank > best {
			p.found, best = &q.Question, rank
		}
		if q.Stale(now) {
			p.stale = append(p.stale, q.Asked.ID)
		}
	}
	p.stale = append(p.stale, p.on.voided...)
	slices.Sort(p.stale)
	p.stale = slices.Compact(p.stale)
	p.use = p.found != nil && p.found.Standing(p.on.now, p.on.revoked) == question.Approved
}

// ask makes a question, if the principal may ask another one.
func (s *Store) ask(ctx context.Context, p *plan, a state.Admission) error {
	a.Now = p.on.now
	asked, err := a.Ask(p.on.of.epoch)
	switch {
	case err != nil:
		p.err = err
		return nil
	case p.on.exists:
		p.err = fmt.Errorf("%s was asked before, about something else", asked.ID)
		return nil
	case p.on.waiting >= question.MaxPending:
		// Some of those may be approved, and are not pending then.
		all, err := s.look(ctx, &lookRequest{request: request{at: a.Now}, All: true, Principal: a.Principal})
		if err != nil {
			return err
		}
		n := 0
		for _, q := range all.questions {
			if q.Standing(all.now, all.revoked) == question.Open {
				n++
			}
		}
		if n >= question.MaxPending {
			p.err = state.ErrTooManyPending
			return nil
		}
	}
	p.found, p.fresh = &question.Question{Asked: asked}, true
	return nil
}

// request is the plan as the script needs it.
func (p *plan) request() (*planRequest, error) {
	if p.err != nil {
		return &planRequest{Kind: "error"}, nil
	}
	r := &planRequest{
		Kind: "wait", Epoch: decimal(p.on.of.epoch), Revs: decimal(p.on.of.revs), Tenant: p.on.tenant, Days: strings.Join(p.on.days, ","),
		Void: p.stale, Waiting: strconv.Itoa(p.on.waiting),
	}
	for key, v := range p.keys {
		r.Keys = append(r.Keys, keyVersion{key, v})
	}
	switch {
	case p.use:
		r.Kind, r.ID, r.Expires = "use", p.found.Asked.ID, nanos(p.found.Asked.Expires)
	case p.fresh:
		q, err := keep(p.found.Asked)
		if err != nil {
			return nil, err
		}
		r.Kind, r.Question = "ask", q
	}
	return r, nil
}

// keep is a question as the server keeps it.
func keep(asked *call.Approval) (*questionRequest, error) {
	text, err := json.Marshal(asked, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return &questionRequest{
		ID: asked.ID, Asked: string(text), Key: keyOf(asked.About, asked.Requester), Expires: nanos(asked.Expires),
		Principal: asked.Principal, Tenant: hash(asked.Requester.Tenant), Day: strconv.FormatInt(asked.Asked.Unix()/secondsPerDay, 10),
	}, nil
}

// answer is what becomes of the call when the script has carried the plan out, and has
// admitted nothing.
func (p *plan) answer(a state.Admission, out state.Answer) (state.Answer, error) {
	if p.err != nil {
		return state.Answer{}, refused{p.err}
	}
	if !a.Peek {
		out.Change.Voided = p.stale
	}
	out.Stale, out.Admitted = len(p.stale) > 0 && !p.use, p.use
	v := p.on.view(p.found)
	out.Approval = &v
	switch {
	case p.found.Durable:
	case a.Peek:
		v.ID = ""
	default:
		// Whoever is told of it records it: the record of whoever asked first may never
		// become durable.
		out.Change.Asked = p.found.Asked
	}
	return out, nil
}
