package rego

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// lintGrants warns of what rules grant in vain, and of what they grant without
// bounds. It looks at grants that are constants.
func (v *vetting) lintGrants(o CheckOptions) {
	v.authors(func(m *module, r *ast.Rule) {
		if v.wordOf(m, r) != "allow" || r.Head.Key == nil {
			return
		}
		for _, p := range partsOf(r.Head.Key, r, maxHops) {
			caps, ok := constantCaps(p.Value)
			if !ok {
				continue
			}
			v.lintBroad(r.Location, caps)
			if o.Tools != nil {
				v.lintVain(r.Location, caps, toolsOf(o, r))
			}
		}
	})
}

func constantCaps(x ast.Value) (call.Caps, bool) {
	if !ast.IsConstant(x) {
		return call.Caps{}, false
	}
	var b bytes.Buffer
	if err := writeValue(jsontext.NewEncoder(&b), x, true); err != nil {
		return call.Caps{}, false
	}
	var g call.RuleGrant
	if err := json.Unmarshal(b.Bytes(), &g); err != nil || g.Validate() != nil {
		return call.Caps{}, false
	}
	return g.Caps, true
}

// allMethods are as many as say that nobody has chosen.
var allMethods = []string{"DELETE", "GET", "PATCH", "POST", "PUT"}

// shells run whatever their arguments say.
var shells = []string{"bash", "cmd", "dash", "env", "node", "perl", "powershell", "pwsh", "python", "python3", "ruby", "sh", "sudo", "xargs", "zsh"}

func (v *vetting) lintBroad(l *ast.Location, c call.Caps) {
	const code = "grant_broad"
	for _, f := range c.FS {
		if f.Path == "." && (slices.Contains(f.Modes, "write") || slices.Contains(f.Modes, "remove")) {
			v.warn(l, code, "the grant lets the tool change all of %s; name the directory", f.Root)
		}
	}
	for _, h := range c.HTTP {
		missing := func(m string) bool { return !slices.Contains(h.Methods, m) }
		if !slices.ContainsFunc(allMethods, missing) {
			v.warn(l, code, "the grant has every method; name those that the tool needs")
		}
		for _, host := range h.Hosts {
			if strings.HasPrefix(host, "*.") {
				v.warn(l, code, "the grant has a wildcard among its hosts, %s; name the hosts", host)
			}
		}
	}
	for _, e := range c.Exec {
		if slices.Contains(shells, e.Command) && len(e.Args) > 0 {
			v.warn(l, code, "%s runs what its arguments say; grant the command that is meant", e.Command)
		}
	}
}

// lintVain warns of entries that no manifest of the rule's tools lets through.
func (v *vetting) lintVain(l *ast.Location, c call.Caps, tools []ToolInfo) {
	if len(tools) == 0 {
		return // that the tool is unknown is said elsewhere
	}
	for what, one := range entries(c) {
		useful := slices.ContainsFunc(tools, func(t ToolInfo) bool {
			m, err := one.Meet(t.Caps)
			return err != nil || !isNothing(m)
		})
		if !useful {
			v.warn(l, "grant_vain", "no manifest of the tools that the rule is for allows any of this %s", what)
		}
	}
}

// entries are what c grants, one by one.
func entries(c call.Caps) map[string]call.Caps {
	out := map[string]call.Caps{}
	for _, f := range c.FS {
		out["fs: "+f.Root+" "+f.Path] = call.Caps{FS: []call.FS{f}}
	}
	for _, h := range c.HTTP {
		out["http: "+strings.Join(h.Hosts, ", ")] = call.Caps{HTTP: []call.HTTP{h}}
	}
	for _, e := range c.Exec {
		out["exec: "+e.Command] = call.Caps{Exec: []call.Exec{e}}
	}
	for _, s := range c.Secrets {
		out["secret: "+s] = call.Caps{Secrets: []string{s}}
	}
	for name, one := range map[string]call.Caps{
		"workspace": {Workspace: c.Workspace}, "plan": {Plan: c.Plan}, "log": {Log: c.Log},
		"precise_clock": {PreciseClock: c.PreciseClock},
	} {
		if !isNothing(one) {
			out[name] = one
		}
	}
	return out
}

func isNothing(c call.Caps) bool {
	return len(c.FS)+len(c.HTTP)+len(c.Exec)+len(c.Secrets) == 0 && !c.Workspace && !c.Plan && !c.Log && !c.PreciseClock
}
