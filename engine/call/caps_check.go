package call

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of capabilities.
const (
	MaxCapsEntries = 32                // entries that one list states
	maxCapsMet     = 64                // entries of one list after Meet or Join
	maxCapsValues  = 1024              // hosts, ports, methods, paths and networks of all http entries; modes of all fs ones; arguments, environment and ports of all exec ones
	maxValuesMet   = 4 * maxCapsValues // after Meet or Join: entries may hold values of manifest, ceiling and layers
	maxBound       = maxExact
	maxPort        = 65535
)

// Validate checks capabilities as somebody stated them: a manifest, a ceiling, a
// rule of a policy.
//
// # Errors
//
// [*Error] with [CodeCapsTooMany] for a list of more than [MaxCapsEntries], or for
// more than 1,024 values within the entries of one; or [CodeCapsInvalid]. Detail names the family, the entry by number and the field,
// never what stands in it.
func (c Caps) Validate() error { return c.check(MaxCapsEntries, maxCapsValues) }

func (c Caps) check(entries, values int) error {
	if err := c.tooMany(entries, values); err != nil {
		return err
	}
	var bad faults
	for i, f := range c.FS {
		at := fmt.Sprintf("fs[%d]", i)
		bad.add(at+".root", nameFault(f.Root))
		bad.add(at+".path", pathFault(f.Path))
		each(&bad, at+".modes", f.Modes, func(m string) string {
			if !slices.Contains(modes, m) {
				return "is not one of " + strings.Join(modes, ", ")
			}
			return ""
		})
	}
	for i, h := range c.HTTP {
		h.check(&bad, fmt.Sprintf("http[%d]", i))
	}
	for i, e := range c.Exec {
		e.check(&bad, fmt.Sprintf("exec[%d]", i))
	}
	for i, s := range c.Secrets {
		bad.add(fmt.Sprintf("secrets[%d]", i), nameFault(s))
	}
	for _, b := range c.Bounds.all() {
		if *b.value < 0 || *b.value > maxBound {
			bad.add("bounds."+b.name, "is not between 1 and 2^53-1")
		}
	}
	return bad.err()
}

func (h HTTP) check(bad *faults, at string) {
	each(bad, at+".hosts", h.Hosts, hostPatternFault)
	each(bad, at+".ports", h.Ports, portFault)
	each(bad, at+".methods", h.Methods, methodFault)
	each(bad, at+".paths", h.Paths, urlPrefixFault)
	each(bad, at+".networks", h.Networks, nameFault)
	if h.Secret != nil {
		bad.add(at+".secret.name", nameFault(h.Secret.Name))
		if !slices.Contains(secretForms, h.Secret.As) {
			bad.add(at+".secret.as", "is not one of "+strings.Join(secretForms, ", "))
		}
	}
}

func portFault(p int) string {
	if p < 1 || p > maxPort {
		return "is not between 1 and 65535"
	}
	return ""
}

func methodFault(m string) string {
	if m == "" || len(m) > 32 || strings.ContainsFunc(m, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' }) {
		return "is not an upper-case method"
	}
	return ""
}

// tooMany bounds the work of the algebra, which grows with the square of the
// entries times the values in them.
func (c Caps) tooMany(entries, values int) error {
	var inFS, inHTTP, inExec int
	for _, f := range c.FS {
		inFS += len(f.Modes)
	}
	for _, h := range c.HTTP {
		inHTTP += len(h.Hosts) + len(h.Ports) + len(h.Methods) + len(h.Paths) + len(h.Networks)
	}
	for _, e := range c.Exec {
		inExec += len(e.Args) + len(e.Env) + len(e.Ports)
	}
	for _, l := range []struct {
		name      string
		n, values int
	}{{"fs", len(c.FS), inFS}, {"http", len(c.HTTP), inHTTP}, {"exec", len(c.Exec), inExec}, {"secrets", len(c.Secrets), 0}} {
		if l.n > entries {
			return &Error{Code: CodeCapsTooMany, Detail: fmt.Sprintf("%s: %d entries, at most %d", l.name, l.n, entries)}
		}
		if l.values > values {
			return &Error{Code: CodeCapsTooMany, Detail: fmt.Sprintf("%s: %d values, at most %d", l.name, l.values, values)}
		}
	}
	return nil
}

// faults collects the first few faults, so that an author sees more than one at
// a time and a hostile list cannot make a long error.
type faults []string

const maxFaults = 8

func (f *faults) add(at, fault string) {
	if fault != "" && len(*f) < maxFaults {
		*f = append(*f, at+" "+fault)
	}
}

func (f *faults) addIn(at string, i int, fault string) {
	if fault != "" {
		f.add(fmt.Sprintf("%s[%d]", at, i), fault)
	}
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Code: CodeCapsInvalid, Detail: strings.Join(f, "; ")}
}

// each checks a list that must not be empty.
func each[T any](bad *faults, at string, list []T, fault func(T) string) {
	if len(list) == 0 {
		bad.add(at, "is empty")
	}
	for i, x := range list {
		bad.addIn(at, i, fault(x))
	}
}
