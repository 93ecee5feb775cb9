package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small makes every batch a segment of its own.
var small = Options{SegmentBytes: 1}

func kept(t *testing.T, l *Log) (int64, string, error) {
	t.Helper()
	size, state, err := l.LastSnapshot()
	if err != nil && (size != 0 || state != nil) {
		t.Errorf("LastSnapshot returns %d, %q and an error", size, state)
	}
	return size, string(state), err
}

func TestSnapshotIsKept(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "data"), small)
	size, grown := l.Finished()
	if size != 0 {
		t.Errorf("a new log has %d finished records", size)
	}
	add(t, l, 3)
	select {
	case <-grown:
		t.Error("grown before a segment is finished")
	default:
	}
	add(t, l, 2)
	<-grown
	if size, _ = l.Finished(); size != 3 {
		t.Fatalf("Finished = %d, want 3", size)
	}
	if size, _, err := kept(t, l); size != 0 || err != nil {
		t.Errorf("none is kept: %d, %v", size, err)
	}
	for _, size := range []int64{-1, 0, 1, 4, 5, 6} {
		if err := l.KeepSnapshot(size, []byte("{}")); err == nil {
			t.Errorf("a snapshot of %d records, where no segment ends", size)
		}
	}
	state := strings.Repeat(`{"some":"state"}`, 1000)
	if err := l.KeepSnapshot(3, []byte(state)); err != nil {
		t.Fatal(err)
	}
	add(t, l, 1)
	for range 2 {
		if size, got, err := kept(t, l); size != 3 || got != state || err != nil {
			t.Errorf("LastSnapshot = %d, %d bytes, %v", size, len(got), err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, l.dir, small)
	}
	if err := l.KeepSnapshot(5, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if size, got, err := kept(t, l); size != 5 || got != `{}` || err != nil {
		t.Errorf("the next one: %d, %q, %v", size, got, err)
	}
	names, err := l.snapshotFiles()
	if diff := cmp.Diff([]string{"00000000000000000005.snapshot"}, names); diff != "" || err != nil {
		t.Errorf("%s %v", diff, err)
	}
	info, err := os.Stat(snapshotPath(l.dir, 5))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Verify(l.dir, ""); err != nil {
		t.Error(err)
	}
}

func TestReplayRange(t *testing.T) {
	l := open(t, build(t, small, 3, 2, 4), small)
	all := records(9)
	for _, tt := range []struct{ from, to, end int64 }{
		{0, -1, 9}, {0, 0, 0}, {0, 3, 3}, {3, 5, 5}, {3, -1, 9}, {5, -1, 9}, {5, 5, 5}, {0, 5, 5},
	} {
		got := []string{}
		err := l.ReplayRange(t.Context(), tt.from, tt.to, func(i int64, rec []byte) error {
			if i != tt.from+int64(len(got)) {
				t.Errorf("record %d came after %d others", i, len(got))
			}
			got = append(got, string(rec))
			return nil
		})
		if diff := cmp.Diff(all[tt.from:tt.end], got); diff != "" || err != nil {
			t.Errorf("%d to %d: %v %s", tt.from, tt.to, err, diff)
		}
	}
	for _, tt := range [][2]int64{{1, -1}, {-1, 3}, {0, 4}, {5, 3}, {9, -1}, {0, 9}, {0, 10}} {
		if err := l.ReplayRange(t.Context(), tt[0], tt[1], func(int64, []byte) error { return nil }); err == nil {
			t.Errorf("%v is no range of segments", tt)
		}
	}
	// What changes while the log is open is seen, also behind a snapshot.
	path := segmentPath(l.dir, 3)
	write(t, path, bytes.Replace(read(t, path), []byte(`"c-4"`), []byte(`"c-9"`), 1))
	err := l.ReplayRange(t.Context(), 3, 5, func(int64, []byte) error { return nil })
	wantTampered(t, err)
	if err := l.ReplayRange(t.Context(), 5, -1, func(int64, []byte) error { return nil }); err != nil {
		t.Errorf("what was not read: %v", err)
	}
}

// Whatever is wrong with a snapshot, it is not believed, and it never keeps the log
// from opening.
func TestSnapshotInDoubt(t *testing.T) {
	const size = 3
	state := []byte(`{"changes":[]}`)
	cut := func(n int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			b := read(t, snapshotPath(dir, size))
			write(t, snapshotPath(dir, size), b[:len(b)-n])
		}
	}
	replace := func(from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			b := read(t, snapshotPath(dir, size))
			if !bytes.Contains(b, []byte(from)) {
				t.Fatalf("no %s in %s", from, b)
			}
			write(t, snapshotPath(dir, size), bytes.Replace(b, []byte(from), []byte(to), 1))
		}
	}
	for name, damage := range map[string]func(*testing.T, string){
		"a byte short":     cut(1),
		"no state":         cut(len(state)),
		"no head":          cut(len(state) + 1),
		"a changed state":  replace(`"changes"`, `"Changes"`),
		"a longer state":   replace(`[]}`, `[]} `),
		"another version":  replace(`"version":1`, `"version":2`),
		"another size":     replace(`"size":3`, `"size":5`),
		"another length":   replace(`"bytes":14`, `"bytes":1`),
		"a negative one":   replace(`"bytes":14`, `"bytes":-14`),
		"a huge one":       replace(`"bytes":14`, `"bytes":9007199254740991`),
		"another origin":   replace(`"origin":"`, `"origin":"x`),
		"another root":     replace(`"root":"`, `"root":"A`),
		"an unknown field": replace(`{"bytes"`, `{"a":1,"bytes"`),
		"a field twice":    replace(`{"bytes"`, `{"size":3,"bytes"`),
		"an endless head": func(t *testing.T, dir string) {
			write(t, snapshotPath(dir, size), bytes.Repeat([]byte{' '}, 1<<20))
		},
		"empty": func(t *testing.T, dir string) { write(t, snapshotPath(dir, size), nil) },
		"of where no segment ends": func(t *testing.T, dir string) {
			rename(t, snapshotPath(dir, size), snapshotPath(dir, 4))
		},
		"of another segment": func(t *testing.T, dir string) {
			rename(t, snapshotPath(dir, size), snapshotPath(dir, 5))
		},
		"of more than there is": func(t *testing.T, dir string) {
			rename(t, snapshotPath(dir, size), snapshotPath(dir, 99))
		},
		"a number too large": func(t *testing.T, dir string) {
			rename(t, snapshotPath(dir, size), filepath.Join(dir, snapshotsDir, strings.Repeat("9", 20)+".snapshot"))
		},
		"a link": func(t *testing.T, dir string) {
			rename(t, snapshotPath(dir, size), filepath.Join(dir, "elsewhere"))
			if err := os.Symlink("../elsewhere", snapshotPath(dir, size)); err != nil {
				t.Fatal(err)
			}
		},
		"a directory that is a link": func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, snapshotsDir), filepath.Join(dir, "elsewhere"))
			if err := os.Symlink("elsewhere", filepath.Join(dir, snapshotsDir)); err != nil {
				t.Fatal(err)
			}
		},
		"made with another key": func(t *testing.T, dir string) {
			b := read(t, snapshotPath(dir, size))
			i := bytes.Index(b, []byte(`"mac":"`)) + len(`"mac":"`)
			copy(b[i:], strings.Repeat("0", 64))
			write(t, snapshotPath(dir, size), b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, build(t, small, 3, 2, 4), small)
			if err := l.KeepSnapshot(size, state); err != nil {
				t.Fatal(err)
			}
			damage(t, l.dir)
			l.Close()
			l = open(t, l.dir, small)
			if size, _, err := kept(t, l); err == nil {
				t.Errorf("LastSnapshot = %d, nil", size)
			}
			if diff := cmp.Diff(records(9), replay(t, l)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A log that was cut back and went on in another way does not believe a snapshot of
// what it was.
func TestSnapshotOfAnotherPast(t *testing.T) {
	dir := build(t, small, 3, 2, 4)
	l := open(t, dir, small)
	if err := l.KeepSnapshot(5, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, path := range files(t, dir)[1:] {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	l = open(t, dir, small)
	for _, recs := range [][]int{{50, 51}, {52}} {
		var b []*pending
		for _, i := range recs {
			b = append(b, &pending{rec: testRecord(i)})
		}
		if err := l.commit(b); err != nil {
			t.Fatal(err)
		}
	}
	if size, _ := l.Finished(); size != 5 {
		t.Fatalf("%d records are finished, want 5", size)
	}
	if size, _, err := kept(t, l); err == nil {
		t.Errorf("a snapshot of %d records that are others now", size)
	}
}

// Wherever writing one breaks off, the one before it or the new one is there, whole,
// and the next is kept as if nothing had happened.
func TestSnapshotCrash(t *testing.T) {
	before, after := `{"before":1}`, `{"after":2}`
	dir := build(t, small, 3, 2, 4)
	l := open(t, dir, small)
	if err := l.KeepSnapshot(3, []byte(before)); err != nil {
		t.Fatal(err)
	}
	old := read(t, snapshotPath(dir, 3))
	if err := l.KeepSnapshot(5, []byte(after)); err != nil {
		t.Fatal(err)
	}
	whole := read(t, snapshotPath(dir, 5))
	l.Close()
	type step struct {
		files map[string][]byte
		want  string
	}
	oldName, newName := filepath.Base(snapshotPath("", 3)), filepath.Base(snapshotPath("", 5))
	steps := []step{
		{nil, ""}, // the directory is made
		{map[string][]byte{oldName: old}, before},
		{map[string][]byte{oldName: old, newName: whole}, after}, // renamed, the old one not yet removed
		{map[string][]byte{newName: whole}, after},
	}
	for n := 0; n <= len(whole); n += 16 {
		steps = append(steps, step{map[string][]byte{oldName: old, newName + ".new": whole[:n]}, before}, step{map[string][]byte{newName + ".new": whole[:n]}, ""})
	}
	for i, s := range steps {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			snapshots := filepath.Join(dir, snapshotsDir)
			if err := os.RemoveAll(snapshots); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(snapshots, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, b := range s.files {
				write(t, filepath.Join(snapshots, name), b)
			}
			l := open(t, dir, small)
			if _, got, err := kept(t, l); got != s.want || err != nil {
				t.Errorf("LastSnapshot = %q, %v, want %q", got, err, s.want)
			}
			if err := l.KeepSnapshot(5, []byte(after)); err != nil {
				t.Fatal(err)
			}
			names, err := l.snapshotFiles()
			if diff := cmp.Diff([]string{newName}, names); diff != "" || err != nil {
				t.Errorf("%s %v", diff, err)
			}
			l.Close()
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func wantTampered(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrTampered) {
		t.Errorf("%v, want %v", err, ErrTampered)
	}
}

// Whatever the file says, only what was kept is believed.
func FuzzSnapshot(f *testing.F) {
	l := open(f, build(f, small, 3, 2, 4), small)
	state := []byte(`{"changes":[]}`)
	if err := l.KeepSnapshot(3, state); err != nil {
		f.Fatal(err)
	}
	whole := read(f, snapshotPath(l.dir, 3))
	head, _, _ := bytes.Cut(whole, []byte{'\n'})
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(bytes.Clone(head), "\n{}"...))
	f.Add(append(bytes.Clone(whole), whole...))
	f.Add([]byte("{\"bytes\":1e300,\"size\":3}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		write(t, snapshotPath(l.dir, 3), b)
		size, got, err := l.LastSnapshot()
		if err == nil && (size != 3 || !bytes.Equal(got, state)) {
			t.Errorf("LastSnapshot = %d, %q of %q", size, got, b)
		}
		if err != nil && (size != 0 || got != nil) {
			t.Errorf("%d, %q and an error", size, got)
		}
	})
}
