package question

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

// Whether there is a way to give every place somebody of their own is what trying
// every way says.
func TestEnoughIsWhatEveryWaySays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles := []string{"a", "b", "c"}
		some := func(of []string, label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(t, label)
		}
		q := &Question{Asked: &call.Approval{}}
		for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
			q.Asked.Rules = append(q.Asked.Rules, call.ApprovalRule{
				Name: fmt.Sprint(i), Count: rapid.IntRange(0, 2).Draw(t, "count"),
				From: call.From{Roles: some(roles, "roles"), IDs: some([]string{"p0", "P0", "p1"}, "ids")},
			})
		}
		for range rapid.IntRange(0, 6).Draw(t, "votes") {
			id := rapid.SampledFrom([]string{"p0", "P0", "p1", "p2", "p3"}).Draw(t, "id")
			q.Vote(call.Vote{By: call.RecordPrincipal{ID: id, Roles: some(roles, "of")}, Principal: "d-" + id})
		}
		out := rapid.SampledFrom([]string{"", "d-p0", "d-P0", "d-p1"}).Draw(t, "revoked")
		got := q.enough(func(p string) bool { return p == out })
		if want := everyWay(q, out); got != want {
			t.Fatalf("enough() = %v, want %v", got, want)
		}
	})
}

// everyWay tries every way to seat people.
func everyWay(q *Question, out string) bool {
	names := map[string]string{"p0": "p0", "P0": "p0", "p1": "p1", "p2": "p2", "p3": "p3"}
	revoked := ""
	for _, v := range q.Votes {
		if v.Principal == out {
			revoked = names[v.By.ID]
		}
	}
	var places []call.ApprovalRule
	for _, r := range q.Asked.Rules {
		for range max(1, r.Count) {
			places = append(places, r)
		}
	}
	var fill func(places []call.ApprovalRule, used []string) bool
	fill = func(places []call.ApprovalRule, used []string) bool {
		if len(places) == 0 {
			return true
		}
		for _, v := range q.Votes {
			who := names[v.By.ID]
			if who != revoked && !slices.Contains(used, who) && satisfies(places[0], v.By) && fill(places[1:], append(slices.Clone(used), who)) {
				return true
			}
		}
		return false
	}
	return len(places) > 0 && fill(places, nil)
}

// A rule that asks for more people than there are is not a list of that length.
func TestEnoughOfAHugeCount(t *testing.T) {
	q := &Question{Asked: &call.Approval{Rules: []call.ApprovalRule{{Count: 1 << 62, From: call.From{Roles: []string{"a"}}}, {Count: 1 << 62}}}}
	for i := range 100 {
		q.Vote(call.Vote{By: call.RecordPrincipal{ID: fmt.Sprint(i), Roles: []string{"a"}}})
	}
	if q.enough(func(string) bool { return false }) {
		t.Error("a hundred people are 2^62")
	}
}

func TestSpelling(t *testing.T) {
	for _, one := range [][]string{
		{"lena", "LENA", "Lena", "ｌｅｎａ", "le\u200bna", "lena\ufe0f", "l\u034fena", "\u3164lena", "𝓵ena", "le\u00adna"},
		{"straße", "STRASSE", "strasse", "STRAẞE"},
		{"k@x", "\u212a@x"},   // the Kelvin sign
		{"sam", "\u017fam"},   // the long s
		{"\u00e9", "e\u0301"}, // composed or not
		{"σας", "ΣΑΣ", "σασ"},
	} {
		for _, s := range one {
			if spelling(s) != spelling(one[0]) {
				t.Errorf("%q reads %q, and %q %q", s, spelling(s), one[0], spelling(one[0]))
			}
			if !same(call.RecordPrincipal{ID: s, Kind: "user"}, call.RecordPrincipal{ID: one[0], Kind: "agent"}) {
				t.Errorf("%q and %q are two", s, one[0])
			}
			if same(call.RecordPrincipal{ID: s, Tenant: "x"}, call.RecordPrincipal{ID: s}) {
				t.Errorf("%q is one in two tenants", s)
			}
		}
	}
	for _, two := range [][2]string{{"lena", "lana"}, {"lena", "lena2"}, {"uid:7", "uid:70"}, {"o", "0"}} {
		if spelling(two[0]) == spelling(two[1]) {
			t.Errorf("%q and %q are one", two[0], two[1])
		}
	}
}

func FuzzSpelling(f *testing.F) {
	f.Add("Lena")
	f.Add("ǅ\u0345\u1e9e")
	f.Fuzz(func(t *testing.T, s string) {
		once := spelling(s)
		if again := spelling(once); again != once {
			t.Errorf("%q reads %q, and that %q", s, once, again)
		}
	})
}
