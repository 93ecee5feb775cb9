package rego

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
)

// GenerateOptions say of what [Generate] makes calls.
type GenerateOptions struct {
	// Bundles are the policies whose constants are used: names that rules compare,
	// roles, hosts, what their data says. Each of them must load.
	Bundles []GenerateBundle

	// Tools are all there are. Nil is not known: then calls are made for the tools
	// that the bundles name, and of the arguments that they name.
	Tools []ToolInfo

	// Roles are known beside those that the bundles name.
	Roles []string

	// Who calls. Nil means people of each role, and by chance of each id and tenant
	// that the bundles name.
	Who []call.Principal

	// Tool is the only one that is called. Empty means all.
	Tool string

	// Most is how many calls are made. Zero means 4,000.
	Most int

	// Seed chooses among more than Most calls; the same seed makes the same ones.
	Seed uint64

	// Complete makes of a call what the engine would: it derives facts and gives
	// canonical arguments. A call that it refuses is left out. Nil means that there
	// are no facts.
	Complete func(*call.Input) error
}

// GenerateBundle is one policy to take constants from.
type GenerateBundle struct {
	FS         fs.FS
	Role       Role
	Entrypoint string
}

// World is what bundles, and who uses them, know of tools, roles and the like.
type World struct {
	Tools   []ToolInfo
	Roles   []string
	Labels  []string
	IDs     []string
	Tenants []string
}

type generator struct {
	o     GenerateOptions
	c     *constants
	defs  map[string]*argShape
	world World
}

// Generate makes calls to compare policies by: for each tool, of its schema and what
// the bundles compare, by people of each role. They are bounded in number and always
// the same for the same options.
func Generate(ctx context.Context, o GenerateOptions) ([]Case, World, error) {
	if o.Most <= 0 {
		o.Most = 4000
	}
	g := &generator{o: o, c: newConstants()}
	for _, b := range o.Bundles {
		own := Options{Role: b.Role, Entrypoint: b.Entrypoint}
		if err := own.defaults(); err != nil {
			return nil, World{}, err
		}
		_, err := loading(ctx, 0, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.c.read(ctx, b.FS, own.Entrypoint) })
		if err != nil {
			return nil, World{}, err
		}
	}
	g.world = g.known()
	share := o.Most
	if o.Tool == "" {
		share = max(8, o.Most/max(1, len(g.world.Tools)))
	}
	var out []Case
	for _, t := range g.world.Tools {
		if o.Tool != "" && t.Name != o.Tool {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, World{}, err
		}
		for _, c := range g.calls(t, share) {
			if len(out) < o.Most {
				out = append(out, c)
			}
		}
	}
	return out, g.world, nil
}

// known is the world, with one tool that nobody has.
func (g *generator) known() World {
	union := func(list []string, place string) []string {
		out := slices.Concat(list, g.c.at(place))
		slices.Sort(out)
		return slices.Compact(out)
	}
	w := World{
		Tools: slices.Clone(g.o.Tools), Roles: union(g.o.Roles, "input.principal.roles[_]"),
		Labels: union(nil, labelsPlace),
		IDs:    union(nil, "input.principal.id"), Tenants: union(nil, "input.principal.tenant"),
	}
	for _, name := range append(g.c.at("input.tool.name"), "no-such-tool") {
		if !slices.ContainsFunc(w.Tools, func(t ToolInfo) bool { return t.Name == name }) && (g.o.Tools == nil || name == "no-such-tool") {
			for _, class := range []string{"read", "unclassified"} {
				w.Tools = append(w.Tools, ToolInfo{Name: name, Tool: call.Tool{Name: name, Kind: "external", Class: class, Digest: call.Digest(nil)}})
			}
		}
	}
	return w
}

// calls are at most that many calls of one tool.
func (g *generator) calls(t ToolInfo, most int) []Case {
	rnd := newDice(t.Name+" "+t.Tool.Class, g.o.Seed)
	args := g.argsFor(t, rnd)
	who := g.o.Who
	if who == nil {
		who = append(who, somebody())
		for _, r := range g.world.Roles {
			who = append(who, somebody(r))
		}
		who = append(who, somebody(g.world.Roles...))
	}
	var out []Case
	seen := map[string]bool{}
	add := func(in *call.Input) {
		if in == nil || g.o.Complete != nil && g.o.Complete(in) != nil {
			return
		}
		b, err := json.Marshal(in)
		if err != nil || seen[string(b)] {
			return
		}
		seen[string(b)] = true
		out = append(out, Case{Name: fmt.Sprintf("generated %s/%d", t.Name, len(out)), Input: in})
	}
	// Everybody with the first arguments; by the last of them, who has all roles, all
	// situations and all arguments; then what chance brings together.
	for _, p := range who {
		add(g.call(t, args[0], p, nil))
	}
	for in := range g.situations(t, args[0], who[len(who)-1]) {
		add(in)
	}
	for _, a := range args {
		add(g.call(t, a, who[len(who)-1], nil))
	}
	for range 4 * most {
		if len(out) >= most {
			break
		}
		add(g.call(t, args[rnd.IntN(len(args))], who[rnd.IntN(len(who))], rnd))
	}
	return out[:min(len(out), most)]
}

