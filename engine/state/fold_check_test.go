package state

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// note counts what the change is about, so that nothing is left out in silence.
func note(seen map[string]int, r result) {
	for _, u := range r.Change.Used {
		seen[map[bool]string{true: "took", false: "gave back"}[u.Units > 0]]++
	}
	if len(r.Change.Voided) > 0 {
		seen["voided"]++
	}
	if len(r.Change.Spent) > 0 {
		seen["spent"]++
	}
	if c := r.Change.Session; c != nil && c.PlanVersion > 0 {
		seen["planned"]++
	}
	if c := r.Change.Session; c != nil && c.Ended {
		seen["ended"]++
	}
}

// release gives back what a call took that nothing but limits knows of, as if its
// record could not be written.
func release(t *rapid.T, live *Local, underWay []result, loose map[string]bool) []result {
	i := slices.IndexFunc(underWay, func(r result) bool {
		c := r.Change
		c.TATs, c.Used = nil, nil
		return r.Call != "" && c.IsZero()
	})
	if i < 0 {
		return underWay
	}
	for range 2 { // at most once
		if err := live.Release(t.Context(), underWay[i].Call); err != nil {
			t.Fatal(err)
		}
	}
	for key := range underWay[i].Change.TATs {
		loose[key] = true
	}
	return slices.Delete(underWay, i, i+1)
}

func without(m map[string]int64, key string) map[string]int64 {
	m = maps.Clone(m)
	delete(m, key)
	return m
}

// balanced checks that what is counted is what the records say and will say: no unit is
// taken or given back twice.
func balanced(t *rapid.T, live, durable *Local, underWay []result) {
	sum := map[string]int64{}
	for key, u := range durable.used {
		sum[key] = u.Units
	}
	for _, r := range underWay {
		for key, u := range r.Change.Used {
			sum[key] += u.Units
		}
	}
	for key, n := range sum {
		if got := live.used[key].Units; got != n {
			t.Fatalf("%d units of %s are used, and the records say %d", got, key, n)
		}
	}
	for key, u := range live.used {
		if u.Units < 1 || u.Units > 9 || sum[key] == 0 {
			t.Fatalf("%d units of %s are used, of 9", u.Units, key)
		}
	}
}

// atLeast checks that live restricts at least what durable does, and permits no
// more.
func atLeast(t *rapid.T, live, durable *Local, loose map[string]bool) {
	for id := range durable.spent {
		if _, ok := live.spent[id]; !ok {
			t.Fatalf("grant %s is spent by its records, and not live", id)
		}
	}
	for k, tat := range durable.tats {
		if live.tats[k] < tat && !loose[k] {
			t.Fatalf("limit %s is less used than its records say", k)
		}
	}
	for id, q := range durable.approvals {
		if p := live.approvals[id]; p == nil || q.Consumed && !p.Consumed || q.Void && !p.Void {
			t.Fatalf("%s is over by its records, and live is %+v", id, p)
		}
	}
	for id, p := range live.approvals {
		for _, v := range p.Votes {
			if !v.Deny && (durable.approvals[id] == nil || !durable.approvals[id].Said(v)) {
				t.Fatalf("%s: a yes counts before it is durable", id)
			}
		}
	}
	for id, s := range durable.sessions {
		for label, end := range s.Labels {
			if live.sessions[id].Labels[label] < end {
				t.Fatalf("session %s lacks %s", id, label)
			}
		}
		if p := live.sessions[id]; p.PlanVersion < s.PlanVersion || s.Ended && !p.Ended {
			t.Fatalf("session %s has an older plan, or has not ended", id)
		}
	}
}
