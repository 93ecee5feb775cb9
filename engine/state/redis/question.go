package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/rueidis"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// page is how many questions are read in one script.
const page = 128

type lookRequest struct {
	request
	Tenant    string   `json:"tenant,omitzero"` // hash: asks for its days
	Keys      []string `json:"keys"`            // asks for all questions under them
	IDs       []string `json:"ids"`             // asks for these
	Ask       string   `json:"ask,omitzero"`    // asks whether this one exists
	Again     string   `json:"again,omitzero"`  // asks what the admission of this call voided before
	Principal string   `json:"principal,omitzero"`
	All       bool     `json:"all,omitzero"`  // asks for all of the principal's
	List      string   `json:"list,omitzero"` // asks for a page of all that there are, from there on
	Page      string   `json:"page,omitzero"`
}

// looked is what the server had at one time.
type looked struct {
	answer
	tenant    string
	days      []string
	versions  []string // of the keys asked for
	questions []asked
	exists    bool
	waiting   int // of the principal's questions, those that may be open
	listed    int
	voided    []string // by an admission of this very call, whose answer was lost
	revoked   func(principal string) bool
}

type asked struct {
	question.Question
	key, version string
}

// look reads questions, with everybody who was revoked by then.
func (s *Store) look(ctx context.Context, r *lookRequest) (looked, error) {
	if !r.at.IsZero() {
		if err := within(r.at); err != nil {
			return looked{}, err
		}
	}
	for range tries {
		ans, err := s.run(ctx, look, r)
		if err != nil {
			return looked{}, err
		}
		if revoked, ok := s.revokedAt(ans.of); ok {
			return readLook(ans, r.Tenant, revoked)
		}
		if err := s.learnUntil(ctx, ans.of); err != nil {
			return looked{}, err
		}
	}
	return looked{}, errors.New("redis: revocations change faster than they are read")
}

func readLook(ans answer, tenant string, revoked func(string) bool) (looked, error) {
	l := looked{answer: ans, tenant: tenant, revoked: revoked, versions: ans.texts(1)}
	if len(ans.rest) < 7 {
		return l, errors.New("redis: an answer that is too short")
	}
	if days := ans.text(0); days != "" {
		l.days = strings.Split(days, ",")
	}
	exists, err := ans.rest[3].AsInt64()
	waiting, err2 := ans.rest[4].AsInt64()
	listed, err3 := ans.rest[5].AsInt64()
	list, err4 := ans.rest[2].ToArray()
	voided, err5 := voids(ans.text(6))
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return l, err
	}
	l.voided = voided
	l.exists, l.waiting, l.listed = exists == 1, int(waiting), int(listed)
	for _, m := range list {
		q, err := readQuestion(m, ans.of.epoch)
		if err != nil {
			return l, err
		}
		l.questions = append(l.questions, q)
	}
	return l, nil
}

// voids is which questions the server says an admission voided; "" is none.
func voids(text string) (ids []string, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return nil, errors.New("redis: ids that are none")
	}
	return ids, nil
}

func readQuestion(m rueidis.RedisMessage, epoch int64) (q asked, err error) {
	parts, err := m.AsStrSlice()
	if err != nil || len(parts) < 5 {
		return q, errors.New("redis: a question that is none")
	}
	q.key, q.version = parts[3], parts[4]
	q.Asked = &call.Approval{}
	if err := json.Unmarshal([]byte(parts[1]), q.Asked, json.RejectUnknownMembers(true)); err != nil {
		return q, errors.New("redis: a question that this version cannot read")
	}
	q.Durable, q.Consumed = strings.Contains(parts[2], "d"), strings.Contains(parts[2], "c")
	q.Void = strings.Contains(parts[2], "v") || q.Asked.Epoch != epoch // a newer one was lost
	slices.Sort(parts[5:])
	for _, text := range parts[5:] {
		var v call.Vote
		if err := json.Unmarshal([]byte(text), &v, json.RejectUnknownMembers(true)); err != nil {
			return q, errors.New("redis: a vote that this version cannot read")
		}
		q.Vote(v)
	}
	return q, nil
}

// view is a copy of the question for others.
func (l looked) view(q *question.Question) state.Approval {
	asked, votes := q.View()
	return state.Approval{Approval: asked, Standing: q.Standing(l.now, l.revoked), Votes: votes}
}

