package local_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/local"
)

// A candidate of a far higher epoch, under the name of a layer that decides, does not
// move that layer's mark: the next release comes in, and what is older still does not.
func TestShadowLeavesTheEpochAlone(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	tried := &publisher{private: p.private}
	tried.server = httptest.NewTLSServer(tried)
	t.Cleanup(tried.server.Close)
	candidate := c.Layers[0]
	candidate.Mode, candidate.Bundle = local.InShadow, tried.server.URL+"/team.tar.gz"
	extra := candidate
	extra.Name = "extra" // nothing of its name decides
	c.Layers = append(c.Layers, candidate, extra)

	second, third := p.release(t, dir, 2, rules), p.release(t, dir, 3, nobody)
	first, far := p.release(t, dir, 1, nobody), p.release(t, dir, 90, nobody)
	p.publish(second)
	tried.publish(far)
	e, poll, _ := followed(t, c)
	revision := func(layer int) string { return e.Layers()[layer].Revision.Revision }
	mark := func(want string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(c.Data, "epochs", "team.json"))
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("the mark is %s, %v, want %s", b, err, want)
		}
		if _, err := os.Stat(filepath.Join(c.Data, "epochs", "extra.json")); !os.IsNotExist(err) {
			t.Errorf("a layer that decides nothing has a mark: %v", err)
		}
	}
	if revision(0) != "r2" || revision(1) != "r90" || revision(2) != "r90" || !allowed(t, e) {
		t.Fatalf("%+v", e.Layers())
	}
	mark(`"epoch": 2`)

	// What is tried may be older than what decides.
	tried.publish(first)
	poll(1)
	if revision(1) != "r1" || !allowed(t, e) {
		t.Errorf("%+v", e.Layers())
	}
	mark(`"epoch": 2`)
	p.publish(first)
	poll(1)
	if revision(0) != "r2" {
		t.Errorf("rolled back to %s", revision(0))
	}
	p.publish(third)
	poll(1)
	if revision(0) != "r3" || allowed(t, e) {
		t.Errorf("the next release does not decide, but %s", revision(0))
	}
	mark(`"epoch": 3`)

	// Nor does a candidate take the place of what a start without network begins with.
	tried.publish(far)
	poll(1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	p.publish(nil)
	if e, _, _ = followed(t, c); revision(0) != "r3" || revision(1) != "r90" {
		t.Errorf("%+v", e.Layers())
	}
	mark(`"epoch": 3`)
}
