package state

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

// What is counted by principal is what a look at every question counts, whatever
// happens to them and in whatever order the log says it.
func TestPendingCountsWhatIsOpen(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		l := NewLocal()
		now := start
		principal := func() string { return rapid.SampledFrom([]string{"p-a", "p-b"}).Draw(t, "principal") }
		id := func() string { return fmt.Sprint("ap-", rapid.IntRange(0, 9).Draw(t, "id")) }
		of := map[string]*call.Approval{} // one id is always about one thing
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0, 1:
				name := id()
				if of[name] == nil {
					of[name] = &call.Approval{
						ID: name, About: "about " + name, Principal: principal(), Asked: now, Epoch: l.epoch,
						Expires: now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "ttl")) * time.Minute),
						Rules:   []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}},
					}
				}
				l.Fold(call.Change{Asked: of[name]})
			case 2:
				by := call.RecordPrincipal{ID: "lena", Roles: []string{"lead"}}
				l.Fold(call.Change{Voted: &call.Vote{Approval: id(), By: by, Principal: "v-lena", Deny: rapid.Bool().Draw(t, "deny")}})
			case 3:
				l.Fold(call.Change{Consumed: []string{id()}, Voided: []string{id()}})
			case 4:
				r := rapid.SampledFrom([]call.Revocation{{Epoch: l.epoch + 1}, {Principal: "v-lena"}}).Draw(t, "revocation")
				l.Fold(call.Change{Revoked: &r})
			case 5:
				now = now.Add(time.Duration(rapid.IntRange(-2, 4).Draw(t, "minutes")) * time.Minute)
			case 6:
				l.forget(now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "ago")) * time.Minute))
			}
			for _, p := range []string{"p-a", "p-b"} {
				want := 0
				for _, q := range l.approvals {
					if q.Asked != nil && q.Asked.Principal == p && l.standing(q, now) == Open {
						want++
					}
				}
				if got := l.pending(Admission{Principal: p, Now: now}); got != want {
					t.Fatalf("%s has %d open, counted %d", p, want, got)
				}
			}
		}
		l.forget(now.Add(1000 * time.Hour))
		if len(l.waiting) > 0 {
			t.Fatalf("left over: %v", l.waiting)
		}
	})
}

// Two questions about one call stand when a clock was set back over midnight. Whoever makes
// the call again waits for the same one each time.
func TestQuestionsOfTwoDays(t *testing.T) {
	before, after := start.Add(100*time.Minute), start.Add(131*time.Minute) // 23:40 and 00:11
	for range 20 {                                                          // whatever order a map has
		l := NewLocal()
		ask := func(id string, now time.Time) string {
			t.Helper()
			ans, err := l.Admit(t.Context(), Admission{
				Call: id, Now: now, Principal: "p", Session: "s", Asks: []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}, TTL: 1800}},
				Bind: func(day time.Time) (Binding, error) {
					d := day.Format(time.DateOnly)
					return Binding{d, d}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			l.Fold(ans.Change)
			return ans.Approval.ID
		}
		if first, second, again := ask("C1", before), ask("C2", after), ask("C3", before.Add(time.Minute)); first == second || again != first {
			t.Fatalf("%s, then %s, and when the clock is set back %s", first, second, again)
		}
	}
}
