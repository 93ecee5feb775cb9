package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

const mailManifest = `
name: mail
description: sends a mail; the caller's own program does
kind: external
class: write
input:
  type: object
  properties:
    to: {type: string}
  required: [to]
  additionalProperties: false
caps:
  bounds: {timeout_ms: 60000, output_bytes: 10}
`

func mail(to string) call.Call {
	return call.Call{Principal: alice, Tool: "mail", Args: fmt.Appendf(nil, `{ "to": %q}`, to)}
}

// mailer is an engine with one external tool and one of its own.
func mailer(t *testing.T, o engine.Options) (*engine.Engine, *memory) {
	log := &memory{}
	o.Log, o.Tools = log, []engine.Tool{engine.External(mailManifest), (&counted{}).tool()}
	if o.Policy == nil {
		o.Policy = always(allow)
	}
	return open(t, o), log
}

func TestPermit(t *testing.T) {
	tests := []struct {
		name   string
		report engine.Reported
		want   call.Code
		output string
	}{
		{"succeeded", engine.Reported{Output: []byte("sent")}, call.CodeOK, "sent"},
		{"failed", engine.Reported{Failed: true, Output: []byte("half")}, call.CodeToolError, ""},
		{"more output than granted", engine.Reported{Output: make([]byte, 11)}, call.CodeOutputExceeded, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, log := mailer(t, engine.Options{})
			m, err := e.Authorize(t.Context(), mail("bob"))
			if err != nil {
				t.Fatal(err)
			}
			if string(m.Args()) != `{"to":"bob"}` {
				t.Errorf("Args = %s", m.Args())
			}
			if recs := log.decoded(t); len(recs) != 1 || recs[0].Verdict != call.Allow || recs[0].Tool.Kind != "external" || m.Receipt().Index != 0 {
				t.Fatalf("before the run: %+v", recs)
			}
			if m.Caps().Bounds.OutputBytes != 10 {
				t.Errorf("Caps = %+v", m.Caps())
			}
			for range 2 { // the second report changes nothing
				res, err := m.Finish(t.Context(), tt.report)
				if te, ok := errors.AsType[*engine.ToolError](err); ok {
					res = te.Result
				} else if err != nil {
					t.Fatal(err)
				}
				if res.Outcome.Code != tt.want || string(res.Output) != tt.output || res.CallID != m.CallID() || !res.Outcome.Reported {
					t.Errorf("Finish = %+v, %v", res, err)
				}
				tt.report = engine.Reported{Output: []byte("other")}
			}
			if m.Caps().Bounds.OutputBytes != 0 {
				t.Error("the grant outlives its call")
			}
			e.Close()
			recs := log.decoded(t)
			if len(recs) != 2 || recs[1].Code != tt.want || !recs[1].Outcome.Reported || *recs[1].Decision != 0 {
				t.Errorf("records %+v", recs)
			}
		})
	}
}

// A permit's results are their holders' own, and so is what they report.
func TestPermitsResultsAreCopies(t *testing.T) {
	e, _ := mailer(t, engine.Options{})
	m, err := e.Authorize(t.Context(), mail("bob"))
	if err != nil {
		t.Fatal(err)
	}
	output := []byte("0123456789") // exactly what is granted
	first, err := m.Finish(t.Context(), engine.Reported{Output: output})
	if err != nil {
		t.Fatal(err)
	}
	output[0] = 'x'
	if string(first.Output) != "0123456789" {
		t.Errorf("the result is the caller's slice: %s", first.Output)
	}
	first.Output[1], first.CallID = 'y', "mine"
	second, err := m.Finish(t.Context(), engine.Reported{})
	if err != nil || string(second.Output) != "0123456789" || second.CallID != m.CallID() {
		t.Errorf("the second result: %+v, %v", second, err)
	}
}

func TestPermitRefused(t *testing.T) {
	e, log := mailer(t, engine.Options{Policy: always(call.Decision{})})
	if m, err := e.Authorize(t.Context(), mail("bob")); m != nil || code(err) != call.CodePolicyDenied {
		t.Errorf("Authorize = %v, %v", m, err)
	}
	if _, err := e.Do(t.Context(), mail("bob")); code(err) != call.CodeToolKind {
		t.Errorf("Do of an external tool = %v", err)
	}
	if _, err := e.Authorize(t.Context(), echo("x")); code(err) != call.CodeToolKind {
		t.Errorf("Authorize of a tool of the engine's = %v", err)
	}
	for _, r := range log.decoded(t) {
		if r.Verdict != call.Deny {
			t.Errorf("record %+v", r)
		}
	}
	log.fail = errors.New("disk full")
	if m, err := e.Authorize(t.Context(), mail("bob")); m != nil || code(err) != call.CodeLogUnavailable {
		t.Errorf("Authorize without a record = %v, %v", m, err)
	}
}

