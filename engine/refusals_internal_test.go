package engine

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
)

// However many principals there are, only so many are told apart; the others are
// limited together, and nobody of the first is forgotten for them.
func TestProbersAreBounded(t *testing.T) {
	r := refusals{most: 3}
	now := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	for range 3 {
		r.add("first", call.CodePolicyDenied, now)
	}
	for i := range maxProbers + 100 {
		r.add(fmt.Sprint("p", i), call.CodePolicyDenied, now)
	}
	if n := len(r.counts); n > maxProbers {
		t.Errorf("%d principals are counted", n)
	}
	for who, want := range map[string]bool{"first": true, "p1": false, "p70000": true, "another": true} {
		if wait, tooOften := r.wait(who, now); tooOften != want || want && wait != 30*time.Second {
			t.Errorf("%s: %v, %s", who, tooOften, wait)
		}
	}
	for who, now := range map[string]time.Time{"first": now.Add(30 * time.Second), "p70000": now.Add(-time.Minute)} {
		if _, tooOften := r.wait(who, now); tooOften {
			t.Errorf("%s waits in another minute", who)
		}
	}
}

// The operator is told of every call in few lines.
func TestProbersInTheLog(t *testing.T) {
	var lines bytes.Buffer
	r := refusals{most: 1, log: zerolog.New(&lines)}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 300 {
		for range 3 {
			r.add(fmt.Sprint("p", i), call.CodeRefusedTooOften, now)
		}
	}
	r.close()
	if n := bytes.Count(lines.Bytes(), []byte("\n")); n != maxLines+1 {
		t.Errorf("%d lines", n)
	}
	if !bytes.Contains(lines.Bytes(), []byte(`"principal":"others","calls":400`)) {
		t.Errorf("the others are not told of: %.300s", lines.Bytes())
	}
	r.close()
	if n := bytes.Count(lines.Bytes(), []byte("\n")); n != maxLines+1 {
		t.Error("told twice")
	}
}
