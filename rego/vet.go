package rego

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
)

// Severity says whether a bundle with a finding loads.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // [Open] refuses the bundle
	SeverityWarning Severity = "warning" // it loads, and probably does not say what was meant
)

// Finding is something to mend in a bundle, or to think about.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`    // stable, for machines: data_unknown
	Where    string   `json:"where"`   // file:line, or a place in data
	Message  string   `json:"message"` // what is wrong, and what to write instead
}

func (f Finding) String() string { return f.Where + ": " + f.Code + ": " + f.Message }

// The places of the base library and of what authors write.
const (
	vendored  = "callgate/" // directory of the library in a bundle that uses it
	ownRoot   = "callgate"  // root of the library's packages
	rulesPath = "data.callgate.rules"
)

// vetting looks at one bundle for what plain OPA accepts and no author can have
// meant: a rule that nobody reads, a name with nothing behind it.
type vetting struct {
	bundle   *bundle.Bundle
	compiler *ast.Compiler // nil if the bundle does not compile
	entry    string

	modules  []*module // by path
	library  bool      // the base library is there
	words    map[string]bool
	reached  map[*ast.Rule]bool
	findings []Finding
	hints    []Finding // warnings that the search for errors finds
}

type module struct {
	parsed, compiled *ast.Module
	pkg              string // data.callgate.rules
	library, test    bool
}

// authored says that the rules of m are an author's and decide something.
func (m *module) authored() bool { return !m.library && !m.test }

// vet returns what [Open] must refuse b for, as one error. The compiler has
// compiled b, or has failed to: then only what needs no compiler is looked at.
func vet(b *bundle.Bundle, c *ast.Compiler, entry string) error {
	return asError(newVetting(b, c, entry).errors())
}

func newVetting(b *bundle.Bundle, c *ast.Compiler, entry string) *vetting {
	v := &vetting{bundle: b, entry: entry, words: map[string]bool{}, reached: map[*ast.Rule]bool{}}
	if c != nil && !c.Failed() {
		v.compiler = c
	}
	for _, f := range b.Modules {
		m := &module{parsed: f.Parsed, pkg: f.Parsed.Package.Path.String()}
		m.test = strings.HasSuffix(m.pkg, "_test")
		m.library = strings.HasPrefix(strings.TrimPrefix(f.Path, "/"), vendored)
		if v.compiler != nil {
			m.compiled = c.Modules[f.Path]
		}
		v.library = v.library || m.library
		if m.library && m.pkg == rulesPath {
			for _, r := range m.parsed.Rules {
				// What else stands there is no word because of where it stands.
				if name := nameOf(r); forms()[name] != nil {
					v.words[name] = true
				}
			}
		}
		v.modules = append(v.modules, m)
	}
	slices.SortFunc(v.modules, func(x, y *module) int {
		return strings.Compare(x.parsed.Package.Location.File, y.parsed.Package.Location.File)
	})
	return v
}

// errors are the findings that keep the bundle from loading.
func (v *vetting) errors() []Finding {
	v.checkPackages()
	if v.compiler != nil {
		v.reach()
		v.checkUnread()
		v.checkSplit()
		v.checkRefs()
		v.checkWords()
		v.checkWaivers()
		v.checkFields()
		v.checkBodies()
		v.checkTruth()
		v.checkNames()
		v.checkHeads()
	}
	v.findings = inOrder(v.findings)
	return v.findings
}

func (v *vetting) refuse(l *ast.Location, code, format string, args ...any) {
	v.add(SeverityError, l, code, format, args...)
}

func (v *vetting) warn(l *ast.Location, code, format string, args ...any) {
	v.add(SeverityWarning, l, code, format, args...)
}

func (v *vetting) add(s Severity, l *ast.Location, code, format string, args ...any) {
	v.findings = append(v.findings, Finding{s, code, placeOf(l), fmt.Sprintf(format, args...)})
}

// authors calls f for each rule that an author wrote, also for those behind else.
// The rule is as it was compiled.
func (v *vetting) authors(f func(m *module, r *ast.Rule)) {
	for _, m := range v.modules {
		if m.authored() && m.compiled != nil {
			ast.WalkRules(m.compiled, func(r *ast.Rule) bool {
				f(m, r)
				return false
			})
		}
	}
}

func placeOf(l *ast.Location) string {
	if l == nil {
		return "bundle"
	}
	return fmt.Sprintf("%s:%d", l.File, l.Row)
}

// inOrder puts findings in the order of files and lines, each once.
func inOrder(fs []Finding) []Finding {
	slices.SortStableFunc(fs, func(x, y Finding) int {
		xFile, xLine := splitPlace(x.Where)
		yFile, yLine := splitPlace(y.Where)
		return cmp.Or(
			strings.Compare(xFile, yFile), cmp.Compare(xLine, yLine),
			strings.Compare(x.Code, y.Code), strings.Compare(x.Message, y.Message),
		)
	})
	return slices.Compact(fs)
}

func splitPlace(where string) (file string, line int) {
	i := strings.LastIndexByte(where, ':')
	if i < 0 {
		return where, 0
	}
	if _, err := fmt.Sscanf(where[i+1:], "%d", &line); err != nil {
		return where, 0
	}
	return where[:i], line
}

// asError is one error of the findings that are errors, with all their places.
func asError(fs []Finding) error {
	var errs []error
	for _, f := range fs {
		if f.Severity != SeverityError {
			continue
		}
		// A log holds the code alone: messages quote names, and constants from data.
		err := &quoting{f.Code, fmt.Errorf("%s: %s", f.Code, f.Message)}
		errs = append(errs, &fault{f.Where, err})
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
