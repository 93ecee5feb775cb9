package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

func TestPrintedArgs(t *testing.T) {
	long := strings.Repeat("é", 200)
	many := "[" + strings.Repeat(`"0123456789",`, 2000) + `"x"]`
	masked := []engine.Masked{{At: "/p", Type: "string", Bytes: 7, Digest: "D"}, {At: "/o/0", Type: "boolean", Digest: "E"}}
	for _, tt := range []struct {
		name, args string
		masked     []engine.Masked
		want       string
	}{
		{"as it is", `{"a":[1,-0.5,true,null,"x"],"b":{}}`, nil, `{"a":[1,-0.5,true,null,"x"],"b":{}}`},
		{"masked", `{"n":null,"o":[null,null],"p":null}`, masked, `{"n":null,"o":[<secret boolean, E>,null],"p":<secret string, 7 bytes, D>}`},
		{"all masked", `null`, []engine.Masked{{Type: "object", Bytes: 9, Digest: "D"}}, `<secret object, 9 bytes, D>`},
		{"one that plays masked", `{"p":"<secret string, 7 bytes, D>"}`, nil, `{"p":"<secret string, 7 bytes, D>"}`},
		{"a long string", `{"a":"` + long + `"}`, nil, `{"a":"` + long[:160] + `"<the first 160 of 400 bytes; --full shows all>}`},
		{"a long name", `{"` + long + `":1}`, nil, `{"` + long[:160] + `"<the first 160 of 400 bytes; --full shows all>:1}`},
		{"many", `{"a":` + many + `,"b":7,"c":{}}`, nil,
			`{"a":[` + strings.Repeat(`"0123456789",`, 630) + `<1371 more of 17814 bytes; --full shows all>],<2 more of 13 bytes; --full shows all>}`},
	} {
		got, err := printedArgs(jsontext.Value(tt.args), tt.masked, false)
		if err != nil || got != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
	if got, err := printedArgs(jsontext.Value(many), nil, true); err != nil || got != many {
		t.Errorf("with --full: %s, %v", got, err)
	}
}

// Whatever stands in arguments, all of it is shown with --full and nothing of it is
// hidden, and what is folded is short.
func FuzzPrintedArgs(f *testing.F) {
	f.Add([]byte(`{"\u202e":"\u200b\ufe0f\u0000\u0085\ue000\udb40\udc01","b":[{"a":[[]]}]}`))
	f.Add([]byte(`{"a":"` + strings.Repeat("\\u3164", 300) + `"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, err := call.Canonical(raw)
		if err != nil {
			return
		}
		text, err := printedArgs(args.Bytes(), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		text = visible(text)
		if strings.ContainsFunc(text, hidden) || strings.Contains(text, "\n") {
			t.Errorf("%q hides something", text)
		}
		back := jsontext.Value(text)
		if err := back.Canonicalize(); err != nil || string(back) != string(args.Bytes()) {
			t.Errorf("%s reads %s, %v; is %s", text, back, err, args.Bytes())
		}
		folded, err := printedArgs(args.Bytes(), nil, false)
		if err != nil || len(folded) > 32<<10 {
			t.Errorf("folded to %d bytes from %d, %v", len(folded), len(args.Bytes()), err)
		}
	})
}

func TestVisible(t *testing.T) {
	for give, want := range map[string]string{
		"plain é 漢 😀 e\u0301": "plain é 漢 😀 e\u0301",
		"a\u202eb":            `a\u202eb`, // right-to-left override
		"a\u2066b\u2069":      `a\u2066b\u2069`,
		"a\u200bb\u200db":     `a\u200bb\u200db`, // zero width
		"\ufeff":              `\ufeff`,
		"a\u00a0b\u3000":      `a\u00a0b\u3000`, // other spaces
		"a\ufe0f":             `a\ufe0f`,
		"\U000e0041":          `\udb40\udc41`, // tags
		"\U000e0100":          `\udb40\udd00`,
		"\u3164\u115f\u034f":  `\u3164\u115f\u034f`,
		"\x1b[31m\x00\x7f":    `\u001b[31m\u0000\u007f`,
		"\u0085\u2028\n\t":    `\u0085\u2028\u000a\u0009`,
		"\ue000":              `\ue000`,
	} {
		if got := visible(give); got != want {
			t.Errorf("%+q is shown as %s, want %s", give, got, want)
		}
	}
	if got, want := string(escapeControls([]byte("{\n  \"a\": \"\u202e\u0085\"\n}"))), "{\n  \"a\": \"\\u202e\\u0085\"\n}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLookAlikes(t *testing.T) {
	for give, want := range map[string]int{
		"paypal.com": 0, "почта": 0, "λόγος": 0, "mail почта": 0, "漢字kanji": 0, "": 0,
		"p\u0430ypal": 1, "\u03bfpen": 1, "a\u0430 b\u0431 c\u0441 d\u0434 e\u0435": 4,
	} {
		if got := lookAlikes(give); len(got) != want {
			t.Errorf("%q: %q", give, got)
		}
	}
	if got := lookAlikes("x" + strings.Repeat("\u0430", 1000)); len(got) != 1 || len(got[0]) > 2000 {
		t.Errorf("a long word: %q", got)
	}
}

func TestReadReason(t *testing.T) {
	for give, want := range map[string]string{"ticket 4711\nmore": "ticket 4711", " no end ": "no end", "\n": "", "": "", strings.Repeat("x", 600): strings.Repeat("x", 502)} {
		var out strings.Builder
		if got, err := readReason(t.Context(), strings.NewReader(give), &out); err != nil || got != want || out.String() != "Reason: " {
			t.Errorf("%q: %q, %v, asked %q", give, got, err, out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w := io.Pipe()
	defer w.Close()
	if _, err := readReason(ctx, r, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestWebhooksConfig(t *testing.T) {
	c, err := load(t, "approvals:\n  webhooks:\n    - {name: Chat.Ops, url: 'https://hooks.example/x', secret: hook}\n")
	if err != nil || len(c.Approvals.Webhooks) != 1 || c.Approvals.Webhooks[0] != (WebhookConfig{"Chat.Ops", "https://hooks.example/x", "hook"}) {
		t.Errorf("%+v, %v", c.Approvals, err)
	}
	if l := c.local(io.Discard); len(l.Webhooks) != 1 || l.Webhooks[0].Secret != "hook" {
		t.Errorf("%+v", l.Webhooks)
	}
	for _, bad := range []string{"{name: a, url: 'https://x'}", "{name: a, secret: s}", "{url: 'https://x', secret: s}", "{name: a, url: u, secret: s}, {name: a, url: u, secret: s}", "{name: a, url: u, secret: s, more: 1}"} {
		if _, err := load(t, fmt.Sprintf("approvals: {webhooks: [%s]}\n", bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
