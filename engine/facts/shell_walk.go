package facts

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// reader reads code in one language. Code within code has a reader of its own, and
// all share what is found.
type reader struct {
	lang   syntax.LangVariant
	src    string
	via    []string
	within int
	opaque bool // what runs this code adds something to it
	res    *reading
}

// joinedComment is a comment with a backslash at its end: for shells it ends there,
// and for the parser the next line may belong to the command before.
var joinedComment = regexp.MustCompile("(^|[\\s;&|()<>`])#[^\n]*\\\\\n")

// code reads s, which starts in at, and returns where it may end.
func (r reader) code(s string, at places) places {
	file, ok := parse(s, r.lang)
	switch {
	case !ok:
		r.refuse("cannot be read in one way")
	case r.within > maxWithin:
		r.refuse("has code within code, too deep")
	default:
		r.src = s
		r.res.taken = r.res.taken || joinedComment.MatchString(s)
		at = r.stmts(file.Stmts, at)
	}
	return at
}

func (r *reader) refuse(fault string) {
	if r.res.fault == "" {
		r.res.fault = fault
	}
}

func (r *reader) stmts(list []*syntax.Stmt, at places) places {
	for _, s := range list {
		_, at = r.stmt(s, at)
	}
	return at
}

// stmt reads s, which starts in at. It returns where the shell is if s succeeds, and
// where it may be in any case.
func (r *reader) stmt(s *syntax.Stmt, at places) (success, any places) {
	if r.res.fault != "" {
		return at, at
	}
	c := simple{via: r.via, at: at, opaque: r.opaque}
	for _, redirect := range s.Redirs {
		r.redirect(redirect, &c)
	}
	if s.Background || s.Coprocess || s.Disown {
		defer func(before places) { success, any = before, before }(at)
	}
	if s.Negated {
		defer func() { success = any }()
	}
	if call, ok := s.Cmd.(*syntax.CallExpr); ok {
		return r.call(call, c)
	}
	if decl, ok := s.Cmd.(*syntax.DeclClause); ok {
		return r.declare(decl, c)
	}
	if len(s.Redirs) > 0 {
		r.emit(c)
	}
	if s.Cmd == nil {
		return at, at
	}
	return r.compound(s.Cmd, at)
}

func (r *reader) compound(cmd syntax.Command, at places) (success, any places) {
	same := func(p places) (places, places) { return p, p }
	switch c := cmd.(type) {
	case *syntax.BinaryCmd:
		return r.binary(c, at)
	case *syntax.Subshell:
		r.stmts(c.Stmts, at)
		return same(at)
	case *syntax.Block:
		if len(c.Stmts) == 0 {
			return same(at)
		}
		last := len(c.Stmts) - 1
		return r.stmt(c.Stmts[last], r.stmts(c.Stmts[:last], at))
	case *syntax.IfClause:
		return same(r.branches(c, at))
	case *syntax.WhileClause:
		return same(r.loop(at, func() places { return r.stmts(c.Do, r.stmts(c.Cond, at)) }))
	case *syntax.ForClause:
		switch loop := c.Loop.(type) {
		case *syntax.WordIter:
			r.sets(loop.Name.Value)
			for _, item := range loop.Items {
				r.word(item, at)
			}
		case *syntax.CStyleLoop:
			r.arithmetic("((", at, loop.Init, loop.Cond, loop.Post)
		}
		return same(r.loop(at, func() places { return r.stmts(c.Do, at) }))
	case *syntax.CaseClause:
		r.word(c.Word, at)
		end := at
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				r.word(p, at)
			}
			end = end.or(r.stmts(item.Stmts, end)) // ;& falls through
		}
		return same(end)
	case *syntax.FuncDecl:
		r.res.later = true
		if c.Name == nil || slices.Contains([]string{"command_not_found_handle", "command_not_found_handler", "cd", "builtin", "command", "exec", "eval"}, c.Name.Value) {
			r.res.taken = true
		}
		r.stmt(c.Body, at)
		return same(at)
	case *syntax.TimeClause:
		if c.Stmt == nil {
			return same(at)
		}
		r := *r
		r.via = append(slices.Clip(r.via), "time")
		return r.stmt(c.Stmt, at)
	case *syntax.CoprocClause:
		r.stmt(c.Stmt, at)
		return same(at)
	case *syntax.ArithmCmd:
		r.arithmetic("((", at, c.X)
		return same(at)
	case *syntax.LetClause:
		r.arithmetic("let", at, c.Exprs...)
		return same(at)
	case *syntax.TestClause:
		r.substituted(c, at)
		r.emit(simple{words: []word{{"[[", true}}, via: r.via, at: at, opaque: r.opaque || evaluates(c)})
		return same(at)
	}
	r.refuse("has a construct that is not known")
	return same(at)
}

