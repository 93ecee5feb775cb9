package call_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
)

func keyed(target string) string { return "hmac-sha256:" + strconv.Itoa(len(target)) }

// What a record has in the clear is of the grant, or of what was really there.
func TestRecordEffects(t *testing.T) {
	granted := call.Caps{HTTP: []call.HTTP{{Hosts: []string{"api.example.com", "*.a.example.com"}}}}
	file := func(kind, target, code string) call.Effect {
		return call.Effect{Kind: kind, Within: "/docs/in", Target: target, Code: code}
	}
	web := func(url, code string) call.Effect { return call.Effect{Kind: "http.get", Target: url, Code: code} }
	long := strings.Repeat("a", 1024)
	tests := []struct {
		name string
		give call.Effect
		host string
		path string
	}{
		{"a file", file("fs.read", "/docs/in/a.txt", "ok"), "", "a.txt"},
		{"an edit of another program's", file("workspace.record", "/docs/in/a.txt", "ok"), "", "a.txt"},
		{"deeper", file("fs.append", "/docs/in/b/ä 1/c", "ok"), "", "b/ä 1/c"},
		{"the directory itself", file("fs.list", "/docs/in", "ok"), "", "."},
		{"1,024 bytes", file("fs.write", "/docs/in/"+long, "ok"), "", long},
		{"1,025 bytes", file("fs.write", "/docs/in/"+long+"a", "ok"), "", ""},
		{"refused", file("fs.read", "/docs/in/a.txt", "refused"), "", ""},
		{"not there", file("fs.read", "/docs/in/a.txt", "not_found"), "", ""},
		{"an error", file("fs.read", "/docs/in/a.txt/x", "error"), "", ""},
		{"over a cap", file("fs.write", "/docs/in/a.txt", "over_cap"), "", ""},
		{"changed", file("fs.write", "/docs/in/a.txt", "changed"), "", ""},
		{"beside", file("fs.read", "/docs/in2/a.txt", "ok"), "", ""},
		{"outside", file("fs.read", "/docs/a.txt", "ok"), "", ""},
		{"under nothing", call.Effect{Kind: "fs.read", Target: "/docs/a.txt", Code: "ok"}, "", ""},
		{"not UTF-8", file("fs.read", "/docs/in/a\xff", "ok"), "", ""},
		{"a line break", file("fs.read", "/docs/in/a\nb", "ok"), "", ""},
		{"an escape", file("fs.read", "/docs/in/a\u009b2J", "ok"), "", ""},
		{"text that turns round", file("fs.read", "/docs/in/a\u202etxt", "ok"), "", ""},

		{"a request", web("https://api.example.com/v1?q=1", "ok"), "api.example.com:443", ""},
		{"its port", web("https://api.example.com:8443/v1", "ok"), "api.example.com:8443", ""},
		{"plain", web("http://api.example.com/v1", "ok"), "api.example.com:80", ""},
		{"a wildcard", web("https://x.a.example.com/", "no_answer"), "x.a.example.com:443", ""},
		{"a granted host, refused", web("https://api.example.com:1/v2", "refused"), "api.example.com:1", ""},
		{"another host, refused", web("https://canary.example.com/v2", "refused"), "", ""},
		{"too deep for the wildcard", web("https://canary.x.a.example.com/", "refused"), "", ""},
		{"another host that was asked", web("https://other.example.com/", "ok"), "", ""},
		{"no URL", web("%zz", "refused"), "", ""},

		{"a command", call.Effect{Kind: "exec", Within: "/bin/cat", Target: "/bin/cat", Code: "ok"}, "", ""},
		{"a refused command", call.Effect{Kind: "exec", Target: "/bin/canary", Code: "refused"}, "", ""},
		{"a line", call.Effect{Kind: "log", Within: "log", Code: "ok", Count: 2}, "", ""},
		{"the rest", call.Effect{Code: "more", Count: 2}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := tt.give
			e.Address, e.BytesIn, e.BytesOut, e.TookUS, e.Enforcement = "192.0.2.1:443", 1, 2, 3, "structural"
			want := call.RecordEffect{
				Kind: e.Kind, Within: e.Within, Target: keyed(e.Target), Host: tt.host, Path: tt.path, Address: e.Address, Code: e.Code,
				BytesIn: 1, BytesOut: 2, TookUS: 3, Count: e.Count, Enforcement: "structural",
			}
			if d := cmp.Diff([]call.RecordEffect{want}, call.RecordEffects([]call.Effect{e}, granted, keyed)); d != "" {
				t.Errorf("recorded (-want +got):\n%s", d)
			}
		})
	}
}

