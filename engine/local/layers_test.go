package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/rego"
)

const passes = "package callgate\n\nrestriction := {\"decision\": \"pass\"}\n"

// freezes is a restrict layer that refuses all that was not frozen before.
const freezes = "package callgate\n\nrestriction := {\"decision\": \"deny\", \"reasons\": [{\"code\": \"frozen\"}]}\n"

// layeredSmall is the small project under an organisation's layer.
func layeredSmall(t *testing.T, dir string) local.Config {
	t.Helper()
	writeSmall(t, dir)
	put(t, passes, dir, "org/org.rego")
	c := small(dir)
	c.Layers = []local.Layer{{Name: "org", Role: "restrict", Bundle: filepath.Join(dir, "org")}, {Name: "team", Bundle: c.Bundle}}
	c.Bundle = ""
	return c
}

func refusal(t *testing.T, e *local.Engine) *engine.Denial {
	t.Helper()
	_, err := e.Do(t.Context(), ask("echo", "x"))
	if err == nil {
		return nil
	}
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok {
		t.Fatal(err)
	}
	return d
}

func TestLayersDecideTogether(t *testing.T) {
	dir := t.TempDir()
	e, poll, log := followed(t, layeredSmall(t, dir))
	if d := refusal(t, e); d != nil {
		t.Fatal(d)
	}
	put(t, freezes, dir, "org/org.rego")
	poll(2)
	if d := refusal(t, e); d == nil || d.Code != call.CodePolicyDenied || !strings.Contains(d.Error(), "org/frozen") {
		t.Errorf("Do = %v", d)
	}
	if got := log.take(); len(got) != 1 || !strings.Contains(got[0], `"layer":"org"`) {
		t.Errorf("the log says %q", got)
	}
	// One layer that is broken keeps its last good; the other is taken.
	put(t, passes+"{{{", dir, "org/org.rego")
	put(t, nobody, dir, "bundle/rules.rego")
	poll(2)
	if d := refusal(t, e); d == nil || len(d.Reasons) != 2 {
		t.Errorf("Do = %v, want both layers' reasons", d)
	}
	got := log.take()
	slices.Sort(got)
	if len(got) != 2 || !strings.Contains(got[0], `"error"`) || !strings.Contains(got[0], `"layer":"org"`) || !strings.Contains(got[1], `"layer":"team"`) {
		t.Errorf("the log says %q", got)
	}
	put(t, passes, dir, "org/org.rego")
	poll(2)
	if d := refusal(t, e); d == nil || len(d.Reasons) != 1 || d.Reasons[0].Layer != "team" {
		t.Errorf("Do = %v, want the team's reason", d)
	}
}

