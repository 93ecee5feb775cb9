package facts_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

func FuzzDerive(f *testing.F) {
	f.Add([]byte(`{"url":"HTTPS://X.io","list":[{"p":"/w//a","m":"read"}]}`), "/url", "/list/*/p", "/list/*/m")
	f.Add([]byte(`{"url":"https://x.io/","list":[]}`), "/url", "/list/*", "/m")
	f.Add([]byte(`{"*":{"*":"https://x.io"},"~":"/w"}`), "/*/*", "/~0", "/*")
	f.Fuzz(func(t *testing.T, raw []byte, urlAt, pathAt, modeAt string) {
		args, err := call.Canonical(raw)
		if err != nil {
			return
		}
		d := facts.Declaration{
			URLs:  []facts.URLAt{{At: urlAt, Method: "GET"}},
			Paths: []facts.PathAt{{At: pathAt, ModeAt: modeAt}},
		}
		got, out, err := d.Derive(args)
		if err != nil {
			if code := call.CodeOf(err, ""); code != call.CodeFactsUnparsable && code != call.CodeArgsTooLarge {
				t.Fatal(err)
			}
			if !out.IsZero() || got.URLs != nil || got.Paths != nil {
				t.Fatal("refused, yet gave facts")
			}
			return
		}
		if d.Validate() != nil || len(got.URLs) == 0 || len(got.Paths) == 0 {
			t.Fatalf("%s: declared, yet %+v", raw, got)
		}
		again, out2, err := d.Derive(out)
		if err != nil || out2 != out || !reflect.DeepEqual(again, got) {
			t.Fatalf("%s is no fixed point: %s, %v", out.Bytes(), out2.Bytes(), err)
		}
		for _, u := range got.URLs {
			if u.Method != "GET" || !call.MatchHost(u.Host, u.Host) {
				t.Fatalf("%s gives %+v", raw, u)
			}
		}
		for _, p := range got.Paths {
			if !facts.IsMode(p.Mode) {
				t.Fatalf("%s gives %+v", raw, p)
			}
		}
		var before, after any
		if err := json.Unmarshal(args.Bytes(), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &after); err != nil {
			t.Fatal(err)
		}
		sameButStrings(t, before, after)
	})
}

// sameButStrings checks that only strings which became a URL or path changed.
func sameButStrings(t *testing.T, before, after any) {
	t.Helper()
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok || len(a) != len(b) {
			t.Fatalf("%v became %v", before, after)
		}
		for k, v := range b {
			w, ok := a[k]
			if !ok {
				t.Fatalf("%v became %v", before, after)
			}
			sameButStrings(t, v, w)
		}
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			t.Fatalf("%v became %v", before, after)
		}
		for i, v := range b {
			sameButStrings(t, v, a[i])
		}
	case string:
		if a, ok := after.(string); !ok || a != b && !strings.HasPrefix(a, "http") && !strings.HasPrefix(a, "/") {
			t.Fatalf("%q became %v", before, after)
		}
	default:
		if before != after {
			t.Fatalf("%v became %v", before, after)
		}
	}
}