// call is one call; without rnd of somebody in no special situation.
func (g *generator) call(t ToolInfo, raw []byte, who call.Principal, rnd *dice) *call.Input {
	args, err := call.Canonical(raw)
	if err != nil {
		return nil
	}
	tool := t.Tool
	if tool.Name == "" {
		tool.Name = t.Name
	}
	in := &call.Input{
		Tool: tool, Args: args,
		Principal: who,
		Session:   call.Session{ID: "session", Run: "run", Labels: []string{}, Plan: call.Plan{}},
		Env:       call.Env{NowNS: workday.UnixNano(), Node: "node"},
		Asserted:  call.Asserted{Justification: justification, Context: map[string]jsontext.Value{}},
	}
	if rnd == nil {
		return in
	}
	if g.o.Who == nil {
		in.Principal.ID = one(rnd, g.world.IDs, "alice")
		in.Principal.Tenant = one(rnd, g.world.Tenants, "acme", "")
		in.Principal.Kind = []string{"agent", "agent", "user", "service"}[rnd.IntN(4)]
	}
	for _, l := range g.world.Labels {
		if rnd.IntN(3) == 0 {
			in.Session.Labels = append(in.Session.Labels, l)
		}
	}
	if rnd.IntN(3) == 0 {
		in.Asserted.Justification = ""
	}
	if rnd.IntN(4) == 0 {
		in.Env.NowNS = weekend.UnixNano()
	}
	if rnd.IntN(8) == 0 {
		in.Tool.Findings = []string{"hidden instructions"}
	}
	return in
}

// situations are one call each of which one thing is out of the ordinary.
func (g *generator) situations(t ToolInfo, args jsontext.Value, who call.Principal) iter.Seq[*call.Input] {
	return func(yield func(*call.Input) bool) {
		changed := func(change func(*call.Input)) bool {
			in := g.call(t, args, who, nil)
			if in == nil {
				return false
			}
			change(in)
			return yield(in)
		}
		for _, l := range g.world.Labels {
			if !changed(func(in *call.Input) { in.Session.Labels = []string{l} }) {
				return
			}
		}
		if g.o.Who == nil {
			for _, id := range g.world.IDs {
				if !changed(func(in *call.Input) { in.Principal.ID = id }) {
					return
				}
			}
			for _, tenant := range append([]string{""}, g.world.Tenants...) {
				if !changed(func(in *call.Input) { in.Principal.Tenant = tenant }) {
					return
				}
			}
			for _, kind := range []string{"user", "service"} {
				if !changed(func(in *call.Input) { in.Principal.Kind = kind }) {
					return
				}
			}
		}
		_ = changed(func(in *call.Input) { in.Session.Labels = g.world.Labels }) &&
			changed(func(in *call.Input) { in.Session.Plan = planned(in.Tool.Name, call.TaskActive) }) &&
			changed(func(in *call.Input) { in.Session.Plan = planned(in.Tool.Name, call.TaskPlanned) }) &&
			changed(func(in *call.Input) { in.Asserted.Justification = "" }) &&
			changed(func(in *call.Input) { in.Env.NowNS = weekend.UnixNano() }) &&
			changed(func(in *call.Input) { in.Tool.Findings = []string{"hidden instructions"} })
	}
}

// planned is a plan of one task, for that tool.
func planned(tool string, status call.TaskStatus) call.Plan {
	return call.Plan{{ID: "task", Status: status, Tools: []string{tool}}}.Clone()
}

// When calls are made.
var (
	workday = time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC)
	weekend = time.Date(2026, time.March, 8, 2, 0, 0, 0, time.UTC)
)

// somebody is a principal with these roles and nothing special.
func somebody(roles ...string) call.Principal {
	return call.Principal{
		ID: "alice", Kind: "agent", Roles: append([]string{}, roles...), Tenant: "acme",
		Claims: map[string]jsontext.Value{}, Auth: call.Auth{Method: "jwt", Issuer: "https://issuer.example"},
	}
}

func one(rnd *dice, list []string, more ...string) string {
	all := slices.Concat(list, more)
	return all[rnd.IntN(len(all))]
}
