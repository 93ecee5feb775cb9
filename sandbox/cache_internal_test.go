package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clocked is a cache of at most so many bytes, whose clock goes on by a second
// with every look.
func clocked(t testing.TB, most int64) *cache {
	t.Helper()
	now := time.Unix(1e9, 0)
	c, err := openCache(Options{
		CacheDir: filepath.Join(t.TempDir(), "cache"), CacheKey: bytes.Repeat([]byte("k"), 32), CacheBytes: most,
		Now: func() time.Time { now = now.Add(time.Second); return now },
	}, "v1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What was used longest ago makes room, and what a process left that died.
func TestCacheStaysSmall(t *testing.T) {
	artefact := bytes.Repeat([]byte("a"), 1000)
	one := int64(entryBefore + len(artefact))
	c := clocked(t, 3*one)
	for name, age := range map[string]time.Duration{"1.tmp": 2 * staleAfter, "2.tmp": 0} {
		name = filepath.Join(c.dir, name)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, c.now(), c.now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, wasm := range []string{"a", "b", "c"} {
		c.put([]byte(wasm), artefact)
	}
	c.get([]byte("a"))
	c.put([]byte("d"), artefact)
	for wasm, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := c.get([]byte(wasm)); (got != nil) != want {
			t.Errorf("%s is there: %v", wasm, got != nil)
		}
	}
	left, _ := filepath.Glob(filepath.Join(c.dir, "*.tmp"))
	if len(left) != 1 || filepath.Base(left[0]) != "2.tmp" {
		t.Errorf("files that are not whole: %v", left)
	}
	c.put([]byte("larger than all"), bytes.Repeat(artefact, 4))
	if found, _ := filepath.Glob(filepath.Join(c.dir, "*"+entrySuffix)); len(found) != 3 {
		t.Errorf("the cache holds %v", found)
	}
}

// An entry is for one module, system and version of everything that wrote it.
func TestCacheKeys(t *testing.T) {
	c := clocked(t, 1<<20)
	c.put([]byte("m"), []byte("artefact"))
	other := *c
	other.version = "v2"
	for name, got := range map[string][]byte{
		"of another module": c.get([]byte("n")), "of another version": other.get([]byte("m")), "of no cache": (*cache)(nil).get([]byte("m")),
	} {
		if got != nil {
			t.Errorf("%s there is %q", name, got)
		}
	}
	if got := c.get([]byte("m")); string(got) != "artefact" {
		t.Errorf("get() = %q", got)
	}
	if strings.Contains(c.name(c.key([]byte("m"))), "..") {
		t.Error("a name leads elsewhere")
	}
}

// No bytes but those that put wrote are an entry.
func FuzzCacheEntry(f *testing.F) {
	c := clocked(f, 1<<30)
	wasm, artefact := []byte("module"), []byte("artefact")
	c.put(wasm, artefact)
	name := c.name(c.key(wasm))
	good, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:entryBefore])
	f.Add(append(bytes.Clone(good), 0))
	f.Add([]byte(entryHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.get(wasm); (got != nil) != bytes.Equal(b, good) {
			t.Errorf("get() = %q", got)
		}
	})
}
