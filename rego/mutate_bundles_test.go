package rego

import (
	"encoding/json"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// standing orders verdicts by how much they let through.
func standing(v call.Verdict) int {
	return slices.Index([]call.Verdict{call.Deny, call.Ask, call.Pass, call.Allow}, v)
}

// mutatesTo asks p about all mutants of in and reports those that get more than in
// itself: a better verdict, or one without a limit or label that in gets. What
// harmless names is another call, not the same one broken.
func mutatesTo(t *testing.T, p *Policy, in *call.Input, harmless *regexp.Regexp) {
	t.Helper()
	before, err := p.Decide(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	mutants(treeOf(t, in), func(what string, mutant any) {
		if n++; harmless != nil && harmless.MatchString(what) {
			return
		}
		// What is missing or null is tried for every call, of the other types some for
		// each.
		if !strings.HasSuffix(what, " gone") && !strings.HasSuffix(what, " is null") && crc32.ChecksumIEEE([]byte(t.Name()+what))%6 != 0 {
			return
		}
		d, err := p.decide(t.Context(), valueOf(t, mutant), in.Env.NowNS)
		if err != nil || d.Verdict == call.Deny {
			return
		}
		if standing(d.Verdict) > standing(before.Verdict) {
			t.Errorf("%s: %s becomes %s", what, before.Verdict, d.Verdict)
		}
		for _, l := range before.Limits {
			if strings.HasPrefix(l.Name, "class:") {
				continue // a call of no known class has the budget of destructive ones
			}
			if !slices.ContainsFunc(d.Limits, func(o call.Limit) bool { return o.Name == l.Name && o.Burst <= l.Burst && o.Cost >= l.Cost }) {
				t.Errorf("%s: the limit %s is gone, or is more", what, l.Name)
			}
		}
		for _, l := range before.Labels {
			if !slices.Contains(d.Labels, l) {
				t.Errorf("%s: the label %s is gone", what, l)
			}
		}
		if before.Rows != nil && d.Rows == nil || before.Fields != nil && d.Fields == nil || before.Cap != nil && d.Cap == nil {
			t.Errorf("%s: an obligation is gone", what)
		}
	})
	if n < 200 {
		t.Errorf("only %d mutants", n)
	}
}

// helped takes over what the base library has for rules, as its documents say.
const helped = `package callgate.rules

import data.callgate.approval
import data.callgate.args
import data.callgate.budget
import data.callgate.classes
import data.callgate.facts
import data.callgate.flow
import data.callgate.lib
import data.callgate.sensitivity
import rego.v2

allow contains {"id": "all"} if {
	startswith(input.tool.name, "t.")
	lib.listed({"analyst": ["t.*"]})
}

deny contains reason if some reason in classes.deny

deny contains reason if some reason in sensitivity.deny

deny contains {"code": "tainted"} if {
	input.tool.name == "t.clean"
	not lib.untouched(["tainted"])
}

deny contains {"code": "argument"} if {
	input.tool.name == "t.pay"
	some name in args.broken({"amount": {"max": 100}})
	name
}

deny contains {"code": "host"} if {
	input.tool.name == "t.fetch"
	not facts.hosts(["api.x.example"])
}

deny contains {"code": "path"} if {
	input.tool.name == "t.file"
	not facts.paths({"docs": ["inbox"]}, {"read"})
}

deny contains {"code": "command"} if {
	input.tool.name == "t.run"
	not facts.commands({"git"})
}

ask contains approval.by("night", 1, ["lead"], "at night") if {
	input.tool.name == "t.night"
	not approval.hours({"mon"}, "08:00", "18:00", "Z")
}

ask contains rule if some rule in flow.ask

label contains name if some name in flow.label

rows contains most if some most in sensitivity.rows

fields contains ["id"] if sensitivity.cut

limit contains object.union(budget.at_most(9, "1h"), {"name": "units", "key": budget.key("principal"), "cost": budget.cost("amount")})
`

func TestHelpedMutantsNeverGetMore(t *testing.T) {
	p := mustOpen(t, withBase(t, files("rules.rego", helped)))
	url := func(host string) []call.URL {
		return []call.URL{{Scheme: "https", Host: host, Wildcard: "*.x.example", Port: 443, Path: "/", Segments: []string{}, Method: "GET"}}
	}
	path := func(dir string) []call.Path {
		return []call.Path{{Root: "docs", Path: dir, Segments: []string{dir}, Mode: "read"}}
	}
	command := func(name string) []call.Command {
		return []call.Command{{Name: name, Argv: []string{name}, Via: []string{}, Reads: []string{}, Writes: []string{}}}
	}
	const because = "because of ticket 42"
	for _, tt := range []struct {
		name, tool string
		want       call.Verdict
		set        func(*call.Input)
		harmless   string
	}{
		{"allowed", "t.any", call.Allow, func(*call.Input) {}, ``},
		{"a write that nobody justifies", "t.any", call.Deny, func(in *call.Input) { in.Tool.Class = "write" }, ``},
		{"a write that somebody justifies", "t.any", call.Allow, func(in *call.Input) { in.Tool.Class, in.Asserted.Justification = "write", because }, ``},
		{"destructive", "t.any", call.Ask, func(in *call.Input) { in.Tool.Class = "destructive" }, ``},
		{"personal data", "t.any", call.Allow, func(in *call.Input) { in.Tool.Sensitivity = []string{"pii"} }, `^/tool/sensitivity/item gone$`},
		{"personal data of no tenant", "t.any", call.Deny, func(in *call.Input) {
			in.Tool.Sensitivity, in.Principal.Tenant = []string{"pii"}, ""
		}, `^/tool/sensitivity/item gone$`},
		{"secrets", "t.any", call.Deny, func(in *call.Input) { in.Tool.Sensitivity = []string{"secret"} }, `^/tool/sensitivity/item gone$`},
		{"memory", "t.any", call.Deny, func(in *call.Input) { in.Tool.Sensitivity = []string{"memory"} }, `^/tool/sensitivity/item gone$`},
		{"outflow", "t.any", call.Ask, func(in *call.Input) {
			in.Tool.Tags, in.Session.Labels = []string{"outbound"}, []string{"private-data", "untrusted-input"}
		}, `^/(tool/tags|session/labels)/item gone$`},
		{"tainted", "t.clean", call.Deny, func(in *call.Input) { in.Session.Labels = []string{"tainted"} }, `^/session/labels/item gone$`},
		{"too much", "t.pay", call.Deny, func(in *call.Input) { in.Args, _ = call.Canonical([]byte(`{"amount": 101}`)) }, ``},
		{"enough", "t.pay", call.Allow, func(in *call.Input) { in.Args, _ = call.Canonical([]byte(`{"amount": 4}`)) }, ``},
		{"host", "t.fetch", call.Allow, func(in *call.Input) { in.Facts.URLs = url("api.x.example") }, ``},
		{"other host", "t.fetch", call.Deny, func(in *call.Input) { in.Facts.URLs = url("evil.example") }, ``},
		{"two hosts", "t.fetch", call.Deny, func(in *call.Input) { in.Facts.URLs = append(url("evil.example"), url("api.x.example")...) }, `^/facts/urls/item gone$`},
		{"path", "t.file", call.Allow, func(in *call.Input) { in.Facts.Paths = path("inbox") }, ``},
		{"other path", "t.file", call.Deny, func(in *call.Input) { in.Facts.Paths = path("outbox") }, ``},
		{"command", "t.run", call.Allow, func(in *call.Input) { in.Facts.Commands = command("git") }, ``},
		{"other command", "t.run", call.Deny, func(in *call.Input) { in.Facts.Commands = command("rm") }, ``},
		{"opaque command", "t.run", call.Deny, func(in *call.Input) { in.Facts.Commands = command("git"); in.Facts.Commands[0].Opaque = true }, ``},
		{"at night", "t.night", call.Ask, func(in *call.Input) {}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(t, tt.tool, `{}`, "analyst")
			tt.set(in)
			if d, err := p.Decide(t.Context(), in); err != nil || d.Verdict != tt.want {
				t.Fatalf("Decide = %+v, %v", d, err)
			}
			var harmless *regexp.Regexp
			if tt.harmless != "" {
				harmless = regexp.MustCompile(tt.harmless)
			}
			mutatesTo(t, p, in, harmless)
		})
	}
}

// orgWith is the baseline of an organisation with other settings.
func orgWith(t *testing.T, settings string) *Policy {
	t.Helper()
	fsys := withBase(t, bundles.OrgBaseline())
	fsys["org/data.json"] = &fstest.MapFile{Data: []byte(settings)}
	p, err := Open(t.Context(), fsys, Options{Name: "org", Role: Restrict})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const orgSettings = `{
	"freeze": ["destructive"],
	"forbidden": {"tools": ["bad.*"], "kinds": ["mcp"], "servers": ["s"], "tags": ["shell"]},
	"auth": ["jwt"],
	"tenants": {"required": true, "known": ["acme"], "args": ["tenant"]},
	"outbound": [{"hosts": ["api.x.example"], "ports": [443], "methods": ["GET"], "paths": ["/"], "networks": ["public"]}],
	"protected": {"names": [".ssh"], "paths": {"docs": ["board"]}},
	"secrets": {"in": ["args", "asserted"], "patterns": ["AKIA[A-Z0-9]{4}"]},
	"hours": {"days": ["mon"], "from": "08:00", "to": "18:00", "offset": "Z"},
	"labels": {"write": ["reviewed"]},
	"approvals": {"write": [{"name": "security", "count": 1, "from": {"roles": ["security"]}}]},
	"limits": {"read": {"at_most": 9, "per": "1h"}},
	"cap": {"bounds": {"calls": 3}},
	"flow": true
}`

func orgInput(t *testing.T) *call.Input {
	in := input(t, "tool", `{}`, "analyst")
	in.Principal.Auth.Method = "jwt"
	return in
}

func TestOrgMutantsNeverGetMore(t *testing.T) {
	p := orgWith(t, orgSettings)
	args := func(s string) func(*call.Input) {
		return func(in *call.Input) { in.Args, _ = call.Canonical([]byte(s)) }
	}
	for _, tt := range []struct {
		name     string
		want     call.Verdict
		set      func(*call.Input)
		harmless string // another call, with other arguments, facts or labels
	}{
		{"let through", call.Pass, func(*call.Input) {}, ``},
		{"frozen", call.Deny, func(in *call.Input) { in.Tool.Class = "unclassified" }, ``},
		{"forbidden tool", call.Deny, func(in *call.Input) { in.Tool.Name = "bad.tool" }, ``},
		{"forbidden kind", call.Deny, func(in *call.Input) { in.Tool.Kind = "mcp" }, ``},
		{"forbidden server", call.Deny, func(in *call.Input) { in.Tool.Server = "s" }, ``},
		{"forbidden tag", call.Deny, func(in *call.Input) { in.Tool.Tags = []string{"shell"} }, `^/tool/tags/item gone$`},
		{"findings", call.Deny, func(in *call.Input) { in.Tool.Findings = []string{"x"} }, `^/tool/findings/item gone$`},
		{"asserted", call.Deny, func(in *call.Input) { in.Principal.Auth.Method = "asserted" }, ``},
		{"no tenant", call.Deny, func(in *call.Input) { in.Principal.Tenant = "" }, ``},
		{"other tenant", call.Deny, args(`{"q": {"tenant": "other"}}`), `^/args/q( |/tenant gone)`},
		{"other host", call.Deny, func(in *call.Input) {
			in.Facts.URLs = []call.URL{{Scheme: "https", Host: "evil.example", Port: 443, Path: "/", Segments: []string{}, Method: "GET"}}
		}, `^/facts/urls( gone|/item gone)$`},
		{"protected", call.Deny, func(in *call.Input) {
			in.Facts.Paths = []call.Path{{Root: "docs", Path: "board/x", Segments: []string{"board", "x"}, Mode: "read"}}
		}, `^/facts/paths( gone|/item gone|/item/segments/item gone)$`},
		{"secret", call.Deny, func(in *call.Input) { in.Asserted.Justification = "AKIA0000" }, ``},
		{"secret argument", call.Deny, args(`{"text": "AKIA0000"}`), `^/args/text`},
		{"no label", call.Deny, func(in *call.Input) { in.Tool.Class = "write" }, ``},
		{"approval", call.Ask, func(in *call.Input) { in.Tool.Class, in.Session.Labels = "write", []string{"reviewed"} }, ``},
		{"outflow", call.Ask, func(in *call.Input) {
			in.Tool.Tags, in.Session.Labels = []string{"outbound"}, []string{"private-data", "untrusted-input"}
		}, `^/(tool/tags|session/labels)/item gone$`},
		{"private", call.Pass, func(in *call.Input) { in.Tool.Sensitivity = []string{"pii"} }, `^/tool/sensitivity/item gone$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := orgInput(t)
			tt.set(in)
			if d, err := p.Decide(t.Context(), in); err != nil || d.Verdict != tt.want {
				t.Fatalf("Decide = %+v, %v", d, err)
			}
			var harmless *regexp.Regexp
			if tt.harmless != "" {
				harmless = regexp.MustCompile(tt.harmless)
			}
			mutatesTo(t, p, in, harmless)
		})
	}
}

// A setting of another type is no setting, and lets nothing through.
func TestOrgSettingsOfAnotherType(t *testing.T) {
	options := []func(*oparego.Rego){oparego.Query("data.callgate.restriction with data.org as input.org with input as input.call")}
	for name, f := range withBase(t, bundles.OrgBaseline()) {
		if strings.HasSuffix(name, ".rego") {
			options = append(options, oparego.Module(name, string(f.Data)))
		}
	}
	plain, err := oparego.New(options...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var settings any
	if err := json.Unmarshal([]byte(orgSettings), &settings); err != nil {
		t.Fatal(err)
	}
	asked := treeOf(t, orgInput(t))
	answerTo := func(data any) string {
		t.Helper()
		rs, err := plain.Eval(t.Context(), oparego.EvalParsedInput(valueOf(t, map[string]any{"org": data, "call": asked})))
		if err != nil || len(rs) != 1 {
			t.Fatal(rs, err)
		}
		v, err := ast.InterfaceToValue(rs[0].Expressions[0].Value)
		if err != nil {
			t.Fatal(err)
		}
		return answer(decode(v, Restrict))
	}
	if got := answerTo(settings); got != string(call.Pass) {
		t.Fatalf("as they are: %s", got)
	}
	n := 0
	// The base library looks at approvals when they are asked for: not for this call.
	may := regexp.MustCompile(`^/approvals/write/item`)
	mutants(settings, func(what string, mutant any) {
		if strings.HasSuffix(what, " gone") || may.MatchString(what) {
			return // what is gone is what the defaults say
		}
		n++
		if got := answerTo(mutant); got != string(call.Deny) {
			t.Errorf("%s: %s", what, got)
		}
	})
	if n < 300 {
		t.Errorf("only %d mutants", n)
	}
}
