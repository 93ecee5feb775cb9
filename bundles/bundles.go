// Package bundles holds the Rego that Callgate ships.
//
// [Base] is the library that makes one decision out of the words that rules say.
// It is vendored into a project, under callgate/ in its bundle, so that plain OPA
// runs the project's policy as it stands; [Digest] tells whether that copy is the
// one that was shipped. [Project] is the policy that a new project starts with,
// [Starter] one for whoever would rather write no Rego, and [OrgBaseline] a layer
// above the policies of many teams.
package bundles

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
)

// Tests stay behind: they are about the library alone, and a project's rules
// would get in their way.
//
//go:embed base/approval.rego base/args.rego base/budget.rego base/classes.rego
//go:embed base/decision.rego base/defaults.rego base/facts.rego base/flow.rego
//go:embed base/lib.rego base/malformed.rego base/raw.rego base/sample.rego
//go:embed base/sensitivity.rego base/shape.rego base/words.rego
var base embed.FS

//go:embed project
var project embed.FS

//go:embed web
var web embed.FS

// A test of the example data stays behind: the data is there to be changed.
//
//go:embed starter/shape.rego starter/starter.rego starter/starter_test.rego starter/starter
var starter embed.FS

//go:embed org-baseline
var orgBaseline embed.FS

// Base returns the base library, without its tests.
func Base() fs.FS { return sub(base, "base") }

// Project returns a small policy with its data and tests. It needs [Base] under
// callgate/ beside it.
func Project() fs.FS { return sub(project, "project") }

// Web returns what the demo adds to [Project]: who may fetch from which service.
func Web() fs.FS { return sub(web, "web") }

// Starter returns a policy that is configured by the data in starter/ alone, with an
// example of it for the same tools as [Project]. It needs [Base] likewise.
func Starter() fs.FS { return sub(starter, "starter") }

// OrgBaseline returns a restrict layer for an organisation: what no policy of its
// teams can permit. The data in org/ configures it. It needs [Base] likewise.
func OrgBaseline() fs.FS { return sub(orgBaseline, "org-baseline") }

func sub(f fs.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic("bundles: internal error: " + err.Error()) // dir is a constant of this file
	}
	return s
}

// Digest is sha256:<hex> over the path and bytes of every file in fsys, sorted
// by path. Anything but regular files and directories is an error.
func Digest(fsys fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s: not a regular file", name)
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		// Lengths keep the end of one part from being read as the start of the next.
		fmt.Fprintf(h, "file %d %d\n", len(name), len(b))
		_, _ = io.WriteString(h, name)
		_, _ = h.Write(b)
		return nil
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

//go:embed coding-agent
var codingAgent embed.FS

// CodingAgent returns a policy for coding agents: shell lines, git, files and
// requests. The data in coding/ configures it. It needs [Base] likewise.
func CodingAgent() fs.FS { return sub(codingAgent, "coding-agent") }