// binary reads a chain. Chains lean to the left and may be long, so this goes down
// it without recursion.
func (r *reader) binary(c *syntax.BinaryCmd, at places) (success, any places) {
	chain := []*syntax.BinaryCmd{c}
	for {
		x := chain[len(chain)-1].X
		next, ok := x.Cmd.(*syntax.BinaryCmd)
		if !ok || len(x.Redirs) > 0 || x.Negated || x.Background {
			break
		}
		chain = append(chain, next)
	}
	success, any = r.stmt(chain[len(chain)-1].X, at)
	for _, b := range slices.Backward(chain) {
		switch b.Op {
		case syntax.AndStmt:
			s, a := r.stmt(b.Y, success)
			success, any = s, any.or(a)
		case syntax.OrStmt:
			s, a := r.stmt(b.Y, any)
			success, any = success.or(s), any.or(a)
		default: // a pipeline: each side in a shell of its own, or the last one in this
			_, a := r.stmt(b.Y, at)
			success, any = at.or(a), at.or(a)
		}
	}
	return success, any
}

func (r *reader) branches(c *syntax.IfClause, at places) places {
	if c == nil {
		return at
	}
	at = r.stmts(c.Cond, at)
	end := at.or(r.stmts(c.Then, at))
	return end.or(r.branches(c.Else, at))
}

// loop reads the body of a loop once. If that moves, the next round starts
// elsewhere.
func (r *reader) loop(at places, body func() places) places {
	end := body()
	if !slices.Equal(end, at) {
		r.res.taken = true
		return nil
	}
	return end
}

