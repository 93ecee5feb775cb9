package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Where on the road a call ends, and so what the log says of it.
const (
	outside  = "before the road"  // nothing is recorded
	refusal  = "before the run"   // one record, of the refusal
	starting = "the run's start"  // a decision to allow, and an outcome not_started
	running  = "the run"          // a decision to allow, and an outcome
	later    = "the next opening" // as running, but nobody is told
	never    = "after a crash"    // as later, and there is no decision
)

// Every code of the engine, made to happen at its station: what the caller is
// told, what the log says, and that nothing ran that should not.
func TestEveryCodeAtItsStation(t *testing.T) {
	args := func(s string) func(*call.Call) { return func(c *call.Call) { c.Args = []byte(s) } }
	fails := func(code call.Code) policy {
		return func(*call.Input) (call.Decision, error) { return call.Decision{}, &call.Error{Code: code} }
	}
	grants := func(c call.Caps) policy {
		d := allow
		d.Grants = []call.RuleGrant{{Caps: c}}
		return always(d)
	}
	with := func(change func(*call.Decision)) policy { d := allow; change(&d); return always(d) }
	reads := func(path string) policy {
		return grants(call.Caps{FS: []call.FS{{Root: "docs", Path: path, Modes: []string{"read"}}}})
	}
	bounds := func(b call.Bounds) policy { return grants(call.Caps{Bounds: b}) }

	tests := []struct {
		code    call.Code
		station string
		tool    string             // "" for echo, a host tool
		policy  engine.Policy      // nil: allow
		call    func(*call.Call)   // nil: as it is
		scene   func(*scene)       // nil: as it is
		do      func(*scene) error // nil: one call
	}{
		{code: call.CodeEngineClosed, station: outside, do: func(s *scene) error { s.e.Close(); return s.once() }},
		{code: call.CodeOverloaded, station: outside, do: (*scene).overloaded},
		{code: call.CodeRequestInvalid, station: outside, do: (*scene).atTheSocket},
		{code: call.CodeOwnerConfigDiffers, station: outside, do: (*scene).otherOwner},
		{code: call.CodeLogUnavailable, station: outside, do: func(s *scene) error { s.log.fail = errors.New("disk full"); return s.once() }},

		{code: call.CodePrincipalInvalid, station: refusal, call: func(c *call.Call) { c.Principal = call.Principal{} }},
		{code: call.CodeSessionInvalid, station: refusal, call: func(c *call.Call) { c.Session = "so-of-nobody" }},
		{code: call.CodeArgsTooLarge, station: refusal, call: args(`{"text":"` + strings.Repeat("x", call.MaxArgsBytes) + `"}`)},
		{code: call.CodeArgsInvalid, station: refusal, call: args(`{"text":"a","text":"b"}`)},
		{code: call.CodeArgsInexact, station: refusal, call: args(`{"n":9007199254740993}`)},
		{code: call.CodeAssertedInvalid, station: refusal, call: func(c *call.Call) { c.Asserted = []byte("7") }},
		{code: call.CodeToolUnknown, station: refusal, call: func(c *call.Call) { c.Tool = "nothing" }},
		{code: call.CodeToolChanged, station: refusal, tool: "spin", do: (*scene).edited},
		{code: call.CodeArgsSchema, station: refusal, call: args(`{"text":7}`)},
		{code: call.CodeFactsUnparsable, station: refusal, tool: "word-count", call: args(`{"path":"/docs/../x"}`)},
		{code: call.CodeToolKind, station: refusal, tool: "mail", call: args(`{"to":"bob"}`)},

		{code: call.CodeToolStuck, station: refusal, scene: (*scene).oneStuck, do: (*scene).stuck},

		{code: call.CodeGrantInvalid, station: refusal, scene: (*scene).twoHalves, do: func(s *scene) error { return s.redeem("no token") }},
		{code: call.CodeGrantUnavailable, station: refusal, do: func(s *scene) error { return s.redeem("no token") }},
		{code: call.CodeRefusedTooOften, station: refusal, policy: always(call.Decision{}), scene: func(s *scene) { s.o.MaxRefusals = 1 }, do: (*scene).twice},

		{code: call.CodePolicyDenied, station: refusal, policy: always(call.Decision{})},
		{code: call.CodePolicyUndefined, station: refusal, policy: fails(call.CodePolicyUndefined)},
		{code: call.CodePolicyError, station: refusal, policy: fails(call.CodePolicyError)},
		{code: call.CodePolicyShape, station: refusal, policy: always(call.Decision{Verdict: call.Ask})},
		{code: call.CodePolicyTimeout, station: refusal, policy: stuck{}, scene: func(s *scene) { s.o.DecideTimeout = time.Millisecond }},
		{code: call.CodePolicyStale, station: refusal, policy: fails(call.CodePolicyStale)},
		{code: call.CodeObligationUnsupported, station: refusal, policy: with(func(d *call.Decision) { d.Redact = call.Obligation{jsontext.Value("[]")} })},
		{code: call.CodeCapsTooMany, station: refusal, policy: grants(call.Caps{Secrets: manyNames()})},
		{code: call.CodeCapsInvalid, station: refusal, policy: grants(call.Caps{FS: []call.FS{{Root: "docs", Path: "..", Modes: []string{"read"}}}})},

		{code: call.CodePreconditionUnavailable, station: refusal, tool: "word-count", call: args(`{"path":"/docs/x"}`), scene: (*scene).depending},

		{code: call.CodeRevoked, station: refusal, do: (*scene).revoked},
		{code: call.CodeRequiresApproval, station: refusal, policy: with(func(d *call.Decision) { d.Verdict, d.Approvals = call.Ask, leads })},
		{code: call.CodeApprovalDenied, station: refusal, policy: with(func(d *call.Decision) { d.Verdict, d.Approvals = call.Ask, leads }), do: (*scene).votedDown},
		{code: call.CodeApprovalStale, station: refusal, policy: revised(), do: (*scene).approvedBefore},
		{code: call.CodeApprovalsTooMany, station: refusal, policy: with(func(d *call.Decision) { d.Verdict, d.Approvals = call.Ask, leads }), do: (*scene).askedTooMuch},
		{code: call.CodeRateLimited, station: refusal, policy: with(func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: 1, Cost: 2, Per: "1m"}} })},
		{code: call.CodeGrantSpent, station: refusal, scene: (*scene).twoHalves, do: (*scene).spentBefore},
		{code: call.CodeLimitKeys, station: refusal, scene: func(s *scene) { s.o.State = brokenState{err: state.ErrTooManyKeys} }},
		{code: call.CodeSessionChanged, station: refusal, scene: func(s *scene) { s.o.State = brokenState{err: state.ErrSessionChanged} }},
		{code: call.CodeStateUnavailable, station: refusal, scene: func(s *scene) { s.o.State = brokenState{err: errors.New("boom")} }},

		{code: call.CodeWitnessUnavailable, station: starting, scene: func(s *scene) { s.o.Log = alone{s.log} }},
		{code: call.CodeGuestUnavailable, station: starting, tool: "spin", scene: func(s *scene) { s.o.Guests = nil }},
		{code: call.CodeRootUnavailable, station: starting, tool: "word-count", policy: reads("missing"), call: args(`{"path":"/docs/x"}`)},
		{code: call.CodeSecretUnavailable, station: starting, tool: "fetch", policy: grants(web), call: args(`{"url":"https://api.example.com/"}`)},
		{code: call.CodeExecUnconfined, station: starting, tool: "clean", policy: grants(call.Caps{Exec: []call.Exec{{Command: "/bin/true"}}})}, // this program does not call hostfx.Main
		{code: call.CodeWorkspaceUnavailable, station: starting, tool: "clean", policy: grants(call.Caps{Workspace: true})},                     // this host has no journal
		{code: call.CodePathIsLink, station: starting, tool: "word-count", policy: reads("link"), call: args(`{"path":"/docs/x"}`)},
		{code: call.CodeGrantMismatch, station: starting, scene: (*scene).lateHost},
		{code: call.CodeMemoryMinimum, station: starting, tool: "spin", policy: bounds(call.Bounds{MemoryBytes: 1})},
		{code: call.CodeMemoryCeiling, station: starting, tool: "spin", policy: bounds(call.Bounds{OutputBytes: 1 << 50})},

		{code: call.CodeOK, station: running},
		{code: call.CodeToolError, station: running, scene: func(s *scene) { s.fails = errors.New("no") }},
		{code: call.CodeGuestTrap, station: running, tool: "trap"},
		{code: call.CodeTimeExceeded, station: running, tool: "spin", policy: bounds(call.Bounds{TimeoutMS: 100})},
		{code: call.CodeAbandoned, station: running, do: (*scene).abandoned},
		{code: call.CodeFuelExhausted, station: running, tool: "spin", policy: bounds(call.Bounds{Fuel: 1000})},
		{code: call.CodeStackExhausted, station: running, tool: "recurse"},
		{code: call.CodeOutputExceeded, station: running, tool: "chatter"},
		{code: call.CodeCancelled, station: running, do: (*scene).cancelled},
		{code: call.CodeUnfinished, station: later, do: (*scene).killed},
		{code: call.CodeAdmittedUnrecorded, station: never, scene: (*scene).crashed, do: func(*scene) error { return nil }},
		{code: call.CodeInternal, station: running, scene: func(s *scene) { s.panics = true }},
	}
	covered := map[call.Code]bool{}
	for _, tt := range tests {
		covered[tt.code] = true
		t.Run(string(tt.code), func(t *testing.T) {
			s := newScene(t, tt.tool)
			if tt.policy != nil {
				s.o.Policy = tt.policy
			}
			if tt.call != nil {
				tt.call(&s.call)
			}
			if tt.scene != nil {
				tt.scene(s)
			}
			s.e = open(t, s.o)
			if tt.do == nil {
				tt.do = (*scene).once
			}
			s.check(tt.code, tt.station, tt.do(s))
		})
	}
	for _, c := range call.Codes() {
		if !covered[c.Code] {
			t.Errorf("%s is not in the table", c.Code)
		}
	}
}

