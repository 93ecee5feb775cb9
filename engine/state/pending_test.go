package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/state"
)

// keyRacer makes the test binary one process that opens the directory it names.
const keyRacer = "STATE_TEST_KEY_RACER"

func TestMain(m *testing.M) {
	if data := os.Getenv(keyRacer); data != "" {
		p, err := state.OpenPending(data)
		if err == nil {
			err = p.Put(fmt.Sprint("ap-P", os.Getpid()), []byte("racer"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if where, dir, ok := strings.Cut(os.Getenv(killEnv), ","); ok {
		err := useGrant(where, dir)
		fmt.Fprintln(os.Stderr, "not killed:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func openPending(t *testing.T, data string) *state.Pending {
	t.Helper()
	p, err := state.OpenPending(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustPut(t *testing.T, p *state.Pending, id, args string) {
	t.Helper()
	if err := p.Put(id, []byte(args)); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPendingRoundTrip(t *testing.T) {
	data := t.TempDir()
	p := openPending(t, data)
	args := map[string]string{"ap-A1": `{"secret":"canary"}`, "ap-B2": "", "ap-C3": strings.Repeat("x", 1<<20)}
	for id, want := range args {
		mustPut(t, p, id, want)
	}
	p = openPending(t, data) // another process
	for id, want := range args {
		if got, err := p.Get(id); err != nil || string(got) != want {
			t.Errorf("Get(%s) = %d bytes, %v; want %d", id, len(got), err, len(want))
		}
		b, err := os.ReadFile(filepath.Join(data, "pending", id+".aes"))
		if err != nil || bytes.Contains(b, []byte("canary")) {
			t.Errorf("the file of %s: %q, %v", id, b, err)
		}
	}
	mustPut(t, p, "ap-A1", "other")
	if got, err := p.Get("ap-A1"); err != nil || string(got) != "other" {
		t.Errorf("put again: %q, %v", got, err)
	}
	for range 2 {
		if err := p.Drop("ap-A1"); err != nil {
			t.Errorf("Drop = %v", err)
		}
	}
	if _, err := p.Get("ap-A1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Drop: %v", err)
	}
}

// Whatever is not exactly what was written for that approval is an error.
func TestPendingTampered(t *testing.T) {
	for name, tamper := range map[string]func(t *testing.T, data, file string){
		"each byte matters": func(t *testing.T, _, file string) {
			change(t, file, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		},
		"one byte less":   func(t *testing.T, _, file string) { change(t, file, func(b []byte) []byte { return b[:len(b)-1] }) },
		"one byte more":   func(t *testing.T, _, file string) { change(t, file, func(b []byte) []byte { return append(b, 0) }) },
		"less than a tag": func(t *testing.T, _, file string) { change(t, file, func(b []byte) []byte { return b[:20] }) },
		"empty":           func(t *testing.T, _, file string) { change(t, file, func([]byte) []byte { return nil }) },
		"of another call": func(t *testing.T, data, file string) { rename(t, filepath.Join(data, "pending", "ap-B.aes"), file) },
		"not a file":      func(t *testing.T, _, file string) { rename(t, file, file+".away"); mkdir(t, file) },
		"under a new key": func(t *testing.T, data, _ string) { remove(t, filepath.Join(data, "keys", "pending.key")) },
		"under another key": func(t *testing.T, data, _ string) {
			change(t, filepath.Join(data, "keys", "pending.key"), func(b []byte) []byte { b[0] ^= 1; return b })
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			p := openPending(t, data)
			mustPut(t, p, "ap-A", "delete a")
			mustPut(t, p, "ap-B", "delete b")
			tamper(t, data, filepath.Join(data, "pending", "ap-A.aes"))
			if got, err := openPending(t, data).Get("ap-A"); err == nil || got != nil {
				t.Errorf("Get = %q, %v; want an error", got, err)
			}
		})
	}
}

func change(t *testing.T, file string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, f(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func TestPendingIDs(t *testing.T) {
	data := t.TempDir()
	p := openPending(t, data)
	outside := filepath.Join(data, "x.aes")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "../x", "ap-", "ap-a", "ap-../x", "ap-A/B", "ap-A\n", "ap-A\x00", "AP-A", " ap-A", "ap-A.aes", "ap-" + strings.Repeat("A", 65), "/ap-A", "ap-Ä"} {
		_, err := p.Get(id)
		for name, err := range map[string]error{"Put": p.Put(id, nil), "Get": err, "Drop": p.Drop(id)} {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s(%q) = %v, want a refusal", name, id, err)
			}
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	if got := names(t, filepath.Join(data, "pending")); len(got) > 0 {
		t.Errorf("written: %v", got)
	}
	mustPut(t, p, "ap-"+strings.Repeat("Z", 64), "")
}

func TestPendingModes(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	mustPut(t, openPending(t, data), "ap-A", "x")
	for name, want := range map[string]fs.FileMode{
		"": 0o700 | fs.ModeDir, "pending": 0o700 | fs.ModeDir, "keys": 0o700 | fs.ModeDir,
		"keys/pending.key": 0o600, "pending/ap-A.aes": 0o600,
	} {
		info, err := os.Stat(filepath.Join(data, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if got := names(t, filepath.Join(data, "pending")); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// A key that is not ours alone, or no key, is an error and stays as it is.
func TestPendingKey(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, key string){
		"short":     func(t *testing.T, key string) { change(t, key, func(b []byte) []byte { return b[:31] }) },
		"long":      func(t *testing.T, key string) { change(t, key, func(b []byte) []byte { return append(b, 0) }) },
		"empty":     func(t *testing.T, key string) { change(t, key, func([]byte) []byte { return nil }) },
		"directory": func(t *testing.T, key string) { remove(t, key); mkdir(t, key) },
		"readable by others": func(t *testing.T, key string) {
			if err := os.Chmod(key, 0o640); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, key string) {
			rename(t, key, key+".away")
			if err := os.Symlink(key+".away", key); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			openPending(t, data)
			key := filepath.Join(data, "keys", "pending.key")
			spoil(t, key)
			before, err := os.Lstat(key)
			if err != nil {
				t.Fatal(err)
			}
			if p, err := state.OpenPending(data); err == nil || p != nil {
				t.Errorf("OpenPending = %v, %v; want an error", p, err)
			}
			if after, err := os.Lstat(key); err != nil || after.Mode() != before.Mode() || after.Size() != before.Size() {
				t.Errorf("the key was changed: %v, %v", after, err)
			}
		})
	}
}

// Processes that make the key at once use one key: each can read what any wrote.
func TestPendingKeyRace(t *testing.T) {
	for range 2 {
		data := t.TempDir()
		mkdir(t, filepath.Join(data, "keys"))
		leftover := filepath.Join(data, "keys", ".new-123")
		if err := os.WriteFile(leftover, []byte("half a key"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmds := make([]*exec.Cmd, 8)
		for i := range cmds {
			cmds[i] = exec.Command(os.Args[0], "-test.run=^$")
			cmds[i].Env = append(os.Environ(), keyRacer+"="+data)
			cmds[i].Stderr = t.Output()
			if err := cmds[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, cmd := range cmds {
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		p := openPending(t, data)
		files := names(t, filepath.Join(data, "pending"))
		if len(files) != len(cmds) {
			t.Errorf("%d files of %d processes", len(files), len(cmds))
		}
		for _, f := range files {
			if got, err := p.Get(strings.TrimSuffix(f, ".aes")); err != nil || string(got) != "racer" {
				t.Errorf("%s: %q, %v", f, got, err)
			}
		}
		if got := names(t, filepath.Join(data, "keys")); !slices.Equal(got, []string{"pending.key"}) {
			t.Errorf("keys: %v", got)
		}
	}
}

func TestPendingSweep(t *testing.T) {
	data := t.TempDir()
	p := openPending(t, data)
	dir := filepath.Join(data, "pending")
	for _, id := range []string{"ap-KEEP", "ap-OVER", "ap-OLD"} {
		mustPut(t, p, id, id)
	}
	for _, name := range []string{".new-1234", "notes.txt", "other.aes"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	err := p.Sweep(func(id string) bool { seen = append(seen, id); return id == "ap-KEEP" })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"ap-KEEP", "ap-OLD", "ap-OVER"}; !slices.Equal(seen, want) {
		t.Errorf("asked about %v, want %v", seen, want)
	}
	if got, want := names(t, dir), []string{"ap-KEEP.aes", "notes.txt", "other.aes"}; !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v: what is not ours stays", got, want)
	}
	if got, err := p.Get("ap-KEEP"); err != nil || string(got) != "ap-KEEP" {
		t.Errorf("Get = %q, %v", got, err)
	}
	if err := p.Sweep(func(string) bool { return true }); err != nil {
		t.Errorf("nothing to sweep: %v", err)
	}
}
