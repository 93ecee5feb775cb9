package call

import (
	"cmp"
	"slices"
)

// Meet returns what both c and o permit: for every operation, Meet allows it
// exactly when c and o do. A bound that only one side states is that one's, of two
// the smaller.
//
// It is commutative, associative and, up to [Caps.Normalise], idempotent.
//
// # Errors
//
// [*Error] with [CodeCapsInvalid] when either side is malformed, or
// [CodeCapsTooMany] when more than 64 entries of one list are left, or more than
// 4,096 values in them.
func (c Caps) Meet(o Caps) (Caps, error) {
	a, err := c.normal()
	if err != nil {
		return Caps{}, err
	}
	b, err := o.normal()
	if err != nil {
		return Caps{}, err
	}
	m := Caps{
		FS:           normalFS(pairs(a.FS, b.FS, meetFS)),
		HTTP:         maximal(pairs(a.HTTP, b.HTTP, meetHTTP), coversHTTP, compareHTTP),
		Exec:         maximal(pairs(a.Exec, b.Exec, meetExec), coversExec, compareExec),
		Secrets:      meetList(a.Secrets, b.Secrets, has),
		Workspace:    a.Workspace && b.Workspace,
		Plan:         a.Plan && b.Plan,
		Log:          a.Log && b.Log,
		PreciseClock: a.PreciseClock && b.PreciseClock,
		Bounds:       a.Bounds.merge(b.Bounds, func(x, y int64) int64 { return min(x, y) }),
	}
	if err := m.tooMany(maxCapsMet, maxValuesMet); err != nil {
		return Caps{}, err
	}
	return m, nil
}

// Join returns what any of cs permits, as the grants of one layer are taken
// together. A bound is the largest that is stated; one without an opinion adds
// nothing. No cs is nothing at all.
//
// # Errors
//
// As [Caps.Meet].
func Join(cs ...Caps) (Caps, error) {
	var j Caps
	for _, c := range cs {
		n, err := c.normal()
		if err != nil {
			return Caps{}, err
		}
		j.FS = normalFS(append(j.FS, n.FS...))
		j.HTTP = maximal(append(j.HTTP, n.HTTP...), coversHTTP, compareHTTP)
		j.Exec = maximal(append(j.Exec, n.Exec...), coversExec, compareExec)
		j.Secrets = normalList(append(j.Secrets, n.Secrets...))
		j.Workspace = j.Workspace || n.Workspace
		j.Plan = j.Plan || n.Plan
		j.Log = j.Log || n.Log
		j.PreciseClock = j.PreciseClock || n.PreciseClock
		j.Bounds = j.Bounds.merge(n.Bounds, func(x, y int64) int64 { return max(x, y) })
		if err := j.tooMany(maxCapsMet, maxValuesMet); err != nil {
			return Caps{}, err
		}
	}
	return j, nil
}

// Normalise returns c in normal form: lists sorted, without repeats, without
// entries that another entry covers; an fs entry lists all the modes that its path
// has. It allows what c allows, and shares nothing with c. Normal forms that are
// equal allow the same; the converse holds but for http, where one set of requests
// can be cut into different entries ([Caps.Covers] both ways tells).
//
// # Errors
//
// As [Caps.Validate], with the limits of [Caps.Meet].
func (c Caps) Normalise() (Caps, error) { return c.normal() }

func (c Caps) normal() (Caps, error) {
	if err := c.check(maxCapsMet, maxValuesMet); err != nil {
		return Caps{}, err
	}
	c.FS = normalFS(c.FS)
	c.HTTP = maximal(mapped(c.HTTP, normalHTTP), coversHTTP, compareHTTP)
	c.Exec = maximal(mapped(c.Exec, normalExec), coversExec, compareExec)
	c.Secrets = normalList(c.Secrets)
	return c, nil
}

// Covers reports whether c permits all that o permits, and o states every bound
// that c states, none larger: o lies within c. Malformed capabilities cover
// nothing and are covered by nothing. The answer is exact but for http entries of
// more than 4,096 combinations that only several entries of c together would
// cover: it is false for those.
func (c Caps) Covers(o Caps) bool {
	a, err := c.normal()
	if err != nil {
		return false
	}
	b, err := o.normal()
	if err != nil {
		return false
	}
	return covers(a.FS, b.FS, coversFS) &&
		covers(a.Exec, b.Exec, coversExec) &&
		!slices.ContainsFunc(b.HTTP, func(h HTTP) bool { return !coversTogether(a.HTTP, h) }) &&
		covers(a.Secrets, b.Secrets, func(x, y string) bool { return x == y }) &&
		(a.Workspace || !b.Workspace) && (a.Plan || !b.Plan) && (a.Log || !b.Log) &&
		(a.PreciseClock || !b.PreciseClock) &&
		a.Bounds.covers(b.Bounds)
}

// covers reports whether each entry of b lies within one of a.
func covers[T any](a, b []T, within func(x, y T) bool) bool {
	for _, y := range b {
		if !slices.ContainsFunc(a, func(x T) bool { return within(x, y) }) {
			return false
		}
	}
	return true
}

// pairs meets every entry of a with every entry of b.
func pairs[T any](a, b []T, meet func(x, y T) (T, bool)) []T {
	var out []T
	for _, x := range a {
		for _, y := range b {
			if m, ok := meet(x, y); ok {
				out = append(out, m)
			}
		}
	}
	return out
}

// maximal keeps the entries that no other covers, sorted. Because it keeps just
// those, the order in which entries are met or joined does not show. It gives up,
// with too many, when there are several times too many on the way.
func maximal[T any](list []T, covers func(x, y T) bool, compare func(x, y T) int) []T {
	var out []T
	for _, x := range list {
		if slices.ContainsFunc(out, func(y T) bool { return covers(y, x) }) {
			continue
		}
		out = slices.DeleteFunc(out, func(y T) bool { return covers(x, y) })
		if out = append(out, x); len(out) > 4*maxCapsMet {
			break
		}
	}
	slices.SortFunc(out, compare)
	return out
}

func mapped[T any](list []T, f func(T) T) []T {
	out := make([]T, 0, len(list))
	for _, x := range list {
		out = append(out, f(x))
	}
	return out
}

// meetList returns the values of each normal list that the other covers.
func meetList[T cmp.Ordered](a, b []T, in func(sorted []T, x T) bool) []T {
	var out []T
	for _, x := range a {
		if in(b, x) {
			out = append(out, x)
		}
	}
	for _, y := range b {
		if in(a, y) {
			out = append(out, y)
		}
	}
	return normalList(out)
}

// normalList returns a sorted copy without repeats, nil for an empty one.
func normalList[T cmp.Ordered](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func has[T cmp.Ordered](sorted []T, x T) bool {
	_, ok := slices.BinarySearch(sorted, x)
	return ok
}
