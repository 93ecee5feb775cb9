package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
)

// testRecord is a small record that says which one it is.
func testRecord(i int) []byte {
	b, err := call.Record{Type: call.TypeDecision, Time: time.Unix(1_700_000_000, int64(i)).UTC(), Call: fmt.Sprintf("c-%d", i), Verdict: call.Deny}.Encode()
	if err != nil {
		panic(err)
	}
	return b
}

func open(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// add commits one batch of exactly n records after those that l has.
func add(t testing.TB, l *Log, n int) {
	t.Helper()
	var b []*pending
	for i := range n {
		b = append(b, &pending{rec: testRecord(int(l.tree.n) + i)})
	}
	if err := l.commit(b); err != nil {
		t.Fatal(err)
	}
}

// build returns the directory of a closed log with batches of these sizes.
func build(t testing.TB, o Options, sizes ...int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	l := open(t, dir, o)
	for _, n := range sizes {
		add(t, l, n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func replay(t testing.TB, l *Log) []string {
	t.Helper()
	var got []string
	err := l.Replay(t.Context(), func(i int64, rec []byte) error {
		if i != int64(len(got)) {
			t.Errorf("record %d came after %d others", i, len(got))
		}
		got = append(got, string(rec))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func records(n int) []string {
	var want []string
	for i := range n {
		want = append(want, string(testRecord(i)))
	}
	return want
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	segs, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, s := range segs {
		paths = append(paths, s.path)
	}
	return paths
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(keyPath(to), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	l := open(t, dir, Options{Origin: "example.com/log"})
	if got := replay(t, l); len(got) != 0 {
		t.Fatalf("new log has records: %v", got)
	}
	for i := range 5 {
		got, err := l.Append(t.Context(), testRecord(i))
		if err != nil || got != int64(i) {
			t.Fatalf("Append = %d, %v; want %d", got, err, i)
		}
	}
	if d := cmp.Diff(records(5), replay(t, l)); d != "" {
		t.Error(d)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := l.Append(t.Context(), testRecord(5)); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}

	l = open(t, dir, Options{})
	if got, err := l.Append(t.Context(), testRecord(5)); err != nil || got != 5 {
		t.Errorf("Append after reopening = %d, %v", got, err)
	}
	if d := cmp.Diff(records(6), replay(t, l)); d != "" {
		t.Error(d)
	}
	rep, err := Verify(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	want := Report{Origin: "example.com/log", Records: 6, Segments: 1, Checkpoints: 6, Root: rep.Root, Checkpoint: rep.Checkpoint}
	if d := cmp.Diff(want, rep); d != "" || !strings.HasPrefix(rep.Checkpoint, "example.com/log\n6\n"+rep.Root+"\n\n") {
		t.Errorf("%s%q", d, rep.Checkpoint)
	}
}

func TestNotRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := open(t, dir, Options{})
	big := []byte(`{"a":"` + strings.Repeat("x", MaxRecordBytes) + `","type":"x"}`)
	fits := []byte(`{"a":"` + strings.Repeat("x", MaxRecordBytes-len(`{"a":"","type":"x"}`)) + `","type":"x"}`)
	for name, rec := range map[string]string{
		"empty":          ``,
		"not an object":  `["type"]`,
		"no type":        `{"a":1}`,
		"two lines":      "{\"a\":1,\n\"type\":\"x\"}",
		"break at end":   "{\"type\":\"x\"}\n",
		"break in text":  "{\"type\":\"x\ny\"}",
		"two values":     `{"type":"x"}{"type":"y"}`,
		"checkpoint":     `{"checkpoint":"x","type":"x"}`,
		"blank":          `{"type":"x" }`,
		"key order":      `{"type":"x","a":1}`,
		"duplicate keys": `{"type":"x","type":"x"}`,
		"number form":    `{"a":1.0,"type":"x"}`,
		"clamped number": `{"a":1e999,"type":"x"}`,
		"bad UTF-8":      "{\"type\":\"\xff\"}",
		"too large":      string(big),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := l.Append(t.Context(), []byte(rec)); !errors.Is(err, ErrNotRecord) {
				t.Errorf("Append = %v, want ErrNotRecord", err)
			}
		})
	}
	if i, err := l.Append(t.Context(), fits); err != nil || i != 0 {
		t.Errorf("the largest record: %d, %v; the log should go on", i, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l = open(t, dir, Options{}); len(replay(t, l)) != 1 {
		t.Error("the largest record cannot be read back")
	}
}

func TestRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	o := Options{SegmentBytes: 1}
	l := open(t, dir, o)
	for _, n := range []int{2, 3, 1} {
		add(t, l, n)
	}
	var names []string
	for _, p := range files(t, dir) {
		names = append(names, filepath.Base(p))
	}
	want := []string{"00000000000000000000.jsonl", "00000000000000000002.jsonl", "00000000000000000005.jsonl"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(records(6), replay(t, l)); d != "" {
		t.Error(d)
	}
	l.Close()

	// A crash between making a segment and writing to it leaves it empty.
	write(t, segmentPath(dir, 6), nil)
	if rep, err := Verify(dir, ""); err != nil || rep.Segments != 4 || rep.Records != 6 {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
	l = open(t, dir, o)
	add(t, l, 1)
	if got := files(t, dir); len(got) != 4 || len(read(t, got[3])) == 0 {
		t.Errorf("an empty last segment was not written to: %v", got)
	}
	if d := cmp.Diff(records(7), replay(t, l)); d != "" {
		t.Error(d)
	}
}

func TestRotationBySize(t *testing.T) {
	dir := build(t, Options{SegmentBytes: 2000}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	paths := files(t, dir)
	if len(paths) < 2 {
		t.Fatalf("no rotation: %v", paths)
	}
	for _, p := range paths[:len(paths)-1] {
		b := read(t, p)
		lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		last := lines[len(lines)-1]
		if !bytes.HasPrefix(last, checkpointStart) {
			t.Errorf("%s does not end with a checkpoint", p)
		}
		if len(b) < 2000 || len(b) > 2000+600 {
			t.Errorf("%s has %d bytes", p, len(b))
		}
	}
}

func TestHashesAreDerived(t *testing.T) {
	dir := build(t, Options{}, 3, 4, 1)
	want := read(t, hashesPath(dir))
	for name, edit := range map[string]func(path string){
		"missing": func(p string) { os.Remove(p) },
		"short":   func(p string) { os.Truncate(p, 100) },
		"long":    func(p string) { write(t, p, append(bytes.Clone(want), want...)) },
		"wrong":   func(p string) { write(t, p, bytes.Repeat([]byte("x"), len(want))) },
		"holes":   func(p string) { os.Truncate(p, 64); os.Truncate(p, int64(len(want))) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, dir)
			edit(hashesPath(dir))
			if _, err := Verify(dir, ""); err != nil {
				t.Errorf("Verify believes the hashes: %v", err)
			}
			open(t, dir, Options{})
			if !bytes.Equal(want, read(t, hashesPath(dir))) {
				t.Error("not rebuilt")
			}
		})
	}
}

func TestPermissions(t *testing.T) {
	dir := build(t, Options{}, 1)
	for path, want := range map[string]os.FileMode{
		dir: 0o700, filepath.Join(dir, logDir): 0o700, filepath.Join(dir, keysDir): 0o700,
		keyPath(dir): 0o600, pubPath(dir): 0o600, hashesPath(dir): 0o600, segmentPath(dir, 0): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: mode %#o, want %#o", path, info.Mode().Perm(), want)
		}
	}
}
