package rego

import (
	"cmp"
	"context"
	"slices"

	"github.com/callgate/callgate/engine/call"
)

// Access is what somebody can do with a tool, as far as calls were tried.
type Access struct {
	Tool    string       `json:"tool"`
	Who     string       `json:"who"`
	Verdict call.Verdict `json:"verdict"`        // the best of all calls that were tried
	Args    string       `json:"args,omitzero"`  // of a call with that verdict
	Tried   int          `json:"tried,omitzero"` // calls
}

// AccessOf asks the policy about all cases and says what each principal can do with
// each tool at best. Who is called names principals. Tools of which everybody is
// denied are told too.
//
// # Errors
//
// As [Diff].
func AccessOf(ctx context.Context, p Decider, cases []Case, name func(call.Principal) string) ([]Access, error) {
	type key struct{ tool, who string }
	best := map[key]*Access{}
	rank := map[call.Verdict]int{call.Ask: 1, call.Allow: 2}
	for _, c := range cases {
		a, err := answered(ctx, p, c.Input)
		if err != nil {
			return nil, err
		}
		k := key{c.Input.Tool.Name, name(c.Input.Principal)}
		if best[k] == nil {
			best[k] = &Access{Tool: k.tool, Who: k.who, Verdict: call.Deny}
		}
		b := best[k]
		if b.Tried++; rank[a.d.Verdict] > rank[b.Verdict] {
			b.Verdict, b.Args = a.d.Verdict, shownArgs(c.Input.Args)
		}
	}
	out := make([]Access, 0, len(best))
	for _, a := range best {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(x, y Access) int {
		return cmp.Or(cmp.Compare(x.Tool, y.Tool), cmp.Compare(rank[y.Verdict], rank[x.Verdict]), cmp.Compare(x.Who, y.Who))
	})
	return out, nil
}

// shownArgs are arguments as people are shown them.
func shownArgs(a call.Args) string {
	v, err := parseValue(a.Bytes())
	if err != nil {
		return ""
	}
	hide := redactor{}
	hide.collect("", v)
	return hide.args(v)
}

// Everybody is one principal for each thing that policies tell people apart by: for
// nothing, for each role, each id and each tenant. The names say which.
func (w World) Everybody() (who []call.Principal, name func(call.Principal) string) {
	names := map[string]string{}
	key := func(p call.Principal) string {
		role := ""
		if len(p.Roles) > 0 {
			role = p.Roles[0]
		}
		return p.ID + "\n" + role + "\n" + p.Tenant
	}
	add := func(p call.Principal, as string) {
		if _, ok := names[key(p)]; !ok {
			names[key(p)] = as
			who = append(who, p)
		}
	}
	nobody := somebody()
	nobody.ID, nobody.Tenant = "somebody", "a-tenant"
	add(nobody, "anybody")
	for _, r := range w.Roles {
		p := nobody
		p.Roles = []string{r}
		add(p, "role "+r)
	}
	for _, id := range w.IDs {
		p := nobody
		p.ID = id
		add(p, "id "+id)
	}
	for _, t := range w.Tenants {
		p := nobody
		p.Tenant = t
		add(p, "tenant "+t)
	}
	return who, func(p call.Principal) string { return names[key(p)] }
}
