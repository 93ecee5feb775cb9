package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/audit"
)

func TestReadUpTo(t *testing.T) {
	dir := t.TempDir()
	l, err := audit.Open(dir, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := l.Append(t.Context(), fmt.Appendf(nil, `{"n":%d,"type":"test"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(index int64) ([]string, error) {
		var got []string
		err := audit.ReadUpTo(t.Context(), dir, index, func(i int64, rec []byte) error {
			if i != int64(len(got)) {
				t.Errorf("record %d is told as %d", len(got), i)
			}
			got = append(got, string(rec))
			return nil
		})
		return got, err
	}
	// While the log is open, for it changes nothing.
	if got, err := read(3); err != nil || len(got) != 4 || got[3] != `{"n":3,"type":"test"}` {
		t.Errorf("read %q, %v", got, err)
	}
	for _, index := range []int64{5, -1} {
		if _, err := read(index); !errors.Is(err, audit.ErrNoRecord) {
			t.Errorf("record %d: %v", index, err)
		}
	}
	stop := errors.New("stop")
	if err := audit.ReadUpTo(t.Context(), dir, 3, func(int64, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("went on after %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := audit.ReadUpTo(ctx, dir, 3, func(int64, []byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	seg, err := filepath.Glob(filepath.Join(dir, "log", "*.jsonl"))
	if err != nil || len(seg) != 1 {
		t.Fatal(seg, err)
	}
	b, err := os.ReadFile(seg[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(seg[0], []byte(strings.Replace(string(b), `{"n":3,"type":"test"}`, `{"n":9,"type":"test"}`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := read(3); err == nil || len(got) > 3 {
		t.Errorf("a changed record is told: %q, %v", got, err)
	} else if _, ok := errors.AsType[*audit.TamperError](err); !ok {
		t.Errorf("said %v", err)
	}
}

// A key is found and never made: one that was erased stays so.
func TestFindSalt(t *testing.T) {
	dir := t.TempDir()
	day := time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)
	if _, err := audit.FindSalt(dir, "acme", day); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without keys: %v", err)
	}
	s, err := audit.OpenSalts(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Key("acme", day)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := audit.FindSalt(dir, "acme", day); err != nil || got != want {
		t.Errorf("found %x, %v", got, err)
	}
	for _, other := range []struct {
		tenant string
		day    time.Time
	}{{"other", day}, {"acme", day.AddDate(0, 0, 1)}} {
		if _, err := audit.FindSalt(dir, other.tenant, other.day); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: %v", other, err)
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "keys", "salts")); err != nil || len(files) != 1 {
		t.Errorf("%d keys, %v", len(files), err)
	}
}
