package audit

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/torchwood"
	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

// The witnesses of others, which share no code with ours: each returns its URL and its
// verifier key, and knows the log of dir.
var c2spWitnesses = map[string]func(t *testing.T, dir string) (url, key string){
	"transparency-dev": transparencyDev, "litewitness": litewitness,
}

// transparencyDev is github.com/transparency-dev/witness, in this process.
func transparencyDev(t *testing.T, dir string) (string, string) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "witness.example/td")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := f_note.NewSignerForCosignatureV1(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := f_note.VKeyToCosignatureV1(public)
	if err != nil {
		t.Fatal(err)
	}
	log, err := loadPub(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := witness.New(t.Context(), witness.Opts{
		Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return log, origin == log.Name(), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /prefix/add-checkpoint", witness.NewHTTPHandler(w).AddCheckpoint)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/prefix/", key
}

// litewitness is filippo.io/torchwood's witness, a process with a database. It is built
// in a module of its own; see testdata/litewitness.
func litewitness(t *testing.T, dir string) (string, string) {
	t.Helper()
	module := filepath.Join("testdata", "litewitness")
	program := filepath.Join(t.TempDir(), "run")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", module, "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building litewitness: %v\n%s", err, out)
	}
	find := exec.CommandContext(t.Context(), "go", "tool", "-C", module, "-n", "litewitness")
	find.Env = build.Env
	found, err := find.Output()
	if err != nil {
		t.Fatalf("building litewitness: %v", err)
	}
	private, err := os.MkdirTemp("", "lw") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(private) })
	for range 5 { // somebody else may take the port
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := free.Addr().String()
		free.Close()
		work, err := os.MkdirTemp(private, "")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, strings.TrimSpace(string(found)), work, at, strings.TrimSpace(string(read(t, pubPath(dir)))))
		var said strings.Builder
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		key, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			in.Close()
			t.Logf("litewitness: %v, %v\n%s", err, cmd.Wait(), said.String())
			continue
		}
		t.Cleanup(func() { in.Close(); cmd.Wait() })
		return "http://" + at, strings.TrimSpace(key)
	}
	t.Fatal("litewitness does not start")
	return "", ""
}

// Each of them follows the log from its first record on, over many sizes, across
// restarts of the log with and without what was kept beside it; what it signs two
// libraries verify. And each refuses the log that was cut back or rewritten.
func TestC2SPWitnesses(t *testing.T) {
	for name, start := range c2spWitnesses {
		t.Run(name, func(t *testing.T) {
			dir := build(t, Options{}, 2, 1)
			url, key := start(t, dir)
			w, err := HTTPWitness("one", url, key, nil)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Witnesses: []Witness{w}, Alive: -1, Strict: true}
			var old, before string // the log as it was
			for round := range 4 {
				l := open(t, dir, o)
				for range 12 {
					at := put(t, l, int(l.tree.n))
					if err := l.Hold(t.Context(), at); err != nil {
						t.Fatalf("round %d, record %d: %v, %v", round, at, err, l.Witnesses()[0].Err)
					}
				}
				l.Close()
				switch round {
				case 1: // the witness is ahead of what we know
					if err := os.Remove(cosignedPath(dir, "one")); err != nil {
						t.Fatal(err)
					}
				case 2:
					old, before = copyDir(t, dir), string(read(t, cosignedPath(dir, "one")))
				case 3:
					verifiesElsewhere(t, dir, key, read(t, cosignedPath(dir, "one")))
				}
			}
			if before == string(read(t, cosignedPath(dir, "one"))) {
				t.Error("the last round changed nothing")
			}

			anchor, err := AskWitness(t.Context(), dir, "", w, now())
			if err != nil {
				t.Fatal(err)
			}
			if r, err := Verify(dir, "", anchor); err != nil || len(r.Anchors) != 1 || r.Anchors[0].Size != r.Records || r.Anchors[0].Uncovered != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			rewritten := copyDir(t, dir)
			all(change(9), noHashes, resign(ownKey, 0, false))(t, rewritten)
			for what, dir := range map[string]string{"cut back": old, "rewritten": rewritten} {
				if _, err := Verify(dir, ""); err != nil {
					t.Errorf("%s: without the witness: %v", what, err)
				}
				if _, err := AskWitness(t.Context(), dir, "", w, now()); !errors.Is(err, ErrTampered) {
					t.Errorf("%s: %v", what, err)
				}
				// An open log finds out, too, if whoever did it left no cosignature.
				if err := os.Remove(cosignedPath(dir, "one")); err != nil {
					t.Fatal(err)
				}
				l := open(t, dir, o)
				if err := l.Hold(t.Context(), l.tree.n-1); !errors.Is(err, ErrUnanchored) || !errors.Is(err, ErrForked) {
					t.Errorf("%s: Hold = %v", what, err)
				}
				l.Close()
			}
		})
	}
}

// verifiesElsewhere opens the cosigned checkpoint with two libraries.
func verifiesElsewhere(t *testing.T, dir, key string, msg []byte) {
	t.Helper()
	log, err := loadPub(dir)
	if err != nil {
		t.Fatal(err)
	}
	wood, err := torchwood.NewCosignatureVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	policy := torchwood.ThresholdPolicy(3, torchwood.OriginPolicy(log.Name()), torchwood.SingleVerifierPolicy(log), torchwood.SingleVerifierPolicy(wood))
	c, _, err := torchwood.VerifyCheckpoint(msg, policy)
	if err != nil {
		t.Fatalf("torchwood: %v\n%s", err, msg)
	}
	formats, err := f_note.NewVerifierForCosignatureV1(key)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := note.Open(msg, note.VerifierList(formats)); err != nil || len(n.Sigs) != 1 {
		t.Errorf("formats: %+v, %v", n, err)
	}
	if r, err := Verify(dir, ""); err != nil || r.Records != c.N || r.Root != c.Hash.String() {
		t.Errorf("the log is %+v, %v; cosigned are %d, %s", r, err, c.N, c.Hash)
	}
}
