package audit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scripted is a witness that keeps a directory, as [FileWitness] does, and of which a
// test decides what it does in its place.
type scripted struct {
	Witness
	dir string

	mu    sync.Mutex
	do    func(ctx context.Context, old int64, cp []byte, proof [][32]byte) ([]byte, error) // nil: as it should
	asked atomic.Int64
}

func (s *scripted) Update(ctx context.Context, old int64, cp []byte, proof [][32]byte) ([]byte, error) {
	s.asked.Add(1)
	s.mu.Lock()
	do := s.do
	s.mu.Unlock()
	if do == nil {
		do = s.Witness.Update
	}
	return do(ctx, old, cp, proof)
}

func (s *scripted) script(do func(ctx context.Context, old int64, cp []byte, proof [][32]byte) ([]byte, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

// seen is how many records the witness remembers.
func (s *scripted) seen(t testing.TB) int64 {
	t.Helper()
	_, note, err := ReadFileWitness(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if note == nil {
		return 0
	}
	return sizeOf(t, note)
}

func sizeOf(t testing.TB, note []byte) int64 {
	t.Helper()
	n, err := parseSize(string(bytes.Split(note, []byte("\n"))[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// newWitness makes a witness of the log in dir, whose clock is now.
func newWitness(t testing.TB, dir, name string, now func() time.Time) *scripted {
	t.Helper()
	of := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(of, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := MakeFileWitness(of, string(read(t, pubPath(dir))))
	if err != nil {
		t.Fatal(err)
	}
	w, err := FileWitness(name, of, key, now)
	if err != nil {
		t.Fatal(err)
	}
	return &scripted{Witness: w, dir: of}
}

// witnessed are options with these witnesses.
func witnessed(ws ...*scripted) Options {
	o := Options{Alive: -1}
	for _, w := range ws {
		o.Witnesses = append(o.Witnesses, w)
	}
	return o
}

func put(t testing.TB, l *Log, i int) int64 {
	t.Helper()
	at, err := l.Append(t.Context(), testRecord(i))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// anchored waits for the record.
func anchored(t testing.TB, l *Log, index int64) {
	t.Helper()
	if err := l.WaitAnchored(t.Context(), index); err != nil {
		t.Fatal(err)
	}
}

func now() time.Time { return time.Now() }