type applyRequest struct {
	request
	Question *questionRequest `json:"question,omitzero"`

	Vote    string `json:"vote,omitzero"`
	ID      string `json:"id,omitzero"` // of what is voted on
	Deny    bool   `json:"deny,omitzero"`
	Version string `json:"version,omitzero"` // of the question when it was read; with Epoch
	Epoch   string `json:"epoch,omitzero"`

	Session *sessionChange `json:"session,omitzero"`
}

func (r *applyRequest) vote(v *call.Vote) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	r.Vote, r.ID, r.Deny = string(text), v.Approval, v.Deny
	return err
}

// Vote implements [state.Store].
func (s *Store) Vote(ctx context.Context, v call.Vote, now time.Time) (call.Change, error) {
	for range plans {
		on, err := s.look(ctx, &lookRequest{request: request{at: now}, IDs: []string{v.Approval}})
		if err != nil {
			return call.Change{}, err
		}
		if len(on.questions) == 0 || on.questions[0].Gone(on.now) {
			return call.Change{}, state.ErrNoApproval
		}
		q := on.questions[0]
		if !q.MayVote(v.By) {
			return call.Change{}, state.ErrMayNotVote
		}
		switch st := q.Standing(on.now, on.revoked); {
		case st == question.Open, st == question.Approved && v.Deny:
		case st == question.Approved:
			return call.Change{}, nil
		default:
			return call.Change{}, state.ErrNoApproval
		}
		if q.Said(v) {
			return call.Change{}, nil
		}
		if !v.Deny {
			return call.Change{Voted: &v}, nil
		}
		// Against: at once, unless it is over by now.
		r := &applyRequest{request: request{at: now}, Version: q.version, Epoch: decimal(on.of.epoch)}
		if err := r.vote(&v); err != nil {
			return call.Change{}, err
		}
		ans, err := s.run(ctx, apply, r)
		s.wake()
		switch {
		case err != nil:
			return call.Change{}, err
		case ans.status == "gone":
			return call.Change{}, state.ErrNoApproval
		case ans.status == "ok":
			return call.Change{Voted: &v}, nil
		}
	}
	return call.Change{}, errChanges
}

// Apply implements [state.Store]. A vote on what the server does not know any more is
// [state.ErrNoApproval].
func (s *Store) Apply(ctx context.Context, c call.Change) error {
	r := &applyRequest{}
	var err error
	if c.Asked != nil {
		if s.o.operationClock {
			r.at = c.Asked.Asked
		}
		if r.Question, err = keep(c.Asked); err != nil {
			return err
		}
	}
	if c.Voted != nil {
		if err := r.vote(c.Voted); err != nil {
			return err
		}
	}
	if c.Session != nil {
		change := changeOf(*c.Session)
		r.Session = &change
	}
	if c.Asked == nil && c.Voted == nil && c.Session == nil {
		return nil
	}
	ans, err := s.run(ctx, apply, r)
	if c.Asked != nil || c.Voted != nil {
		s.wake()
	}
	if err == nil && ans.status == "gone" {
		return state.ErrNoApproval
	}
	if err == nil && c.Session != nil && c.Session.Ended {
		s.recall(*c.Session, ans.now)
	}
	return err
}

// Approvals implements [state.Store].
func (s *Store) Approvals(ctx context.Context, now time.Time) ([]state.Approval, error) {
	var out []state.Approval
	seen := map[string]bool{} // pages may overlap
	for from := 0; ; from += page {
		l, err := s.look(ctx, &lookRequest{request: request{at: now}, List: strconv.Itoa(from), Page: strconv.Itoa(page)})
		if err != nil {
			return nil, err
		}
		for _, q := range l.questions {
			if q.Gone(l.now) || seen[q.Asked.ID] {
				continue
			}
			seen[q.Asked.ID] = true
			if st := q.Standing(l.now, l.revoked); st == question.Open || st == question.Approved {
				out = append(out, l.view(&q.Question))
			}
		}
		if l.listed < page {
			break
		}
	}
	slices.SortFunc(out, func(a, b state.Approval) int {
		return cmp.Or(a.Asked.Compare(b.Asked), strings.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Approval implements [state.Store].
func (s *Store) Approval(ctx context.Context, id string, now time.Time) (state.Approval, error) {
	l, err := s.look(ctx, &lookRequest{request: request{at: now}, IDs: []string{id}})
	if err != nil {
		return state.Approval{}, err
	}
	if len(l.questions) == 0 || l.questions[0].Gone(l.now) {
		return state.Approval{}, state.ErrNoApproval
	}
	return l.view(&l.questions[0].Question), nil
}