// substituted reads the commands that stand in n but are no statements of it.
func (r *reader) substituted(n syntax.Node, at places) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			if n.Backquotes && strings.Contains(r.source(n), `\`) {
				r.res.taken = true // shells undo these backslashes differently
			}
			r.stmts(n.Stmts, at)
			return false
		case *syntax.ProcSubst:
			r.stmts(n.Stmts, at)
			return false
		case *syntax.ParamExp:
			if e := n.Exp; e != nil && (e.Op == syntax.AssignUnset || e.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				r.sets(n.Param.Value)
			}
			if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps || n.Excl || n.Index != nil {
				r.res.taken = true // ${x@P} runs what x holds, and an index may
			}
		case *syntax.ArithmExp:
			if names(n.X) {
				r.res.taken = true
			}
		}
		return true
	})
}

func (r *reader) redirect(d *syntax.Redirect, c *simple) {
	if d.N != nil && strings.HasPrefix(d.N.Value, "{") {
		c.opaque = true // {name}> sets a variable
	}
	target := r.word(d.Word, c.at)
	if d.Hdoc != nil {
		r.substituted(d.Hdoc, c.at)
	}
	switch d.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		r.res.taken = r.res.taken || r.endsElsewhere(d)
		return
	case syntax.WordHdoc:
		return
	case syntax.DplIn, syntax.DplOut:
		if target.known && strings.Trim(target.text, "0123456789-") == "" {
			return
		}
		c.opaque = c.opaque || d.Op == syntax.DplIn
		c.writes = append(c.writes, target)
	case syntax.RdrIn:
		c.reads = append(c.reads, target)
	case syntax.RdrInOut:
		c.reads = append(c.reads, target)
		c.writes = append(c.writes, target)
	default:
		c.writes = append(c.writes, target)
	}
	if !target.known || strings.HasPrefix(target.text, "/dev/tcp/") || strings.HasPrefix(target.text, "/dev/udp/") {
		c.opaque = true
	}
}

// endsElsewhere reports whether a here-document may end elsewhere than the parser
// says. Shells join lines at a backslash before they look for a delimiter without
// quotes, by POSIX.1-2024, XCU 2.7.4, and bash takes one at the start of a line that
// closes a substitution.
func (r *reader) endsElsewhere(d *syntax.Redirect) bool {
	// From the operator on, since the parser does not say where the body begins.
	from, to := d.Word.End().Offset(), uint(len(r.src))
	if d.Hdoc != nil {
		to = min(to, d.Hdoc.End().Offset())
	}
	delimiter := r.plain(d.Word)
	if from > to || !delimiter.known || strings.Contains(r.source(d.Word), "\\\n") {
		return true
	}
	for line := range strings.SplitSeq(r.src[from:to], "\n") {
		if after, ok := strings.CutPrefix(strings.TrimLeft(line, "\t"), delimiter.text); ok && delimiter.text != "" && strings.ContainsAny(after, ")`") {
			return true
		}
	}
	for _, part := range d.Word.Parts {
		if lit, ok := part.(*syntax.Lit); !ok || strings.Contains(lit.Value, `\`) {
			return false // quoted
		}
	}
	return strings.Contains(r.src[from:to], "\\\n")
}

// call reads a simple command.
func (r *reader) call(call *syntax.CallExpr, c simple) (success, any places) {
	for _, a := range call.Assigns {
		value := r.assigned(a, c.at)
		switch {
		case len(call.Args) > 0 && !(value.known && harmless(a.Name.Value)):
			c.opaque = true
		case len(call.Args) == 0:
			c.opaque = c.opaque || !r.sets(a.Name.Value)
		}
	}
	if len(call.Assigns) > 0 && len(call.Args) > 0 {
		c.via = append(slices.Clip(c.via), "env")
	}
	for _, w := range call.Args {
		c.words = append(c.words, r.word(w, c.at))
	}
	if len(c.words) > 0 && strings.HasPrefix(c.words[0].text, "^") {
		c.opaque = true // history once more
	}
	return r.run(c)
}

// assigned resolves the value of an assignment.
func (r *reader) assigned(a *syntax.Assign, at places) word {
	r.substituted(a, at)
	if a.Index != nil || a.Array != nil {
		r.res.taken = r.res.taken || a.Index != nil && names(a.Index)
		return word{}
	}
	if a.Value == nil {
		return word{"", true}
	}
	return r.plain(a.Value)
}

// declare reads export, local and the like as the commands that they are.
func (r *reader) declare(d *syntax.DeclClause, c simple) (success, any places) {
	c.words = []word{{d.Variant.Value, true}}
	for _, a := range d.Args {
		value := r.assigned(a, c.at)
		switch {
		case a.Naked && a.Name == nil:
			c.words = append(c.words, value)
		case a.Naked && a.Index == nil:
			c.words = append(c.words, word{a.Name.Value, true})
		case a.Index != nil || a.Array != nil || a.Append || !value.known:
			c.words = append(c.words, word{r.source(a), false})
		default:
			c.words = append(c.words, word{a.Name.Value + "=" + value.text, true})
		}
	}
	return r.run(c)
}

// arithmetic is a command of its own when it could do more than to count: the value
// of a name may hold a[$(command)].
func (r *reader) arithmetic(name string, at places, exprs ...syntax.ArithmExpr) {
	c := simple{words: []word{{name, true}}, via: r.via, at: at, opaque: r.opaque}
	for _, x := range exprs {
		if x != nil {
			r.substituted(x, at)
			c.opaque = c.opaque || names(x)
		}
	}
	r.emit(c)
}

// names reports whether x holds anything but numbers and operators.
func names(x syntax.ArithmExpr) bool {
	found := false
	syntax.Walk(x, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok {
			found = found || w.Lit() == "" || strings.Trim(w.Lit(), "0123456789") != ""
		}
		return !found
	})
	return found
}

// evaluates reports whether a [[ ]] does arithmetic.
func evaluates(c *syntax.TestClause) bool {
	found := false
	syntax.Walk(c, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryTest:
			found = found || slices.Contains([]syntax.BinTestOperator{syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr}, n.Op)
		case *syntax.UnaryTest:
			found = found || n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar
		}
		return !found
	})
	return found
}
