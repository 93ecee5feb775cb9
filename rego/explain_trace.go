package rego

import (
	"cmp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

const (
	maxInside   = 3       // helpers within helpers that are told
	maxFrames   = 200_000 // rules tried in one evaluation that are looked at
	maxExprText = 200     // bytes of an expression
)

// watch sees one evaluation. Of all events it keeps, for each try of a rule, the
// failure that came last in the rule's body.
type watch struct {
	frames map[uint64]*frame // by query
	held   map[*ast.Rule]bool
	fired  []*ast.Rule
	failed []*frame
}

// frame is one try of a rule.
type frame struct {
	rule   *ast.Rule
	exited bool
	miss   *miss
	inside []*frame // tries below the expression that is being evaluated
}

// miss is an expression that failed, and what was known then.
type miss struct {
	at     int // place in the body
	expr   *ast.Expr
	event  topdown.Event
	inside []*frame
}

func newWatch() *watch {
	return &watch{frames: map[uint64]*frame{}, held: map[*ast.Rule]bool{}}
}

func (w *watch) Enabled() bool { return true }

// Config asks for the values of variables at each event.
func (w *watch) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

func (w *watch) TraceEvent(e topdown.Event) {
	switch node := e.Node.(type) {
	case *ast.Rule:
		w.rule(e, node)
	case *ast.Expr:
		f := w.frames[e.QueryID]
		if f == nil {
			return
		}
		switch e.Op {
		case topdown.EvalOp:
			f.inside = nil
		case topdown.FailOp:
			f.fail(e, node)
		}
	}
}

func (w *watch) rule(e topdown.Event, r *ast.Rule) {
	switch e.Op {
	case topdown.EnterOp:
		if len(w.failed) >= maxFrames {
			return
		}
		f := &frame{rule: r}
		w.frames[e.QueryID] = f
		w.failed = append(w.failed, f)
		if parent := w.frames[e.ParentID]; parent != nil {
			parent.inside = append(parent.inside, f)
		}
	case topdown.ExitOp:
		if f := w.frames[e.QueryID]; f != nil {
			f.exited = true
		}
		if !w.held[r] {
			w.held[r] = true
			w.fired = append(w.fired, r)
		}
	}
}

func (f *frame) fail(e topdown.Event, x *ast.Expr) {
	at := slices.Index(f.rule.Body, x)
	if at < 0 {
		at = x.Index
	}
	if f.miss == nil || at > f.miss.at {
		f.miss = &miss{at, x, e, f.inside}
	}
}

// tells says that a rule that held is worth telling: those of authors, and of the
// library those that say something by default.
func tells(r *ast.Rule) bool {
	if len(r.Head.Args) > 0 || r.Default {
		return false
	}
	if !vendoredRule(r) {
		return true
	}
	pkg := r.Module.Package.Path.String()
	return r.Head.RuleKind() == ast.MultiValue && (pkg == "data."+ownRoot || pkg == "data."+ownRoot+".defaults")
}

// missable says that a rule that failed is worth telling: one that an author wrote
// and that a call reaches by itself.
func missable(r *ast.Rule) bool {
	return len(r.Head.Args) == 0 && !r.Default && !vendoredRule(r)
}

// vendoredRule says that r is the base library's, by where the library is.
func vendoredRule(r *ast.Rule) bool {
	if r.Module == nil || r.Location == nil {
		return false
	}
	return strings.HasPrefix(strings.TrimPrefix(r.Location.File, "/"), vendored) && inRoot(r.Module.Package.Path.String())
}

// mentionsTool says that an expression is a guard on the tool's name.
func mentionsTool(x *ast.Expr) bool {
	base := x.BaseCogeneratedExpr()
	return slices.ContainsFunc(append(base.CogeneratedExprs(), base, x), func(x *ast.Expr) bool {
		return contains(x, func(v ast.Value) bool {
			ref, ok := v.(ast.Ref)
			return ok && ref.HasPrefix(toolName)
		})
	})
}

var toolName = ast.MustParseRef("input.tool.name")

func named(r *ast.Rule) FiredRule {
	f := FiredRule{Rule: nameOf(r), Where: placeOf(r.Location)}
	if r.Module != nil {
		f.Rule = strings.TrimPrefix(r.Module.Package.Path.String(), "data.") + "." + f.Rule
		for _, a := range r.Module.Annotations {
			if r.Location != nil && a.EndLoc().Row < r.Location.Row && a.EndLoc().Row >= r.Location.Row-1 {
				f.Title = a.Title
			}
		}
	}
	for _, a := range r.Annotations {
		if a.Title != "" {
			f.Title = a.Title
		}
	}
	return f
}

func (f *frame) nearMiss(hide redactor, depth int) NearMiss {
	m := NearMiss{FiredRule: named(f.rule)}
	base := f.miss.expr.BaseCogeneratedExpr()
	seen := map[*ast.Expr]bool{}
	for i, x := range f.rule.Body {
		if b := x.BaseCogeneratedExpr(); !seen[b] {
			seen[b] = true
			if m.Of++; i < f.miss.at && b != base {
				m.Held++
			}
		}
	}
	m.Failed = Failure{Expr: exprText(base), Where: placeOf(base.Location), Values: f.miss.values(hide)}
	if depth == 0 {
		return m
	}
	for _, in := range f.miss.inside {
		if !in.exited && in.miss != nil {
			m.Inside = append(m.Inside, in.nearMiss(hide, depth-1))
		}
	}
	slices.SortFunc(m.Inside, NearMiss.compare)
	m.Inside = slices.CompactFunc(m.Inside, func(x, y NearMiss) bool { return x.compare(y) == 0 })
	m.Inside = m.Inside[:min(len(m.Inside), maxInside)]
	return m
}

// exprText is an expression as it was written, on one line.
func exprText(x *ast.Expr) string {
	text := x.String()
	if x.Location != nil && len(x.Location.Text) > 0 {
		text = string(x.Location.Text)
	}
	return cutText(strings.Join(strings.Fields(text), " "), maxExprText)
}

func (f FiredRule) compare(g FiredRule) int {
	fFile, fLine := splitPlace(f.Where)
	gFile, gLine := splitPlace(g.Where)
	return cmp.Or(cmp.Compare(fFile, gFile), cmp.Compare(fLine, gLine), cmp.Compare(f.Rule, g.Rule))
}

// compare puts first what failed latest in its body.
func (m NearMiss) compare(n NearMiss) int {
	return cmp.Or(cmp.Compare(m.Of-m.Held, n.Of-n.Held), cmp.Compare(n.Held, m.Held), m.FiredRule.compare(n.FiredRule))
}
