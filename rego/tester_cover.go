package rego

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/cover"
)

// Coverage says which lines of rules the tests have reached. The tests themselves
// are left out, and so is a vendored base library.
type Coverage struct {
	Percent float64        `json:"percent"` // of lines; 100 if there are none
	Covered int            `json:"covered"` // lines
	Missed  int            `json:"missed"`
	Files   []FileCoverage `json:"files"`
}

// FileCoverage is the coverage of one file.
type FileCoverage struct {
	File    string  `json:"file"`
	Percent float64 `json:"percent"`
	Missed  []Lines `json:"missed,omitzero"`
}

// Lines are the lines of a file from First to Last.
type Lines struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

func coverage(all cover.Report, b *bundle.Bundle) Coverage {
	c := Coverage{Files: []FileCoverage{}}
	own := map[string]bool{}
	for _, m := range b.Modules {
		pkg := m.Parsed.Package.Path.String()
		library := inRoot(pkg) && strings.HasPrefix(strings.TrimPrefix(m.Path, "/"), vendored)
		own[m.Path] = !library && !strings.HasSuffix(pkg, "_test")
	}
	for _, name := range slices.Sorted(maps.Keys(all.Files)) {
		f := all.Files[name]
		if !own[name] || f.CoveredLines+f.NotCoveredLines == 0 {
			continue
		}
		one := FileCoverage{File: name, Percent: percent(f.CoveredLines, f.NotCoveredLines)}
		for _, r := range f.NotCovered {
			one.Missed = append(one.Missed, Lines{r.Start.Row, r.End.Row})
		}
		c.Covered += f.CoveredLines
		c.Missed += f.NotCoveredLines
		c.Files = append(c.Files, one)
	}
	c.Percent = percent(c.Covered, c.Missed)
	return c
}

func percent(covered, missed int) float64 {
	if covered+missed == 0 {
		return 100
	}
	return 100 * float64(covered) / float64(covered+missed)
}
