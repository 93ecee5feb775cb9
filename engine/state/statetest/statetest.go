// Package statetest is the definition of a [state.Store]: the suite that every
// implementation passes, under the race detector.
package statetest

import (
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Start is the time of the first call in most tests.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// racers is how many goroutines race where one outcome is allowed.
const racers = 64

// Run checks one kind of store. Open returns an empty one, every time.
func Run(t *testing.T, open func(t *testing.T) state.Store) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, store)
	}{
		{"limits/table", limits},
		{"limits/retry when told", retryWhenTold},
		{"limits/the longest wait is told", longestWait},
		{"limits/all or none", allOrNone},
		{"limits/one key twice", oneKeyTwice},
		{"limits/nonsense", nonsense},
		{"limits/racers get the burst", racersGetTheBurst},
		{"counted/until the end", countsUntilTheEnd},
		{"counted/all or none", countsAllOrNone},
		{"counted/peek", peekCounts},
		{"counted/refunds", refunds},
		{"counted/released", releasesCounts},
		{"counted/racers reserve", racersReserve},
		{"counted/racers refund", racersRefund},
		{"keys/capped", keysAreCapped},
		{"keys/of windows", windowsFreeTheirKeys},
		{"keys/racers", racersForKeys},
		{"calls/once", once},
		{"sessions/labels", labels},
		{"sessions/labels end", labelsEnd},
		{"sessions/foreign", foreign},
		{"sessions/end", sessionEnds},
		{"sessions/ended", sessionIsEnded},
		{"sessions/racers on a label", racersOnALabel},
		{"plans/of a session", plansOf},
		{"plans/refused", plansRefuse},
		{"plans/end", plansEnd},
		{"plans/racers", racersOnAPlan},
		{"approvals/asked once", askedOnce},
		{"approvals/binding", binding},
		{"approvals/across midnight", acrossMidnight},
		{"approvals/cannot tell", cannotTell},
		{"approvals/who may vote", whoMayVote},
		{"approvals/how many", howMany},
		{"approvals/asked of nobody", askedOfNobody},
		{"approvals/wall clock", wallClock},
		{"approvals/acts when durable", actsWhenDurable},
		{"approvals/hidden until durable", hiddenUntilDurable},
		{"approvals/revoked voter", revokedVoter},
		{"approvals/oneself", oneself},
		{"approvals/denied", denied},
		{"approvals/expires", expires},
		{"approvals/stricter rules", stricterRules},
		{"approvals/stale", stale},
		{"approvals/stale beside another", staleBesideAnother},
		{"approvals/too many pending", tooManyPending},
		{"approvals/racers pending", racersPending},
		{"approvals/consumed once", consumedOnce},
		{"approvals/limit refuses", limitRefuses},
		{"approvals/listed", listed},
		{"approvals/the clock steps back", clockStepsBack},
		{"revocation/principal and tool", revocation},
		{"revocation/epoch", epoch},
		{"grants/spent once", spends},
		{"grants/racers", racersSpend},
		{"release/once", releases},
		{"release/racers", racersRelease},
		{"release/late", releasesLate},
		{"changed", changed},
		{"peek/limits", peekLimits},
		{"peek/approvals", peekApprovals},
		{"peek/refused", peekRefused},
		{"peek/changes nothing", func(t *testing.T, s store) { peekChangesNothing(t, s, store{open(t)}) }},
		{"names/hostile", names},
		{"everything at once", everything},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, store{open(t)}) })
	}
}

// store is the store under test with what tests say often.
type store struct{ state.Store }

func (s store) admit(t *testing.T, a state.Admission) state.Answer {
	t.Helper()
	ans, err := s.Admit(t.Context(), a)
	if err != nil {
		t.Fatalf("Admit(%s) = %v", a.Call, err)
	}
	return ans
}

func (s store) apply(t *testing.T, c call.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), c); err != nil {
		t.Errorf("Apply(%+v) = %v", c, err)
	}
}

func (s store) session(t *testing.T, id string, now time.Time) state.Session {
	t.Helper()
	got, err := s.Session(t.Context(), id, now)
	if err != nil {
		t.Fatalf("Session(%s) = %v", id, err)
	}
	return got
}

// asked admits a call that must wait, makes its question durable, and returns the
// id of its approval.
func (s store) asked(t *testing.T, a state.Admission) string {
	t.Helper()
	ans := s.admit(t, a)
	if ans.Admitted || ans.Approval == nil || ans.Approval.Standing != state.Open {
		t.Fatalf("Admit(%s) = %+v, want a pending approval", a.Call, ans)
	}
	s.apply(t, ans.Change)
	return ans.Approval.ID
}

// vote votes and makes the vote durable.
func (s store) vote(t *testing.T, id string, by call.RecordPrincipal, deny bool) {
	t.Helper()
	c, err := s.Vote(t.Context(), call.Vote{Approval: id, By: by, Deny: deny}, Start)
	if err != nil {
		t.Fatalf("Vote(%s by %s) = %v", id, by.ID, err)
	}
	s.apply(t, c)
}

func (s store) standing(t *testing.T, id string, now time.Time) state.Standing {
	t.Helper()
	a, err := s.Approval(t.Context(), id, now)
	if err != nil {
		t.Fatalf("Approval(%s) = %v", id, err)
	}
	return a.Standing
}

// plain is a call that needs nothing but its charges.
func plain(id string, charges ...state.Charge) state.Admission {
	return state.Admission{
		Call: id, Now: Start, Principal: "p-alice", Session: "s", Charges: charges,
		Requester: person("alice"), Tool: call.RecordTool{Name: "echo", Kind: "host", Digest: "sha256:1"},
	}
}

// bucket holds burst units that refill within a minute.
func bucket(key string, burst int64) state.Charge {
	return state.Charge{Name: key, Key: key, Burst: burst, Cost: 1, Per: time.Minute}
}

// asking is a call about what that one lead must approve, unless rules say
// otherwise.
func asking(id, what string, rules ...call.ApprovalRule) state.Admission {
	a := plain(id)
	a.Asks, a.Bind = rules, bindTo(what)
	if len(rules) == 0 {
		a.Asks = []call.ApprovalRule{lead}
	}
	return a
}

var lead = call.ApprovalRule{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}, Reason: "because"}

// bindTo is the binding of one call, different on every day.
func bindTo(what string) func(time.Time) (state.Binding, error) {
	return func(day time.Time) (state.Binding, error) {
		b := day.UTC().Format(time.DateOnly) + " " + what
		return state.Binding{Exact: b, About: b}, nil
	}
}

func person(id string, roles ...string) call.RecordPrincipal {
	return call.RecordPrincipal{ID: id, Kind: "user", Tenant: "acme", Roles: roles, Auth: call.Auth{Method: "jwt", Issuer: "https://idp.example"}}
}

func at(a state.Admission, now time.Time) state.Admission {
	a.Now = now
	return a
}
