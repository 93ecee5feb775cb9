package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

const bothManifest = `
name: both
description: takes a URL and a path
kind: host
class: read
facts:
  urls: [{at: /url, method: GET}]
  paths: [{at: /path, mode: read}]
input: {type: object, properties: {url: {type: string, maxLength: 40}, path: {type: string}}, required: [url, path], additionalProperties: false}
caps:
  log: true
`

type bothArgs struct {
	URL  string `json:"url"`
	Path string `json:"path"`
}

// URLs and paths are written back in their one form: policy, record and tool see
// that.
func TestFactsAreWrittenBack(t *testing.T) {
	const want = `{"path":"/docs/a","url":"https://api.example.com/v1"}`
	var in call.Input
	p := policy(func(i *call.Input) (call.Decision, error) { in = *i; return allow, nil })
	log := &memory{}
	var got bothArgs
	tool := engine.Host(bothManifest, func(_ context.Context, _ *hostfx.Effects, a bothArgs) (string, error) { got = a; return "", nil })
	e := open(t, engine.Options{Policy: p, Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{tool}})
	res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "both", Args: []byte(`{"url":"HTTPS://API.example.com:443/v1","path":"/docs//a/"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if string(in.Args.Bytes()) != want || got != (bothArgs{"https://api.example.com/v1", "/docs/a"}) {
		t.Errorf("policy saw %s, the tool got %+v", in.Args.Bytes(), got)
	}
	facts := call.Facts{
		URLs: []call.URL{{
			Scheme: "https", Host: "api.example.com", Wildcard: "*.example.com", Port: 443,
			Path: "/v1", Segments: []string{"v1"}, Method: "GET",
		}},
		Paths: []call.Path{{Root: "docs", Path: "a", Segments: []string{"a"}, Mode: "read"}},
	}
	if diff := cmp.Diff(facts, in.Facts); diff != "" {
		t.Error(diff)
	}
	if d := log.decoded(t)[0].Args; d != call.Keyed([32]byte{1}, res.CallID, "args", []byte(want)) {
		t.Errorf("the record has the digest %s", d)
	}
}

func TestFactsThatAreRefused(t *testing.T) {
	ran := false
	tool := engine.Host(bothManifest, func(context.Context, *hostfx.Effects, bothArgs) (string, error) { ran = true; return "", nil })
	tests := []struct {
		name, args string
		want       call.Code
	}{
		{"a URL that two programs read differently", `{"url":"https://a.example.com@b.example.com/","path":"/docs/a"}`, call.CodeFactsUnparsable},
		{"a path that does", `{"url":"https://a.example.com/","path":"/docs/../a"}`, call.CodeFactsUnparsable},
		{"a URL that fits the schema only until it is written back", `{"url":"https://a.example.com/` + strings.Repeat("ä", 9) + `","path":"/docs/a"}`, call.CodeArgsSchema},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := &memory{}
			e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{tool}})
			_, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "both", Args: []byte(tt.args)})
			if code(err) != tt.want || ran || strings.Contains(err.Error(), "example") {
				t.Errorf("Do = %v", err)
			}
			if recs := log.decoded(t); len(recs) != 1 || recs[0].Code != tt.want || recs[0].Args == "" {
				t.Errorf("records %+v", recs)
			}
		})
	}
}

// What a tool logs is for its caller, and for nobody else.
func TestToolsLog(t *testing.T) {
	tool := engine.Host(bothManifest, func(_ context.Context, fx *hostfx.Effects, _ bothArgs) (string, error) {
		return "", errors.Join(fx.Log("canary one"), fx.Log("canary two"))
	})
	d := allow
	d.Grants = []call.RuleGrant{{Caps: call.Caps{Log: true}}}
	log := &memory{}
	var operator strings.Builder
	e := open(t, engine.Options{Policy: always(d), Log: log, Logger: zerolog.New(&operator), Tools: []engine.Tool{tool}})
	res, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "both", Args: []byte(`{"url":"https://a.example.com/","path":"/docs/a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if got := string(res.Outcome.Stderr); got != "canary one\ncanary two\n" {
		t.Errorf("the caller sees %q", got)
	}
	if fx := log.decoded(t)[1].Outcome.Effects; len(fx) != 1 || fx[0].Kind != "log" || fx[0].Count != 2 {
		t.Errorf("effects %+v", fx)
	}
	if text := operator.String() + string(log.records[0]) + string(log.records[1]); strings.Contains(text, "canary") {
		t.Errorf("the logs hold what the tool said: %s", text)
	}
}

// shifting is a policy that becomes another one with every question.
type shifting struct{ asked int }

func (m *shifting) Decide(context.Context, *call.Input) (call.Decision, error) {
	panic("asked without a snapshot")
}

func (m *shifting) Snapshot() engine.Policy {
	m.asked++
	d := allow
	d.Revisions = []call.Revision{{Name: "p", Revision: strings.Repeat("i", m.asked)}}
	return always(d)
}

// One policy decides about a whole chain, whatever becomes of it meanwhile.
func TestOneSnapshotDecides(t *testing.T) {
	log, m := &memory{}, &shifting{}
	e := open(t, engine.Options{Policy: m, Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	c := echo("x")
	c.Principal.OnBehalfOf = []call.Principal{{ID: "bob", Kind: "user"}, {ID: "eve", Kind: "user"}}
	for range 2 {
		if _, err := e.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	e.Close()
	if m.asked != 2 {
		t.Errorf("%d snapshots of two calls", m.asked)
	}
	var revisions []string
	for _, r := range log.decoded(t) {
		if r.Type == call.TypeDecision {
			revisions = append(revisions, r.Policy[0].Revision)
		}
	}
	if diff := cmp.Diff([]string{"i", "ii"}, revisions); diff != "" {
		t.Error(diff)
	}
}