// underLoad has that many callers call, each for somebody else too, until calm is
// called. Each call must run.
func underLoad(t *testing.T, e *local.Engine, callers int) (calm func()) {
	var wg sync.WaitGroup
	var over atomic.Bool
	for i := range callers {
		wg.Go(func() {
			c := ask("echo", fmt.Sprint(i))
			c.Principal.OnBehalfOf = []call.Principal{{ID: "carol", Kind: "user"}}
			for !over.Load() {
				if _, err := e.Do(t.Context(), c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() { over.Store(true); wg.Wait() }
}

// Layers that change together are taken together: no call sees half of it.
func TestLayersSwapTogether(t *testing.T) {
	dir := t.TempDir()
	e, poll, _ := followed(t, layeredSmall(t, dir))
	calm := underLoad(t, e, 4)
	there := map[string]string{}
	note := func() {
		t.Helper()
		fsys, err := rego.Load(filepath.Join(dir, "org"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := rego.Open(t.Context(), fsys, rego.Options{Role: rego.Restrict})
		if err != nil {
			t.Fatal(err)
		}
		there[p.Revision().Digest] = digestOf(t, filepath.Join(dir, "bundle"))
	}
	note()
	for i := range 6 {
		put(t, fmt.Sprintf("%s# %d\n", passes, i), dir, "org/org.rego")
		put(t, fmt.Sprintf("%s\n# %d\n", rules, i), dir, "bundle/rules.rego")
		note()
		poll(2)
	}
	calm()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, r := range records(t, dir) {
		if r.Type != call.TypeDecision {
			continue
		}
		if len(r.Policy) != 2 || r.Policy[0].Name != "org" || r.Policy[0].Role != "restrict" || r.Policy[1].Name != "team" || r.Policy[1].Role != "" {
			t.Fatalf("decided by %+v", r.Policy)
		}
		if there[r.Policy[0].Digest] != r.Policy[1].Digest {
			t.Errorf("decided by two that never were together: %+v", r.Policy)
		}
		used[r.Policy[0].Digest] = true
	}
	if len(used) < 3 {
		t.Errorf("only %d revisions decided", len(used))
	}
}

func TestLayersInShadow(t *testing.T) {
	dir := t.TempDir()
	c := layeredSmall(t, dir)
	c.Layers = append(c.Layers,
		local.Layer{Name: "org", Role: "restrict", Mode: local.InShadow, Bundle: filepath.Join(dir, "next")},
		local.Layer{Name: "extra", Role: "restrict", Mode: local.InShadow, Bundle: filepath.Join(dir, "extra")})
	put(t, "not rego", dir, "next/org.rego")
	put(t, passes, dir, "extra/x.rego")
	e, poll, log := followed(t, c)
	if got := log.opened; len(got) != 4 || !strings.Contains(got[2], `"error"`) || !strings.Contains(got[2], "org.rego:1") || !strings.Contains(got[2], "none before it") {
		t.Errorf("the log says %q", got)
	}
	if d := refusal(t, e); d != nil {
		t.Fatal(d)
	}
	put(t, freezes, dir, "next/org.rego")
	poll(2)
	if got := log.take(); len(got) != 1 || !strings.Contains(got[0], `"mode":"shadow"`) {
		t.Errorf("the log says %q", got)
	}
	if d := refusal(t, e); d != nil {
		t.Fatal("what is in shadow decides:", d)
	}
	reports := map[string]rego.ShadowReport{}
	for reports["org"].Asked < 1 || reports["extra"].Asked < 2 {
		runtime.Gosched()
		for _, r := range e.Shadow() {
			reports[r.Bundle.Name] = r
		}
	}
	org, extra := reports["org"], reports["extra"]
	if org.Differences[rego.ShadowVerdict] != 1 || len(org.Last) != 1 || org.Last[0].Would.Verdict != call.Deny || !slices.Equal(org.Last[0].Would.Reasons, []string{"org/frozen"}) {
		t.Errorf("%+v", org)
	}
	if extra.Same != 2 {
		t.Errorf("%+v", extra)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	log.mu.Lock()
	said := log.b.String()
	log.mu.Unlock()
	if strings.Count(said, "the layer in shadow answers otherwise") != 1 || !strings.Contains(said, `"layer":"org"`) || !strings.Contains(said, `"reasons":["org/frozen"]`) {
		t.Errorf("the log says %s", said)
	}
	b := make([]byte, 4<<20)
	if strings.Contains(string(b[:runtime.Stack(b, true)]), "rego.(*Shadow).work") {
		t.Error("still trying after Close")
	}
	for _, r := range records(t, dir) {
		if r.Type == call.TypeDecision && len(r.Policy) != 2 {
			t.Errorf("decided by %+v", r.Policy)
		}
	}
}

func TestOpenRefusesLayers(t *testing.T) {
	dir := t.TempDir()
	base := layeredSmall(t, dir)
	bundle := base.Layers[1].Bundle
	for name, tt := range map[string]struct {
		change func(*local.Config)
		want   string
	}{
		"a bundle beside them": {func(c *local.Config) { c.Bundle = bundle }, "a bundle beside them"},
		"no permit layer":      {func(c *local.Config) { c.Layers = c.Layers[:1] }, "permit"},
		"only in shadow":       {func(c *local.Config) { c.Layers[1].Mode = local.InShadow }, "permit"},
		"no bundle":            {func(c *local.Config) { c.Layers[0].Bundle = "" }, "no bundle"},
		"two of one name":      {func(c *local.Config) { c.Layers[0].Name, c.Layers[0].Role = "team", "permit" }, "two of mode enforce are named team"},
		"no such role":         {func(c *local.Config) { c.Layers[0].Role = "deny" }, "role"},
		"no such mode":         {func(c *local.Config) { c.Layers[0].Mode = "off" }, "mode"},
		"no such name":         {func(c *local.Config) { c.Layers[0].Name = "My Org" }, "name"},
		"no such entrypoint":   {func(c *local.Config) { c.Layers[0].Entrypoint = "callgate.x" }, "entrypoint"},
		"not its entrypoint":   {func(c *local.Config) { c.Layers[0].Entrypoint = "data.agent.decision" }, "no rule data.agent.decision"},
		"a candidate of another role": {func(c *local.Config) {
			c.Layers = append(c.Layers, local.Layer{Name: "org", Mode: local.InShadow, Bundle: bundle})
		}, "two roles"},
		"a layer that does not load": {func(c *local.Config) { c.Layers[0].Bundle = filepath.Join(dir, "none") }, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			c.Layers = slices.Clone(base.Layers)
			tt.change(&c)
			mustNotOpen(t, c, tt.want)
		})
	}
}

// A policy that was written for another adapter is a layer as it is.
func TestLayerOfAnotherAdapter(t *testing.T) {
	dir := t.TempDir()
	c := small(dir)
	put(t, "package agent.tool\n\ndefault decision := {\"decision\": \"not-applicable\"}\n\ndecision := {\"decision\": \"allow\", \"reason\": \"fine\"} if {\n\tinput.tool.name == \"echo\"\n\tinput.args.text == \"x\"\n}\n", dir, "agents/agents.rego")
	c.Bundle, c.Layers = "", []local.Layer{{Bundle: filepath.Join(dir, "agents"), Entrypoint: "data.agent.tool.decision"}}
	e := open(t, c)
	if d := refusal(t, e); d != nil {
		t.Error(d)
	}
	if _, err := e.Do(t.Context(), ask("echo", "y")); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("Do = %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if r := records(t, dir)[0].Policy; len(r) != 1 || r[0].Name != "policy" || r[0].Entrypoint != "data.agent.tool.decision" {
		t.Errorf("decided by %+v", r)
	}
}

// Data that alone changes its type is not taken.
func TestRetypedDataKeepsTheLastGood(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	put(t, strings.Replace(rules, "waive", "deny contains \"many\" if count(input.args.text) > object.get(data.limits, \"most\", 0)\n\nwaive", 1), dir, "bundle/rules.rego")
	put(t, `{"limits": {"most": 3}}`, dir, "bundle/data.json")
	e, poll, log := followed(t, small(dir))
	long := func() bool { _, err := e.Do(t.Context(), ask("echo", "hunter2")); return err == nil }
	if long() || !allowed(t, e) {
		t.Fatal("the limit does not hold")
	}
	put(t, `{"limits": {"most": "3"}}`, dir, "bundle/data.json")
	poll(2)
	if long() {
		t.Error("the limit is gone")
	}
	if got := log.take(); len(got) != 1 || !strings.Contains(got[0], "data/limits/most: is of type string") {
		t.Errorf("the log says %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "bundle/data.json"), []byte(`{"limits": {"most": 30}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	poll(2)
	if !long() {
		t.Error("what was mended does not decide")
	}
}

// mustNotOpen opens an owner, which must fail and say why.
func mustNotOpen(t *testing.T, c local.Config, want string) {
	t.Helper()
	e, err := local.Open(t.Context(), c)
	if err == nil {
		e.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open = %v, want it to say %q", err, want)
	}
}