// Nothing that was permitted stays without an end.
func TestPermitThatNobodyFinishes(t *testing.T) {
	t.Run("in its time", func(t *testing.T) {
		d := allow
		d.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{TimeoutMS: 1}}}}
		e, log := mailer(t, engine.Options{Policy: always(d), MaxCalls: 1, ReportGrace: time.Millisecond})
		m, err := e.Authorize(t.Context(), mail("bob"))
		if err != nil {
			t.Fatal(err)
		}
		// There is one place, which comes back only when the first permit ends.
		if _, err := e.Authorize(t.Context(), mail("eve")); err != nil {
			t.Fatal(err)
		}
		_, err = m.Finish(t.Context(), engine.Reported{Output: []byte("late")})
		te, ok := errors.AsType[*engine.ToolError](err)
		if !ok || te.Result.Outcome.Code != call.CodeUnfinished || te.Result.Output != nil {
			t.Errorf("a late report = %v", err)
		}
		if r := log.decoded(t)[1]; r.Code != call.CodeUnfinished || r.Outcome.Reported {
			t.Errorf("record %+v", r)
		}
	})
	t.Run("in its time, yet soon after", func(t *testing.T) {
		d := allow
		d.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{TimeoutMS: 1}}}}
		e, log := mailer(t, engine.Options{Policy: always(d), ReportGrace: time.Hour})
		m, err := e.Authorize(t.Context(), mail("bob"))
		if err != nil {
			t.Fatal(err)
		}
		for m.Caps().Bounds.OutputBytes != 0 { // the time of the grant
			runtime.Gosched()
		}
		if res, err := m.Finish(t.Context(), engine.Reported{Output: []byte("sent")}); err != nil || string(res.Output) != "sent" {
			t.Errorf("a report in the grace = %+v, %v", res, err)
		}
		e.Close()
		if r := log.decoded(t)[1]; r.Code != call.CodeOK || !r.Outcome.Reported {
			t.Errorf("record %+v", r)
		}
	})
	t.Run("before the engine closes", func(t *testing.T) {
		e, log := mailer(t, engine.Options{})
		if _, err := e.Authorize(t.Context(), mail("bob")); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if recs := log.decoded(t); len(recs) != 2 || recs[1].Code != call.CodeUnfinished {
			t.Errorf("records %+v", recs)
		}
	})
}

// Sixty-four holders of one permit report at once: one report counts.
func TestPermitConcurrently(t *testing.T) {
	e, log := mailer(t, engine.Options{})
	m, err := e.Authorize(t.Context(), mail("bob"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	outputs := make([]string, 64)
	for i := range outputs {
		wg.Go(func() {
			res, err := m.Finish(t.Context(), engine.Reported{Output: fmt.Append(nil, i)})
			if err == nil {
				outputs[i] = string(res.Output)
			}
		})
	}
	wg.Wait()
	for _, o := range outputs {
		if o == "" || o != outputs[0] {
			t.Fatalf("different results: %q", outputs)
		}
	}
	e.Close()
	if recs := log.decoded(t); len(recs) != 2 {
		t.Errorf("%d records", len(recs))
	}
}

// An engine that was killed with a permit out says so when it opens again.
func TestPermitOfAKilledEngine(t *testing.T) {
	log := &memory{}
	o := engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{engine.External(mailManifest)}}
	if _, err := open(t, o).Authorize(t.Context(), mail("bob")); err != nil {
		t.Fatal(err)
	}
	open(t, o) // the first one was not closed
	if recs := log.decoded(t); len(recs) != 2 || recs[1].Code != call.CodeUnfinished {
		t.Errorf("records %+v", recs)
	}
}

func TestExternalManifests(t *testing.T) {
	for _, text := range []string{"", echoManifest, strings.Replace(mailManifest, "class: write", "class: best", 1)} {
		if _, err := engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{engine.External(text)}}); err == nil {
			t.Errorf("External(%.40q) is a tool", text)
		}
	}
}