// The most effects that there can be, with the longest names, are a record that the
// log takes: if it did not, the engine would stop.
func TestRecordOfManyEffectsFits(t *testing.T) {
	for name, within := range map[string]string{"deep": "/docs/" + strings.Repeat(`"`, 4000), "flat": "/docs/" + strings.Repeat(`"`, 290)} {
		var many []call.Effect
		host := strings.Repeat("a", 250)
		for _, kind := range strings.Fields("get head post put patch delete options other") { // the first 3 of each kind and code
			for _, code := range []string{"ok", "refused", "redirect", "no_answer", "withheld", "over_cap", "changed", "error"} {
				many = append(many, slices.Repeat([]call.Effect{{
					Kind: "http." + kind, Within: host + ":65535", Target: "https://" + host + ":65535/", Address: "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", Code: code,
					BytesIn: 1<<63 - 1, BytesOut: 1<<63 - 1, TookUS: 1<<63 - 1, Enforcement: "structural",
				}}, 3)...)
			}
		}
		for range 22 * 6 * 3 { // of the other kinds, each with at most 6 codes
			many = append(many, call.Effect{Kind: "workspace.record", Within: within, Code: "no_answer", BytesIn: 1<<63 - 1, BytesOut: 1<<63 - 1, TookUS: 1<<63 - 1, Enforcement: "structural"})
		}
		for _, code := range []string{"ok", "refused", "not_found", "error", "over_cap", "redirect", "no_answer", "withheld", "changed", "stopped"} {
			for range map[bool]int{true: 500, false: 100}[code == "ok"] {
				many = append(many, call.Effect{
					Kind: "fs.remove", Within: within, Target: within + "/" + strings.Repeat(`"`, 1024), Code: code,
					BytesIn: 1<<63 - 1, BytesOut: 1<<63 - 1, TookUS: 1<<63 - 1, Count: 1<<63 - 1, Enforcement: "structural",
				})
			}
		}
		line, err := call.Record{Type: call.TypeOutcome, Outcome: &call.RecordOutcome{Effects: call.RecordEffects(many, call.Caps{HTTP: []call.HTTP{{Hosts: []string{host}}}}, func(string) string {
			return "hmac-sha256:" + strings.Repeat("0", 64)
		})}}.Encode()
		if err != nil || len(line) > 2<<20-100_000 { // of the rest of the record
			t.Errorf("%s: %d bytes, %v", name, len(line), err)
		}
		if n := strings.Count(string(line), `"path":`); n < 100 || n == 500 {
			t.Errorf("%s: %d paths are in the clear", name, n)
		}
	}
}

// Whatever a tool did, its record is read again as it was written, and nothing of what
// did not happen stands in it.
func TestRecordEffectRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		effects := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call.Effect {
			within := rapid.SampledFrom([]string{"", "/docs", "/docs/in", "api.example.com:443", "/bin/cat"}).Draw(t, "within")
			return call.Effect{
				Kind:    rapid.SampledFrom([]string{"fs.read", "fs.write", "http.get", "http.other", "exec", "log", ""}).Draw(t, "kind"),
				Within:  within,
				Target:  rapid.SampledFrom([]string{"", within + "/", "https://api.example.com/", "https://"}).Draw(t, "begins") + text.Draw(t, "target"),
				Address: rapid.SampledFrom([]string{"", "192.0.2.1:443", "[2001:db8::1]:1"}).Draw(t, "address"),
				Code:    rapid.SampledFrom([]string{"ok", "refused", "not_found", "more"}).Draw(t, "code"),
				BytesIn: rapid.Int64Range(0, 1<<53-1).Draw(t, "in"), BytesOut: rapid.Int64Range(0, 1<<53-1).Draw(t, "out"), TookUS: rapid.Int64Range(0, 1<<53-1).Draw(t, "took"), Count: rapid.Int64Range(0, 1<<53-1).Draw(t, "count"),
				Enforcement: rapid.SampledFrom([]string{"", "structural", "partial"}).Draw(t, "enforcement"),
			}
		}), 0, 5).Draw(t, "effects")
		want := call.Record{Type: call.TypeOutcome, Outcome: &call.RecordOutcome{Effects: call.RecordEffects(effects, call.Caps{HTTP: []call.HTTP{{Hosts: []string{"api.example.com"}}}}, keyed)}}
		line, err := want.Encode()
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		got, err := call.DecodeRecord(line)
		if err != nil {
			t.Fatalf("DecodeRecord: %v\n%s", err, line)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("round trip (-want +got):\n%s", d)
		}
		for i, r := range got.Outcome.Effects {
			if e := effects[i]; !utf8.ValidString(r.Path) || r.Path != "" && (e.Code != "ok" || e.Within == "" || r.Path != "." && e.Within+"/"+r.Path != e.Target) || !slices.Contains([]string{"", "api.example.com"}, hostOf(r.Host)) {
				t.Errorf("%+v is recorded as %+v", e, r)
			}
		}
	})
}

func hostOf(hostPort string) string {
	host, _, _ := strings.Cut(hostPort, ":")
	return host
}

// Names of files need not be UTF-8, and JSON must be.
func TestEffectJSON(t *testing.T) {
	b, err := json.Marshal(call.Outcome{Effects: []call.Effect{{Kind: "fs.read", Target: "/docs/a\xff", Code: "ok", TookUS: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	var got call.Outcome
	if err := json.Unmarshal(b, &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]call.Effect{{Kind: "fs.read", Target: "/docs/a\uFFFD", Code: "ok", TookUS: 7}}, got.Effects); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}
