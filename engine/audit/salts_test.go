package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func openSalts(t *testing.T, dir string) *Salts {
	t.Helper()
	s, err := OpenSalts(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func saltFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, keysDir, "salts"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSalts(t *testing.T) {
	dir := t.TempDir()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	west := time.FixedZone("", -8*3600)
	key := func(s *Salts, tenant string, day time.Time) [32]byte {
		t.Helper()
		k, err := s.Key(tenant, day)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	s := openSalts(t, dir)
	a := key(s, "acme", noon)
	for name, same := range map[string]struct {
		s      *Salts
		tenant string
		day    time.Time
		want   bool
	}{
		"again":               {s, "acme", noon, true},
		"same day, later":     {s, "acme", noon.Add(11 * time.Hour), true},
		"same day elsewhere":  {s, "acme", noon.In(west), true},
		"after reopening":     {openSalts(t, dir), "acme", noon, true},
		"next day":            {s, "acme", noon.Add(12 * time.Hour), false},
		"next day, by UTC":    {s, "acme", time.Date(2026, 3, 1, 20, 0, 0, 0, west), false},
		"other tenant":        {s, "acm", noon, false},
		"no tenant":           {s, "", noon, false},
		"the zero day":        {s, "acme", time.Time{}, false},
		"tenant with a path":  {s, "../../x", noon, false},
		"tenant with a zero":  {s, "acme\x00", noon, false},
		"tenant of any bytes": {s, "\xff/" + strings.Repeat("x", 5000), noon, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := key(same.s, same.tenant, same.day) == a; got != same.want {
				t.Errorf("same key: %v, want %v", got, same.want)
			}
		})
	}
	for _, name := range saltFiles(t, dir) {
		if len(name) != len("2026-03-01-")+64 || strings.Contains(name, "acme") {
			t.Errorf("file name %q", name)
		}
		info, err := os.Stat(filepath.Join(dir, keysDir, "salts", name))
		if err != nil || info.Mode() != 0o600 || info.Size() != 32 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, keysDir, "salts")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info, err)
	}
}

func TestSaltsErased(t *testing.T) {
	dir, day := t.TempDir(), time.Now()
	before, err := openSalts(t, dir).Key("acme", day)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, keysDir, "salts", saltFiles(t, dir)[0])); err != nil {
		t.Fatal(err)
	}
	if after, err := openSalts(t, dir).Key("acme", day); err != nil || after == before {
		t.Errorf("an erased key came back: %v", err)
	}
}

func TestSaltsOdd(t *testing.T) {
	good := bytes.Repeat([]byte("k"), 32)
	tests := []struct {
		name string
		make func(path string) error
		err  string
	}{
		{"empty", func(p string) error { return os.WriteFile(p, nil, 0o600) }, "0 bytes, want 32"},
		{"short", func(p string) error { return os.WriteFile(p, good[:31], 0o600) }, "31 bytes, want 32"},
		{"long", func(p string) error { return os.WriteFile(p, append(good, 'k'), 0o600) }, "larger than 32 bytes"},
		{"others can read", func(p string) error { return os.WriteFile(p, good, 0o644) }, "want 0600"},
		{"link", func(p string) error {
			if err := os.WriteFile(p+"x", good, 0o600); err != nil {
				return err
			}
			return os.Symlink(p+"x", p)
		}, "symbolic link"},
		{"pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }, "not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, day := t.TempDir(), time.Now()
			if _, err := openSalts(t, dir).Key("acme", day); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, keysDir, "salts", saltFiles(t, dir)[0])
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			k, err := openSalts(t, dir).Key("acme", day)
			if err == nil || !strings.Contains(err.Error(), tt.err) || k != [32]byte{} {
				t.Errorf("Key = %x, %v; want %q", k, err, tt.err)
			}
		})
	}
}

// Whoever comes first makes the key; all others, in this process or another,
// get the same.
func TestSaltsTogether(t *testing.T) {
	dir, day := t.TempDir(), time.Now()
	const tenants = 8
	stores := []*Salts{openSalts(t, dir), openSalts(t, dir), openSalts(t, dir), openSalts(t, dir)}
	var mu sync.Mutex
	seen := map[string]map[[32]byte]bool{}
	var wg sync.WaitGroup
	for i := range 16 * tenants {
		wg.Go(func() {
			tenant := fmt.Sprint(i % tenants)
			k, err := stores[i%len(stores)].Key(tenant, day)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[tenant] == nil {
				seen[tenant] = map[[32]byte]bool{}
			}
			seen[tenant][k] = true
		})
	}
	wg.Wait()
	for tenant, keys := range seen {
		if len(keys) != 1 {
			t.Errorf("tenant %s has %d keys", tenant, len(keys))
		}
	}
	if n := len(saltFiles(t, dir)); n != tenants {
		t.Errorf("%d files for %d tenants", n, tenants)
	}
}

func TestSaltsHalfMade(t *testing.T) {
	dir, day := t.TempDir(), time.Now()
	if _, err := openSalts(t, dir).Key("acme", day); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, keysDir, "salts", saltFiles(t, dir)[0])
	if err := os.Rename(path, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path+".new", 7); err != nil {
		t.Fatal(err)
	}
	if _, err := openSalts(t, dir).Key("acme", day); err != nil {
		t.Error(err)
	}
	if got := saltFiles(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

func TestSaltsBounded(t *testing.T) {
	s := openSalts(t, t.TempDir())
	for i := range maxSalts {
		s.keys[fmt.Sprint(i)] = [32]byte{}
	}
	if _, err := s.Key("acme", time.Now()); err != nil || len(s.keys) > maxSalts {
		t.Errorf("%d keys in memory, %v", len(s.keys), err)
	}
}
