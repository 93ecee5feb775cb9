package call

import (
	"cmp"
	"slices"
)

var secretForms = []string{"bearer", "basic", "header"}

// maxCombinations bounds the work of one question of Covers.
const maxCombinations = 4096

func normalHTTP(h HTTP) HTTP {
	h.Hosts = normalHosts(h.Hosts)
	h.Ports = normalList(h.Ports)
	h.Methods = normalList(h.Methods)
	h.Paths = normalURLPaths(h.Paths)
	h.Networks = normalList(h.Networks)
	if h.Secret != nil {
		s := *h.Secret
		h.Secret = &s
	}
	return h
}

// meetHTTP meets two normal entries. Entries with different secrets, or one with
// and one without, have no request in common.
func meetHTTP(a, b HTTP) (HTTP, bool) {
	if !sameSecret(a.Secret, b.Secret) {
		return HTTP{}, false
	}
	m := HTTP{
		Hosts:    meetList(a.Hosts, b.Hosts, hasHost),
		Ports:    meetList(a.Ports, b.Ports, has),
		Methods:  meetList(a.Methods, b.Methods, has),
		Paths:    meetList(a.Paths, b.Paths, hasURLPath),
		Networks: meetList(a.Networks, b.Networks, has),
		Plain:    a.Plain && b.Plain,
	}
	if a.Secret != nil {
		s := *a.Secret
		m.Secret = &s
	}
	some := len(m.Hosts) > 0 && len(m.Ports) > 0 && len(m.Methods) > 0 && len(m.Paths) > 0 && len(m.Networks) > 0
	return m, some
}

// coversHTTP is for normal entries.
func coversHTTP(a, b HTTP) bool {
	return sameSecret(a.Secret, b.Secret) && (a.Plain || !b.Plain) &&
		allIn(a.Ports, b.Ports, has) && allIn(a.Methods, b.Methods, has) && allIn(a.Networks, b.Networks, has) &&
		allIn(a.Hosts, b.Hosts, hasHost) && allIn(a.Paths, b.Paths, hasURLPath)
}

// coversTogether reports whether the entries of a cover b between them. One
// combination of values of b is covered by a single entry or not at all: no
// finite list of names covers a wildcard, and none of deeper paths a prefix.
func coversTogether(a []HTTP, b HTTP) bool {
	if slices.ContainsFunc(a, func(x HTTP) bool { return coversHTTP(x, b) }) {
		return true
	}
	if !fewCombinations(len(b.Hosts), len(b.Ports), len(b.Methods), len(b.Paths), len(b.Networks)) {
		return false
	}
	one := b
	for _, h := range b.Hosts {
		for _, port := range b.Ports {
			for _, m := range b.Methods {
				for _, p := range b.Paths {
					for _, n := range b.Networks {
						one.Hosts, one.Ports, one.Methods = []string{h}, []int{port}, []string{m}
						one.Paths, one.Networks = []string{p}, []string{n}
						if !slices.ContainsFunc(a, func(x HTTP) bool { return coversHTTP(x, one) }) {
							return false
						}
					}
				}
			}
		}
	}
	return true
}

func fewCombinations(sizes ...int) bool {
	n := 1
	for _, s := range sizes {
		if n *= s; n > maxCombinations {
			return false
		}
	}
	return true
}

func allIn[T any](a, b []T, in func(sorted []T, x T) bool) bool {
	return !slices.ContainsFunc(b, func(x T) bool { return !in(a, x) })
}

func sameSecret(a, b *Secret) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func compareHTTP(a, b HTTP) int {
	return cmp.Or(
		slices.Compare(a.Hosts, b.Hosts),
		slices.Compare(a.Ports, b.Ports),
		slices.Compare(a.Methods, b.Methods),
		slices.Compare(a.Paths, b.Paths),
		slices.Compare(a.Networks, b.Networks),
		compareSecret(a.Secret, b.Secret),
		cmp.Compare(plainness(a), plainness(b)),
	)
}

func compareSecret(a, b *Secret) int {
	var x, y Secret
	if a != nil {
		x = *a
	}
	if b != nil {
		y = *b
	}
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.As, y.As))
}

func plainness(h HTTP) int {
	if h.Plain {
		return 1
	}
	return 0
}