var leads = []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}}

var web = call.Caps{HTTP: []call.HTTP{{
	Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/"},
	Networks: []string{"public"}, Secret: &call.Secret{Name: "key", As: "bearer"},
}}}

// manyNames are more than any list of capabilities may have.
func manyNames() (out []string) {
	for i := range 65 {
		out = append(out, fmt.Sprintf("s%d", i))
	}
	return out
}

const countManifest = `
name: word-count
description: reads a file
kind: host
class: read
facts: {paths: [{at: /path, mode: read}]}
input: {type: object, properties: {path: {type: string}}, required: [path], additionalProperties: false}
caps: {fs: [{root: docs, path: ., modes: [read]}]}
`

const fetchManifest = `
name: fetch
description: fetches a page
kind: host
class: read
facts: {urls: [{at: /url, method: GET}]}
input: {type: object, properties: {url: {type: string}}, required: [url], additionalProperties: false}
caps:
  http: [{hosts: [api.example.com], ports: [443], methods: [GET], paths: [/], networks: [public], secret: {name: key, as: bearer}}]
`

const cleanManifest = `
name: clean
description: runs a command
kind: host
class: write
facts: none
input: {type: object, properties: {}, additionalProperties: false}
caps: {workspace: true, exec: [{command: /bin/true, args: []}]}
`

// trapModule is (module (func (export "_start") unreachable)).
const trapModule = "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x05\x01\x03\x00\x00\x0b"
