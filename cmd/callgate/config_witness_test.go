package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/local"
)

func TestWitnessConfig(t *testing.T) {
	c, err := load(t, `witnesses:
  - {name: disk, kind: file, path: w, key: k1}
  - {name: net, kind: http, url: https://witness.example/, ca: /ca, key: k2}
  - {name: far, kind: command, command: [ssh, far, callgate, witness, answer, /w], key: k3}
witness: {strict: true, quorum: 2, every: 250ms}
`)
	if err != nil {
		t.Fatal(err)
	}
	l := c.local(io.Discard)
	path := l.Witnesses[0].Path
	if !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/w") {
		t.Errorf("a relative path is %s", path)
	}
	want := []local.Witness{
		{Name: "disk", Kind: local.WitnessFile, Path: path, Key: "k1"},
		{Name: "net", Kind: local.WitnessHTTP, URL: "https://witness.example/", CA: "/ca", Key: "k2"},
		{Name: "far", Kind: local.WitnessCommand, Command: []string{"ssh", "far", "callgate", "witness", "answer", "/w"}, Key: "k3"},
	}
	if diff := cmp.Diff(want, l.Witnesses); diff != "" {
		t.Error(diff)
	}
	if l.Witnessing != (local.Witnessing{Strict: true, Quorum: 2, Every: 250 * time.Millisecond}) {
		t.Errorf("%+v", l.Witnessing)
	}
	if c, err := load(t, ""); err != nil || c.local(io.Discard).Witnesses != nil || c.Witness.Strict {
		t.Errorf("without any: %+v, %v", c.Witnesses, err)
	}
	one := "witnesses: [{name: a, kind: file, path: w, key: k}]\n"
	for give, want := range map[string]string{
		"witnesses: [{kind: file, path: w, key: k}]":                                                           "has no name",
		"witnesses: [{name: a, kind: file, path: w, key: k}, {name: a, kind: http, url: 'https://w', key: k}]": "stands there twice",
		"witnesses: [{name: 'https://w', kind: file, path: w, key: k}]":                                        "lower case",
		"witnesses: [{name: /w, kind: file, path: w, key: k}]":                                                 "lower case",
		"witnesses: [{name: a, path: w, key: k}]":                                                              "kind is not file, http or command",
		"witnesses: [{name: a, kind: File, path: w, key: k}]":                                                  "kind is not file, http or command",
		"witnesses: [{name: a, kind: file, url: 'https://w', key: k}]":                                         "needs path for file",
		"witnesses: [{name: a, kind: http, key: k}]":                                                           "needs path for file",
		"witnesses: [{name: a, kind: http, url: 'https://w', path: w, key: k}]":                                "no other of them",
		"witnesses: [{name: a, kind: command, command: [], key: k}]":                                           "needs path for file",
		"witnesses: [{name: a, kind: file, path: w, ca: c, key: k}]":                                           "ca is for http",
		"witnesses: [{name: a, kind: file, path: w}]":                                                          "key is empty",
		"witnesses: [{name: a, kind: file, path: w, key: k, secret: x}]":                                       "invalid keys",
		"witness: {strict: true}":                                                                              "there are no witnesses",
		one + "witness: {quorum: 2}":                                                                           "witness.quorum",
		one + "witness: {quorum: -1}":                                                                          "witness.quorum",
		one + "witness: {every: -1s}":                                                                          "witness.every",
		one + "witness: {evry: 1s}":                                                                            "invalid keys",
	} {
		if _, err := load(t, give); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", give, err, want)
		}
	}
}
