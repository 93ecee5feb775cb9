package local_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
)

// when is an operator's log that does something about a message.
type when struct {
	message string
	do      func()
}

func (w *when) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(w.message)) {
		w.do()
	}
	return len(line), nil
}

// With a strict witness every grant is cosigned before anything runs. Without it
// nothing runs, and when it is back everything does.
func TestStrictWitness(t *testing.T) {
	c := config(write(t))
	open(t, c).Close() // makes the log
	public, err := os.ReadFile(filepath.Join(c.Data, "keys", "log.pub"))
	if err != nil {
		t.Fatal(err)
	}
	of := t.TempDir()
	key, err := audit.MakeFileWitness(of, string(public))
	if err != nil {
		t.Fatal(err)
	}
	c.Witnesses = []local.Witness{{Name: "disk", Kind: local.WitnessFile, Path: of, Key: key}}
	c.Witnessing.Strict = true
	ctx, cancel := context.WithCancel(t.Context())
	c.Logger = zerolog.New(&when{"witness does not cosign", cancel})

	g := open(t, c)
	for range 3 {
		res, err := g.Do(t.Context(), read("alice"))
		if err != nil {
			t.Fatal(err)
		}
		_, seen, err := audit.ReadFileWitness(of)
		if err != nil {
			t.Fatal(err)
		}
		r, err := audit.Verify(c.Data, "", audit.Anchor{Key: key, Checkpoint: seen})
		if err != nil || r.Anchors[0].Size <= res.Receipt.Index {
			t.Fatalf("the witness has seen %+v, %v; the tool ran by record %d", r.Anchors, err, res.Receipt.Index)
		}
	}
	if err := os.Rename(of, of+"2"); err != nil { // the disk is gone
		t.Fatal(err)
	}
	_, err = g.Do(ctx, read("alice"))
	if d, ok := errors.AsType[*engine.Denial](err); !ok || d.Code != call.CodeWitnessUnavailable {
		t.Fatalf("without the witness: %v", err)
	}
	if err := os.Rename(of+"2", of); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Do(t.Context(), read("alice")); err != nil {
		t.Fatalf("with it again: %v", err)
	}
	g.Close()
}

// Witnesses that cannot work are found when the gate is opened.
func TestWitnessesThatCannotWork(t *testing.T) {
	c := config(write(t))
	open(t, c).Close()
	public, err := os.ReadFile(filepath.Join(c.Data, "keys", "log.pub"))
	if err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(c.Data, "w")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := audit.MakeFileWitness(inside, string(public))
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, w := range map[string]local.Witness{
		"in the data directory":    {Name: "a", Kind: local.WitnessFile, Path: inside, Key: key},
		"kind":                     {Name: "a", Key: key},
		"not the key of a witness": {Name: "a", Kind: local.WitnessFile, Path: t.TempDir(), Key: string(public)},
		"lower case":               {Name: "A", Kind: local.WitnessFile, Path: t.TempDir(), Key: key},
		"not to this machine":      {Name: "a", Kind: local.WitnessHTTP, URL: "http://witness.example", Key: key},
		"holds no certificate":     {Name: "a", Kind: local.WitnessHTTP, URL: "https://witness.example", CA: empty, Key: key},
		"no such file":             {Name: "a", Kind: local.WitnessHTTP, URL: "https://witness.example", CA: empty + "x", Key: key},
		"command is empty":         {Name: "a", Kind: local.WitnessCommand, Key: key},
	} {
		c := c
		c.Witnesses = []local.Witness{w}
		if g, err := local.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", w, err, want)
			if err == nil {
				g.Close()
			}
		}
	}
	c.Witnessing.Strict = true
	if g, err := local.Open(t.Context(), c); err == nil {
		g.Close()
		t.Error("strict without a witness")
	}
}
