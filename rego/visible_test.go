package rego

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

func TestListing(t *testing.T) {
	b := withBase(t, files("rules.rego", `package callgate.rules

import data.callgate.lib
import rego.v2

visible contains "docs.*" if lib.role("analyst")

visible contains name if some name in lib.shown(data.lists)
`, "data.json", `{"lists": {"support": ["refund", "mail.**"]}}`))
	l, err := OpenListing(t.Context(), b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		roles []string
		want  []string
		shows []string
		not   []string
	}{
		{nil, nil, nil, []string{"docs.read", "refund"}},
		{[]string{"analyst"}, []string{"docs.*"}, []string{"docs.read"}, []string{"docs.a.b", "refund", "docs"}},
		{[]string{"analyst", "support"}, []string{"docs.*", "mail.**", "refund"}, []string{"refund", "mail.a.b", "docs.x"}, []string{"refunds"}},
	} {
		got, err := l.Shown(t.Context(), somebody(tt.roles...), now)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%v: shown %v, %v", tt.roles, got, err)
		}
		for _, name := range append(slices.Clone(tt.shows), tt.not...) {
			ok, err := l.Shows(t.Context(), got, name)
			if want := slices.Contains(tt.shows, name); err != nil || ok != want {
				t.Errorf("%v: %s: %t, %v", tt.roles, name, ok, err)
			}
		}
	}
}

func TestListingOfOtherPolicies(t *testing.T) {
	for _, tt := range []struct {
		name string
		give fs.FS
		want error
	}{
		{"the starter says so", withBase(t, bundles.Starter()), nil},
		{"no rule does", withBase(t, bundles.Project()), ErrNoListing},
		{"without the library", files("p.rego", "package callgate\n\ndecision := \"x\"\n"), nil},
		{"without the library, by a rule", files("p.rego", "package callgate\n\ndefault decision := false\n\nvisible contains \"a\" if count(input.principal.roles) > 0\n"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := OpenListing(t.Context(), tt.give, Options{})
			if tt.name == "without the library" {
				if err == nil {
					t.Error("lists what does not load")
				}
				return
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if l != nil {
				if _, err := l.Shown(t.Context(), somebody("analyst"), time.Unix(1, 0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAccessOf(t *testing.T) {
	b := withBase(t, bundles.Project())
	_, world, err := Generate(t.Context(), GenerateOptions{Bundles: []GenerateBundle{{FS: b}}, Tools: office().Tools, Most: 1})
	if err != nil {
		t.Fatal(err)
	}
	who, name := world.Everybody()
	cases, _, err := Generate(t.Context(), GenerateOptions{Bundles: []GenerateBundle{{FS: b}}, Tools: office().Tools, Tool: "refund", Who: who, Most: 500})
	if err != nil {
		t.Fatal(err)
	}
	all, err := AccessOf(t.Context(), mustOpen(t, b), cases, name)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]call.Verdict{}
	for _, a := range all {
		if a.Tool != "refund" || a.Tried == 0 {
			t.Errorf("told %+v", a)
		}
		got[a.Who] = a.Verdict
	}
	// The tool of that world is not classified, so an approver is asked.
	for who, want := range map[string]call.Verdict{"anybody": call.Deny, "role analyst": call.Deny, "role support": call.Ask} {
		if got[who] != want {
			t.Errorf("%s: %s, want %s", who, got[who], want)
		}
	}
}
