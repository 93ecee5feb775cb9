package call

import (
	"cmp"
	"slices"
)

// The modes of fs entries. None implies another.
const (
	ModeRead   = "read"
	ModeAppend = "append"
	ModeWrite  = "write"
	ModeList   = "list"
	ModeRemove = "remove"
)

var modes = []string{ModeRead, ModeAppend, ModeWrite, ModeList, ModeRemove}

// meetFS meets two normal entries in the deeper of two nested paths.
func meetFS(a, b FS) (FS, bool) {
	m := FS{Root: a.Root, Path: a.Path, Modes: meetList(a.Modes, b.Modes, has)}
	switch {
	case a.Root != b.Root || len(m.Modes) == 0:
		return FS{}, false
	case pathCovers(a.Path, b.Path):
		m.Path = b.Path
	case !pathCovers(b.Path, a.Path):
		return FS{}, false
	}
	return m, true
}

// coversFS needs to look at no other entry: a normal entry lists all the modes
// that its path has.
func coversFS(a, b FS) bool {
	return a.Root == b.Root && pathCovers(a.Path, b.Path) &&
		!slices.ContainsFunc(b.Modes, func(m string) bool { return !has(a.Modes, m) })
}

// normalFS returns one entry for each path that has a mode its parents have not,
// with all modes it has, its parents' too. So the directory handle of an entry
// can do all that the tool may do there.
func normalFS(list []FS) []FS {
	type dir struct{ root, path string }
	own := map[dir][]string{}
	for _, f := range list {
		d := dir{f.Root, f.Path}
		own[d] = normalList(append(own[d], f.Modes...))
	}
	var out []FS
	for d, m := range own {
		var above []string
		for p, pm := range own {
			if p != d && p.root == d.root && pathCovers(p.path, d.path) {
				above = append(above, pm...)
			}
		}
		above = normalList(above)
		if all := normalList(append(m, above...)); len(all) > len(above) {
			out = append(out, FS{d.root, d.path, all})
		}
	}
	slices.SortFunc(out, func(a, b FS) int { return cmp.Or(cmp.Compare(a.Root, b.Root), cmp.Compare(a.Path, b.Path)) })
	return out
}
