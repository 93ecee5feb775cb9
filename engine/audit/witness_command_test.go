package audit

import (
	"bytes"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAnswersAsCommand is no test but the command of a witness, in a process of its
// own: see commandOf.
func TestAnswersAsCommand(t *testing.T) {
	if flag.NArg() != 3 || flag.Arg(0) != "witness" {
		return
	}
	w, err := FileWitness("one", flag.Arg(1), flag.Arg(2), nil)
	if err == nil {
		err = AnswerCommand(t.Context(), w, os.Stdin, os.Stdout)
	}
	if err != nil {
		os.Exit(7)
	}
	os.Exit(0)
}

// commandOf is the command that asks the witness in dir.
func commandOf(dir, key string) []string {
	return []string{os.Args[0], "-test.run=^TestAnswersAsCommand$", "witness", dir, key}
}

func TestCommandWitness(t *testing.T) {
	dir := build(t, Options{}, 2, 1)
	kept := newWitness(t, dir, "kept", nil)
	w, err := CommandWitness("one", commandOf(kept.dir, kept.Key()), kept.Key())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Witnesses: []Witness{w}, Alive: -1}
	l := open(t, dir, o)
	anchored(t, l, 2)
	anchored(t, l, put(t, l, 3))
	l.Close()
	if err := os.Remove(cosignedPath(dir, "one")); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, o)
	anchored(t, l, put(t, l, 4)) // after a conflict
	if kept.seen(t) != 5 {
		t.Errorf("seen %d", kept.seen(t))
	}
	_, err = w.Update(t.Context(), 5, []byte("x\n"), nil)
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	if err := os.RemoveAll(kept.dir); err != nil {
		t.Fatal(err)
	}
	if _, err = w.Update(t.Context(), 5, []byte("x\n"), nil); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("%v", err)
	}
}

// What a command may do instead of answering.
func TestCommandWitnessFaults(t *testing.T) {
	k, err := makeCosigningKey("w.example")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CALLGATE_SECRET_X", "canary")
	tmp := t.TempDir()
	left, leftBehind, leftHolding := filepath.Join(tmp, "left"), filepath.Join(tmp, "behind"), filepath.Join(tmp, "holding")
	for name, tt := range map[string]struct{ script, want string }{
		"nothing":                    {"true", "with a status"},
		"fails":                      {"printf '200\\nx'; exit 3", "exit status 3"},
		"no status":                  {"echo hello", "with a status"},
		"a long status":              {"echo 0200", "with a status"},
		"a negative status":          {"echo -20", "with a status"},
		"without a break":            {"printf 200", "with a status"},
		"endless":                    {"while :; do echo 200; done", "larger than"},
		"a conflict":                 {"printf '409\\n12\\n'", "12 records"},
		"a conflict of 012":          {"printf '409\\n012\\n'", "-1 records"},
		"the secrets":                {"test -z \"$CALLGATE_SECRET_X\" && printf '404\\n'", "404"},
		"does not read":              {"exec <&-; printf '429\\n'", "429"},
		"leaves one running":         {"sleep 1000 & echo $! >" + left + "; while :; do echo 200; done", "larger than"},
		"leaves one behind":          {"sleep 1000 >/dev/null & echo $! >" + leftBehind + "; printf '404\\n'", "404"},
		"leaves one with its output": {"sleep 1000 & echo $! >" + leftHolding + "; printf '404\\n'", "WaitDelay"},
	} {
		w, err := CommandWitness("one", []string{"/bin/sh", "-c", tt.script}, k.String())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		lines, err := w.Update(t.Context(), 0, bytes.Repeat([]byte("x"), 1<<10), nil)
		if lines != nil || err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %q, %v", name, lines, err)
		}
		if time.Since(start) > time.Minute {
			t.Errorf("%s: took %v", name, time.Since(start))
		}
	}
	for _, left := range []string{left, leftBehind, leftHolding} {
		if pid := strings.TrimSpace(string(read(t, left))); !ends(pid) {
			t.Errorf("what the command started, %s, lives on", filepath.Base(left))
		}
	}
}

// ends waits until the process is dead, or a zombie that nobody waited for yet.
func ends(pid string) bool {
	for range 1000 {
		if b, err := os.ReadFile("/proc/" + pid + "/stat"); err != nil || strings.Contains(string(b), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestCommandWitnessOptions(t *testing.T) {
	k, err := makeCosigningKey("w.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{nil, {}, {""}} {
		if _, err := CommandWitness("one", argv, k.String()); err == nil {
			t.Errorf("%q is a command", argv)
		}
	}
	for _, name := range []string{"", "A", "a/b", "..", "-a", "a b", strings.Repeat("a", 65)} {
		if _, err := CommandWitness(name, []string{"x"}, k.String()); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	w, err := CommandWitness("one", []string{"/does/not/exist"}, k.String()+"\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Update(t.Context(), 0, []byte("x"), nil); err == nil {
		t.Error("a program that is not there answers")
	}
}

// Whatever a command is asked, it answers in the one form or not at all.
func TestAnswerCommand(t *testing.T) {
	dir, c := newCheckpoints(t, 3)
	w := newWitness(t, dir, "one", nil)
	for name, tt := range map[string]struct {
		in   string
		want string // what the answer begins with
	}{
		"nothing":        {"", "400\n"},
		"no request":     {"old x\n\n", "400\n"},
		"a huge request": {strings.Repeat("x", 1<<20), "400\n"},
		"a conflict":     {string(request(3, c.cps[3].note, nil)), "409\n0\n"},
		"an unknown log": {"old 0\n\nother\n1\n", "404\n"},
		"a checkpoint":   {string(request(0, c.cps[3].note, nil)), "200\n\u2014 " + strings.Split(w.Key(), "+")[0]},
	} {
		var out strings.Builder
		if err := AnswerCommand(t.Context(), w, strings.NewReader(tt.in), &out); err != nil || !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
		if name == "a checkpoint" {
			if err := os.Remove(filepath.Join(w.dir, witnessSeenFile)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
