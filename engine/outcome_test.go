package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// gated are salts whose keys come late once the gate is shut.
type gated struct {
	shut atomic.Bool
	open chan struct{}
}

func (g *gated) Key(string, time.Time) ([32]byte, error) {
	if g.shut.Load() {
		<-g.open
	}
	return [32]byte{1}, nil
}

// The record says what happened, whatever the caller does with the result
// meanwhile.
func TestEffectsOfTheRecord(t *testing.T) {
	log, salts := &memory{}, &gated{open: make(chan struct{})}
	tool := &counted{fn: func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
		_, _ = fx.ReadFile("/nothing/here")
		_, _ = fx.ReadFile("/nothing/there")
		salts.shut.Store(true) // the outcome's record waits for its keys
		return "", nil
	}}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Salts: salts, Tools: []engine.Tool{tool.tool()}})
	res, err := e.Do(t.Context(), echo("x"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range res.Outcome.Effects {
		res.Outcome.Effects[i] = call.Effect{Kind: "fs.write", Code: "ok"}
	}
	close(salts.open)
	e.Close()
	got := log.decoded(t)[1].Outcome.Effects
	if len(got) != 2 {
		t.Fatalf("effects %+v", got)
	}
	for _, fx := range got {
		if fx.Kind != "fs.read" || fx.Code != "refused" {
			t.Errorf("recorded %+v", fx)
		}
	}
}

// A tool may be done with its effects before it is done.
func TestToolThatClosesItsEffects(t *testing.T) {
	tool := &counted{fn: func(ctx context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
		fx.Close()
		return "done", ctx.Err()
	}}
	e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{tool.tool()}})
	for range 20 {
		res, err := e.Do(t.Context(), echo("x"))
		if err != nil || string(res.Output) != `"done"` {
			t.Fatalf("Do = %+v, %v", res, err)
		}
	}
	tool.fn = func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
		fx.Close()
		return "", errors.New("no")
	}
	if _, err := e.Do(t.Context(), echo("x")); outcomeOf(err).Code != call.CodeToolError {
		t.Errorf("one that fails after that: %v", err)
	}
}

// outcomeOf is the outcome of a call that ran and failed.
func outcomeOf(err error) call.Outcome {
	if te, ok := errors.AsType[*engine.ToolError](err); ok {
		return te.Result.Outcome
	}
	return call.Outcome{}
}

// What a tool says moves no cursor, and each part of it has lines of its own.
func TestStderrOfHostTools(t *testing.T) {
	logging := strings.Replace(echoManifest, "caps:\n", "caps:\n  log: true\n", 1)
	d := allow
	d.Grants = []call.RuleGrant{{Caps: call.Caps{Log: true}}}
	for _, tt := range []struct{ name, fails, logs, want string }{
		{"both", "no \x1b[2J\r\x00\u009b name\tor\nlines", "a line", "no \ufffd[2J\ufffd\ufffd\ufffd name\tor\nlines\na line\n"},
		{"an error that ends its line", "no\n", "a line", "no\na line\n"},
		{"an error alone", "no", "", "no"},
		{"lines alone", "", "a line\x1b", "a line\ufffd\n"},
		{"no text", "a\xffb", "", "a\ufffdb"},
		{"text that goes another way", "a\u202eb\u2028c", "", "a\ufffdb\ufffdc"},
		{"more than is kept", strings.Repeat("x", 4095) + "é", "a line", strings.Repeat("x", 4095) + "\na line\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tool := engine.Host(logging, func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
				if tt.logs != "" {
					if err := fx.Log(tt.logs); err != nil {
						t.Error(err)
					}
				}
				if tt.fails != "" {
					return "", errors.New(tt.fails)
				}
				return "", nil
			})
			e := open(t, engine.Options{Policy: always(d), Log: &memory{}, Tools: []engine.Tool{tool}})
			res, err := e.Do(t.Context(), echo("x"))
			o := outcomeOf(err)
			if err == nil {
				o = res.Outcome
			}
			if got := string(o.Stderr); got != tt.want || !utf8.ValidString(got) {
				t.Errorf("Stderr %.200q, want %.200q", got, tt.want)
			}
		})
	}
}

// A credential that does not come holds up neither its call nor the engine's end.
func TestCloseWaitsForNoSecret(t *testing.T) {
	asked, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	host, err := hostfx.New(hostfx.Options{Secrets: func(string) (hostfx.Secret, error) {
		close(asked)
		<-never
		return hostfx.Secret{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	api := call.Caps{
		HTTP: []call.HTTP{{
			Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/"}, Networks: []string{"public"},
			Secret: &call.Secret{Name: "api", As: "bearer"},
		}},
		Bounds: call.Bounds{TimeoutMS: 3_600_000},
	}
	manifest := strings.Replace(echoManifest, "caps:\n  bounds: {timeout_ms: 5000, output_bytes: 1000}", `facts: none
caps:
  bounds: {timeout_ms: 3600000}
  http: [{hosts: [api.example.com], ports: [443], methods: [GET], paths: [/], networks: [public], secret: {name: api, as: bearer}}]`, 1)
	tool := engine.Host(manifest, func(context.Context, *hostfx.Effects, echoArgs) (string, error) { return "ran", nil })
	d := allow
	d.Grants = []call.RuleGrant{{Caps: api}}
	log := &memory{}
	e := open(t, engine.Options{Policy: always(d), Log: log, Host: host, Tools: []engine.Tool{tool}})
	done := make(chan error, 1)
	go func() { _, err := e.Do(context.Background(), echo("x")); done <- err }()
	<-asked
	e.Close()
	if err := <-done; code(err) != call.CodeSecretUnavailable {
		t.Errorf("Do = %v", err)
	}
	if recs := log.decoded(t); len(recs) != 2 || recs[1].Code != call.CodeSecretUnavailable {
		t.Errorf("records %+v", recs)
	}
}
