package rego

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// inRoot says that a package is the library's by its name.
func inRoot(pkg string) bool {
	name := strings.TrimPrefix(pkg, "data.")
	return name == ownRoot || strings.HasPrefix(name, ownRoot+".") || strings.HasPrefix(name, ownRoot+"[")
}

// checkPackages keeps the base library's packages its own. OPA joins files of one
// package wherever they are, so a file elsewhere could add a rule to the decision
// or to a helper that every rule trusts. Rules go into callgate.rules; tests may
// be beside anything. A bundle without the library may define what it likes.
func (v *vetting) checkPackages() {
	if !v.library {
		return
	}
	for _, m := range v.modules {
		if m.library || m.test || !inRoot(m.pkg) || m.pkg == rulesPath {
			continue
		}
		name := strings.TrimPrefix(m.pkg, "data.")
		v.refuse(m.parsed.Package.Location, "package_reserved",
			"package %s belongs to the base library; rules go into callgate.rules, and helpers into a package of your own", name)
	}
	if _, ok := v.bundle.Data[ownRoot]; ok {
		v.findings = append(v.findings, Finding{
			SeverityError, "data_reserved", "data." + ownRoot,
			"data under callgate belongs to the base library; keep data in a directory of another name",
		})
	}
}

// checkUnread refuses packages that no rule reads, which are mostly misspelt, and
// rules beside the words that are neither a word nor read by one.
func (v *vetting) checkUnread() {
	if len(v.reached) == 0 {
		return // without an entrypoint nobody reads anything
	}
	read := map[string]bool{} // packages
	for r := range v.reached {
		read[r.Module.Package.Path.String()] = true
	}
	told, tested := map[string]bool{}, v.tested()
	for _, m := range v.modules {
		switch {
		case m.library && m.pkg == rulesPath:
			v.checkLibraryWords(m)
		case m.library:
		case m.test && read[m.pkg]:
			v.refuse(m.parsed.Package.Location, "package_of_tests",
				"rules read package %s, and packages whose name ends in _test are for tests; give it another name", m.pkg)
		case m.test && v.library:
			v.checkLostWords(m, tested)
		case m.test:
		case m.pkg == rulesPath && v.library:
			v.checkWordNames(m)
		case !read[m.pkg] && !told[m.pkg] && len(m.parsed.Rules) > 0 && !(inRoot(m.pkg) && v.library):
			told[m.pkg] = true
			v.refuse(m.parsed.Package.Location, "package_unread", "nothing reads package %s%s",
				strings.TrimPrefix(m.pkg, "data."), v.insteadOfPackage())
		case v.library && read[m.pkg] && !inRoot(m.pkg):
			v.checkLostWords(m, v.reached)
		}
	}
}

// checkLibraryWords refuses rules that were put beside the library's own words.
func (v *vetting) checkLibraryWords(m *module) {
	for _, r := range m.compiled.Rules {
		if name := nameOf(r); forms()[name] == nil {
			v.refuse(r.Location, "rule_unread", "%s is not a word%s", name, didYouMean(name, sortedKeys(forms())))
		}
	}
}

// checkLostWords refuses rules that are named like a word, and are none where they
// are: nothing reads them.
func (v *vetting) checkLostWords(m *module, read map[*ast.Rule]bool) {
	for _, r := range m.compiled.Rules {
		if name := nameOf(r); v.words[name] && !read[r] {
			v.refuse(r.Location, "rule_unread", "%s is a word only in package callgate.rules, and nothing reads it in %s",
				name, strings.TrimPrefix(m.pkg, "data."))
		}
	}
}

func (v *vetting) insteadOfPackage() string {
	if v.library {
		return "; rules that decide go into package callgate.rules, and rules there read helpers"
	}
	return "; the decision is " + v.entry
}

func (v *vetting) checkWordNames(m *module) {
	told, read := map[string]bool{}, map[string]bool{}
	first := func(r *ast.Rule) string { return r.Head.Ref()[0].String() }
	for _, r := range m.compiled.Rules {
		read[first(r)] = read[first(r)] || v.reached[r]
	}
	for _, r := range m.compiled.Rules {
		name := nameOf(r)
		if v.words[name] || read[first(r)] || told[name] {
			continue // of t.a and t.b, it is enough that one is read
		}
		told[name] = true
		v.refuse(r.Location, "rule_unread", "%s is not a word, and no rule reads it%s", name, didYouMean(name, sortedKeys(v.words)))
	}
}

// checkSplit refuses a helper with rules in two files. OPA joins them, so that one
// team's helper of a common name would widen another's.
func (v *vetting) checkSplit() {
	first := map[string]*ast.Location{}
	for _, m := range v.modules {
		if !m.authored() {
			continue
		}
		for _, r := range m.compiled.Rules {
			if v.joins(m, r) {
				continue
			}
			full := m.pkg + "." + nameOf(r)
			l, ok := first[full]
			switch {
			case !ok:
				first[full] = r.Location
			case l.File != r.Location.File:
				v.refuse(r.Location, "helper_split", "%s is also defined at %s, and the two are joined; keep it in one file or give one another name",
					strings.TrimPrefix(full, "data."), placeOf(l))
				first[full] = r.Location
			}
		}
	}
}

// joins says that rules of this name are meant to come from many files: words, and
// without the library any set, for so plain OPA's policies are written.
func (v *vetting) joins(m *module, r *ast.Rule) bool {
	if v.library {
		return m.pkg == rulesPath && v.words[nameOf(r)]
	}
	return r.Head.RuleKind() == ast.MultiValue
}

// nameOf is the constant part of a rule's name within its package: p.q of p.q[x].
func nameOf(r *ast.Rule) string { return r.Head.Ref().ConstantPrefix().String() }
