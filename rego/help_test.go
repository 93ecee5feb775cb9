package rego

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// input is a valid input, but for what a test changes in it.
func input(t testing.TB, tool, args string, roles ...string) *call.Input {
	t.Helper()
	a, err := call.Canonical([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	return &call.Input{
		Tool: call.Tool{Name: tool, Kind: "wasm", Class: "read", Digest: call.Digest(nil)},
		Args: a,
		Principal: call.Principal{
			ID: "alice", Kind: "agent", Roles: roles, Tenant: "acme",
			Auth: call.Auth{Method: "asserted"},
		},
		Session: call.Session{ID: "s", Run: "r"},
		Env:     call.Env{NowNS: 1_800_000_000_000_000_000, Node: "n"},
	}
}

// files is a bundle of one file for each pair of name and contents.
func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

// withBase adds the base library, as a project vendors it.
func withBase(t testing.TB, fsys fs.FS) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	add(t, m, "", fsys)
	add(t, m, "callgate/", bundles.Base())
	return m
}

func add(t testing.TB, to fstest.MapFS, dir string, from fs.FS) {
	t.Helper()
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(from, name)
		to[dir+name] = &fstest.MapFile{Data: b}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, fsys fs.FS) *Policy {
	t.Helper()
	p, err := Open(t.Context(), fsys, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rules is a policy of these rules on the base library.
func rules(t testing.TB, src string) *Policy {
	t.Helper()
	return mustOpen(t, withBase(t, files("rules.rego", "package callgate.rules\n\nimport rego.v2\n\n"+src)))
}

// answer is the verdict, or the code of the refusal to give one.
func answer(d call.Decision, err error) string {
	if e, ok := errors.AsType[*call.Error](err); ok {
		return string(e.Code)
	}
	if err != nil {
		return err.Error()
	}
	return string(d.Verdict)
}
