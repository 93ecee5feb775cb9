package facts

import (
	"path"
	"slices"
	"strings"
)

// places are the directories where a shell may be, relative to where its line
// starts or absolute. Nil is anywhere.
type places []string

var here = places{"."}

const maxPlaces = 8

func (p places) or(q places) places {
	if p == nil || q == nil {
		return nil
	}
	all := slices.Concat(p, q)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxPlaces {
		return nil
	}
	return all
}

// to is where p leads after cd dir.
func (p places) to(dir string) places {
	if p == nil && !path.IsAbs(dir) || turnsBack(dir) {
		return nil
	}
	if path.IsAbs(dir) {
		return places{path.Clean(dir)}
	}
	q := places{}
	for _, d := range p {
		// A link may have led to d, and then its parent is not the one that is seen.
		if d != "." && strings.HasPrefix(path.Clean(dir), "..") {
			return nil
		}
		q = q.or(places{path.Join(d, dir)})
	}
	return q
}

// turnsBack reports whether dir goes up from a directory that it names, which may be
// a link.
func turnsBack(dir string) bool {
	named := false
	for s := range strings.SplitSeq(dir, "/") {
		switch s {
		case "", ".":
		case "..":
			if named {
				return true
			}
		default:
			named = true
		}
	}
	return false
}

// paths cleans what words name, seen from every place. It reports whether that is
// known.
func (p places) paths(words []word) (list []string, known bool) {
	list, known = []string{}, true
	for _, w := range words {
		if w.text == "" || w.text == "-" && w.known {
			continue
		}
		known = known && w.known && !turnsBack(w.text)
		if path.IsAbs(w.text) || !w.known || p == nil {
			list = append(list, path.Clean(w.text))
			known = known && (path.IsAbs(w.text) || p != nil)
			continue
		}
		for _, d := range p {
			if d != "." && strings.HasPrefix(path.Clean(w.text), "..") {
				known = false
			}
			list = append(list, path.Join(d, w.text))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), known
}
