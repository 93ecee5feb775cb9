package facts_test

import (
	"errors"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

func TestParsePath(t *testing.T) {
	tests := []struct {
		give, want string
		fact       call.Path
	}{
		{"/docs", "/docs", call.Path{Root: "docs", Path: ".", Segments: []string{}}},
		{"/docs/", "/docs", call.Path{Root: "docs", Path: ".", Segments: []string{}}},
		{"/docs/a", "/docs/a", call.Path{Root: "docs", Path: "a", Segments: []string{"a"}}},
		{"//docs///a//b/", "/docs/a/b", call.Path{Root: "docs", Path: "a/b", Segments: []string{"a", "b"}}},
		{"/d_0-x/...", "/d_0-x/...", call.Path{Root: "d_0-x", Path: "...", Segments: []string{"..."}}},
		{"/docs/%2e%2e;x y", "/docs/%2e%2e;x y", call.Path{Root: "docs", Path: "%2e%2e;x y", Segments: []string{"%2e%2e;x y"}}},
		{"/docs/ü", "/docs/ü", call.Path{Root: "docs", Path: "ü", Segments: []string{"ü"}}},
		{"/docs/A", "/docs/A", call.Path{Root: "docs", Path: "A", Segments: []string{"A"}}},
	}
	for _, tt := range tests {
		p, text, err := facts.ParsePath(tt.give)
		if err != nil || text != tt.want || !reflect.DeepEqual(p, tt.fact) {
			t.Errorf("%q: %q, %#v, %v, want %q, %#v", tt.give, text, p, err, tt.want, tt.fact)
		}
	}
}

var refusedPaths = []struct{ give, want string }{
	{"", "begin with /"},
	{"docs/a", "begin with /"},
	{"./docs", "begin with /"},
	{"~/docs", "begin with /"},
	{`C:\docs`, "begin with /"},
	{"file:///docs", "begin with /"},
	{"/", "name of a root"},
	{"//", "name of a root"},
	{"/Docs/a", "name of a root"},
	{"/0docs", "name of a root"},
	{"/d.cs", "name of a root"},
	{"/ docs", "name of a root"},
	{"/döcs", "name of a root"},
	{"/" + strings.Repeat("a", 65), "name of a root"},
	{"/.", "a dot segment"},
	{"/..", "a dot segment"},
	{"/docs/.", "a dot segment"},
	{"/docs/a/../b", "a dot segment"},
	{"/docs//..//..", "a dot segment"},
	{"/../docs", "a dot segment"},
	{`/docs\a`, "a backslash"},
	{`/docs/..\a`, "a backslash"},
	{"/docs/\x00", "a control"},
	{"/docs/a\nb", "a control"},
	{"/docs/\x7f", "a control"},
	{"/docs/\u0085", "a control"},
	{"/docs/\u2028", "a control"},
	{"/docs/\u200b", "format character"},
	{"/docs/a\u202etxt.exe", "format character"},
	{"/docs/\u2066a", "format character"},
	{"/docs/\ufeff", "format character"},
	{"/docs/\u00ad", "format character"},
	{"/docs/\xff", "not UTF-8"},
	{"/docs/\xc0\xae", "not UTF-8"},
	{"/docs/u\u0308", "form C"},
	{"/docs/\u212b", "form C"}, // the ångström sign
	{"/docs/" + strings.Repeat("a", 1024), "too long"},
}

func TestParsePathRefuses(t *testing.T) {
	for _, tt := range refusedPaths {
		p, text, err := facts.ParsePath(tt.give)
		e, ok := errors.AsType[*call.Error](err)
		if !ok || e.Code != call.CodeFactsUnparsable || !strings.Contains(e.Detail, tt.want) {
			t.Errorf("%.40q: %q, %v, want %q", tt.give, text, err, tt.want)
			continue
		}
		if text != "" || !reflect.DeepEqual(p, call.Path{}) {
			t.Errorf("%.40q: refused, yet gave %q, %+v", tt.give, text, p)
		}
	}
	for _, s := range []string{"canary", "/Canary", "/docs/canary/..", "/docs/canary\x00"} {
		if _, _, err := facts.ParsePath(s); err == nil || strings.Contains(strings.ToLower(err.Error()), "canary") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, tt := range refusedPaths {
		f.Add(tt.give)
	}
	f.Add("/docs/a//b/")
	f.Add("/docs")
	f.Fuzz(func(t *testing.T, raw string) {
		p, text, err := facts.ParsePath(raw)
		if err != nil {
			if call.CodeOf(err, "") != call.CodeFactsUnparsable {
				t.Fatalf("%q: %v", raw, err)
			}
			return // refusing is always allowed
		}
		again, text2, err := facts.ParsePath(text)
		if err != nil || text2 != text || !reflect.DeepEqual(again, p) {
			t.Fatalf("%q is no fixed point: %q, %+v, %v, was %+v", text, text2, again, err, p)
		}
		if path.Clean(raw) != text && path.Clean(strings.TrimLeft(raw, "/")) != text[1:] {
			t.Fatalf("%q became %q, another place", raw, text)
		}
		if joined := path.Join("/"+p.Root, p.Path); joined != text || joined != "/"+path.Join(append([]string{p.Root}, p.Segments...)...) {
			t.Fatalf("%q: %q below %q is %q", raw, p.Path, p.Root, joined)
		}
		if p.Segments == nil || p.Mode != "" {
			t.Fatalf("%q gives %+v", raw, p)
		}
		// What grants are made of takes it, and finds it below its root.
		root := call.Caps{FS: []call.FS{{Root: p.Root, Path: ".", Modes: []string{call.ModeRead}}}}
		one := call.Caps{FS: []call.FS{{Root: p.Root, Path: p.Path, Modes: []string{call.ModeRead}}}}
		if err := one.Validate(); err != nil || !root.Covers(one) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
