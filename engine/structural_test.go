package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// The record says structural of what went through the host's effects, refused or not,
// and of nothing else: not of a tool that is trusted, nor of what a caller reports.
func TestStructuralOnlyThroughEffects(t *testing.T) {
	log := &memory{}
	trusted := strings.Replace(echoManifest, "name: echo", "name: trusted", 1)
	e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{
		engine.Host(echoManifest, func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
			_, _ = fx.ReadFile("/nothing/here")
			return "", nil
		}),
		engine.Raw(trusted, func(context.Context, call.Caps, jsontext.Value) ([]byte, error) { return []byte(`""`), nil }),
		engine.External(mailManifest),
	}})
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	c := echo("x")
	c.Tool = "trusted"
	if _, err := e.Do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m, err := e.Authorize(t.Context(), mail("bob"))
	if err == nil {
		_, err = m.Finish(t.Context(), engine.Reported{Output: []byte(`"sent"`)})
	}
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	tools, structural := map[string]string{}, []string{}
	for _, r := range log.decoded(t) {
		if r.Tool != nil {
			tools[r.Call] = r.Tool.Name
		}
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(line), hostfx.Structural) {
			structural = append(structural, string(r.Type)+" of "+tools[r.Call])
		}
	}
	if len(tools) != 3 || len(structural) != 1 || structural[0] != "outcome of echo" {
		t.Errorf("structural is said by %q, of %q", structural, tools)
	}
}
