package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

// Five times a process with 16 callers is killed in the middle of its work. Every
// call that it acknowledged is in the log, allowed and with an outcome, if only
// an unfinished one.
func TestKill(t *testing.T) {
	dir := write(t)
	acknowledged := map[string]bool{}
	for round := range 5 {
		for _, id := range killRound(t, dir, round) {
			acknowledged[id] = true
		}
	}
	if len(acknowledged) < 100 {
		t.Fatalf("only %d calls were acknowledged", len(acknowledged))
	}
	e, err := local.Open(t.Context(), config(dir)) // closes what the last kill left open
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if _, err := audit.Verify(filepath.Join(dir, "data"), ""); err != nil {
		t.Error(err)
	}
	decided, ended := map[string]bool{}, map[string]int{}
	for _, r := range records(t, dir) {
		switch r.Type {
		case call.TypeDecision:
			decided[r.Call] = r.Verdict == call.Allow
		case call.TypeOutcome:
			ended[r.Call]++
		}
	}
	for id := range acknowledged {
		if !decided[id] {
			t.Errorf("call %s was acknowledged but is not in the log", id)
		}
	}
	for id := range decided {
		if ended[id] != 1 {
			t.Errorf("call %s has %d outcomes, want 1", id, ended[id])
		}
	}
}

// killRound starts this test's binary as a child, lets it work and kills it. It
// returns the ids of the calls that the child acknowledged.
func killRound(t *testing.T, dir string, round int) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killDir+"="+dir, fmt.Sprintf("CALLGATE_TEST_ROUND=%d", round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		ids = append(ids, lines.Text())
		if len(ids) == 30+7*round {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
		t.Fatalf("round %d: the child ended by itself: %v", round, err)
	}
	if n := len(ids); n > 0 && len(ids[n-1]) != len(ids[0]) {
		ids = ids[:n-1] // a line that the kill cut
	}
	return ids
}

// killMe works until it is killed, and says each call's id once it is answered.
func killMe(dir string) {
	ctx := context.Background()
	e, err := local.Open(ctx, config(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(2)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := 0; ; n++ {
				// A new principal now and then, or the default limits would end it.
				c := read(fmt.Sprintf("service-%s-%d-%d", os.Getenv("CALLGATE_TEST_ROUND"), i, n/100))
				res, err := e.Do(ctx, c)
				if err != nil {
					fmt.Fprintln(os.Stderr, "child:", err)
					os.Exit(3)
				}
				mu.Lock()
				fmt.Println(res.CallID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// A child whose files may not grow past some 32 KiB fills its log. From the write that
// fails on, every call is refused and nothing runs; what had run is in the log, and
// the log is whole when it is opened again.
func TestLogIsFull(t *testing.T) {
	dir := write(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -f 64 && exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), fullDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ran := strings.Fields(string(out))
	if len(ran) < 10 {
		t.Fatalf("only %d calls ran before the log was full", len(ran))
	}
	e, err := local.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Do(t.Context(), read("somebody-else")); err != nil {
		t.Errorf("after reopening: %v", err)
	}
	e.Close()
	decided := map[string]int{}
	for _, r := range records(t, dir) {
		if r.Type == call.TypeDecision && r.Verdict == call.Allow {
			decided[r.Call]++
		}
	}
	for _, id := range ran {
		if decided[id] != 1 {
			t.Errorf("call %s ran, and the log has %d decisions about it", id, decided[id])
		}
	}
	if len(decided) > len(ran)+2 { // the one that failed may have become durable, and ours
		t.Errorf("%d calls ran, %d were decided", len(ran), len(decided))
	}
}

// fillUp says the id of every call whose tool ran, until the log cannot be
// written, and some calls more.
func fillUp(dir string) {
	c := config(dir)
	c.Tools = "" // the cache of compiled modules would be too large
	c.HostTools = []engine.Tool{engine.Host(`
name: spin
description: says that it ran
kind: host
class: read
input: {type: object, additionalProperties: false}
`, func(_ context.Context, fx *hostfx.Effects, _ struct{}) (string, error) {
		fmt.Println(fx.Grant().CallID())
		return "", nil
	})}
	ctx := context.Background()
	e, err := local.Open(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(2)
	}
	full := 0
	for n := 0; full < 20; n++ {
		k := read(fmt.Sprint("service-", n/100))
		k.Tool, k.Args = "spin", nil
		_, err := e.Do(ctx, k)
		denial, refused := errors.AsType[*engine.Denial](err)
		switch {
		case refused && denial.Code == call.CodeLogUnavailable:
			full++
		case err != nil || full > 0:
			fmt.Fprintln(os.Stderr, "child: after", full, "failures:", err)
			os.Exit(3)
		}
	}
}
