package sandbox

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// An entry of the cache is, one after the other: entryHead, the key (32 bytes),
// an HMAC-SHA256 of everything else (32 bytes), and the artefact. Its name is
// the key in hex and entrySuffix.
const (
	entryHead   = "callgate compiled module 1\n"
	entrySuffix = ".module"
	entryBefore = len(entryHead) + 2*sha256.Size // the artefact
)

// minCacheKey is the size of the shortest key in bytes.
const minCacheKey = 32

// defaultCacheBytes is the size of the cache if nobody states one.
const defaultCacheBytes = 1 << 30

// staleAfter is when a file that was never finished is one of a process that died.
const staleAfter = time.Hour

// cache keeps artefacts between processes. They are native code: none is used
// that was not written with our key. A nil cache is empty and stays it.
type cache struct {
	dir     string
	secret  []byte
	version string // of wazero
	most    int64  // bytes
	now     func() time.Time
}

// openCache returns nil for options without a directory.
func openCache(o Options, version string) (*cache, error) {
	if o.CacheBytes < 0 {
		return nil, fmt.Errorf("CacheBytes is %d", o.CacheBytes)
	}
	if o.CacheDir == "" {
		return nil, nil
	}
	if len(o.CacheKey) < minCacheKey {
		return nil, fmt.Errorf("cache directory: CacheKey has %d bytes, and at least %d are needed", len(o.CacheKey), minCacheKey)
	}
	if err := private(o.CacheDir); err != nil {
		return nil, fmt.Errorf("cache directory: %w", err)
	}
	return &cache{dir: o.CacheDir, secret: slices.Clone(o.CacheKey), version: version, most: cmp.Or(o.CacheBytes, defaultCacheBytes), now: o.Now}, nil
}

// key is what an artefact depends on. The module is the rewritten one, so that
// it also names the version of the metering.
func (c *cache) key(wasm []byte) []byte {
	h := sha256.New()
	for _, s := range []string{entryHead, c.version, runtime.GOOS, runtime.GOARCH, string(binary.LittleEndian.AppendUint64(nil, processor()))} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	h.Write(wasm)
	return h.Sum(nil)
}

func (c *cache) name(key []byte) string {
	return filepath.Join(c.dir, hex.EncodeToString(key)+entrySuffix)
}

func (c *cache) mac(key, artefact []byte) []byte {
	h := hmac.New(sha256.New, c.secret)
	h.Write([]byte(entryHead))
	h.Write(key)
	h.Write(artefact)
	return h.Sum(nil)
}

// get returns the artefact of wasm, or nil if there is none that we wrote.
func (c *cache) get(wasm []byte) []byte {
	if c == nil {
		return nil
	}
	key := c.key(wasm)
	b, err := readEntry(c.name(key), int64(entryBefore)+maxArtefact(len(wasm)))
	if err != nil {
		return nil
	}
	rest, ours := bytes.CutPrefix(b, []byte(entryHead))
	rest, same := bytes.CutPrefix(rest, key)
	if !ours || !same || len(rest) < sha256.Size {
		return nil
	}
	artefact := rest[sha256.Size:]
	if !hmac.Equal(rest[:sha256.Size], c.mac(key, artefact)) {
		return nil
	}
	_ = os.Chtimes(c.name(key), c.now(), c.now()) // it was used last
	return artefact
}

// put keeps an artefact, in place of whatever has its name. It is not an error
// if that fails: it is then compiled again.
func (c *cache) put(wasm, artefact []byte) {
	if c == nil || int64(entryBefore+len(artefact)) > c.most {
		return
	}
	key := c.key(wasm)
	f, err := os.CreateTemp(c.dir, "*.tmp") // mode 0600
	if err != nil {
		return
	}
	_, err = f.Write(slices.Concat([]byte(entryHead), key, c.mac(key, artefact), artefact))
	if err = errors.Join(err, f.Close(), os.Chtimes(f.Name(), c.now(), c.now())); err == nil {
		err = c.replace(f.Name(), c.name(key))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return
	}
	c.trim(c.name(key))
}

// replace also takes away a directory that has the name.
func (c *cache) replace(from, to string) error {
	if info, err := os.Lstat(to); err == nil && info.IsDir() {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	return os.Rename(from, to)
}

// trim removes what was used longest ago until the rest fits, and what a process
// that died left. The entry called spared stays.
func (c *cache) trim(spared string) {
	type entry struct {
		name string
		info fs.FileInfo
	}
	var entries []entry
	var size int64
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, d := range found {
		name := filepath.Join(c.dir, d.Name())
		info, err := d.Info()
		switch {
		case err != nil: // another process removed it
		case strings.HasSuffix(name, ".tmp") && info.Mode().IsRegular() && c.now().Sub(info.ModTime()) > staleAfter:
			_ = os.Remove(name)
		case strings.HasSuffix(name, entrySuffix) && info.Mode().IsRegular():
			size += info.Size()
			entries = append(entries, entry{name, info})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(a.info.ModTime().Compare(b.info.ModTime()), cmp.Compare(a.name, b.name))
	})
	for _, e := range entries {
		if size <= c.most {
			return
		}
		if e.name != spared && os.Remove(e.name) == nil {
			size -= e.info.Size()
		}
	}
}

// readEntry reads a regular file of ours of at most so many bytes.
func readEntry(name string, most int64) ([]byte, error) {
	f, err := openEntry(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !ours(info) || info.Size() > most {
		return nil, fs.ErrInvalid
	}
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(f, most+1)); err != nil || int64(b.Len()) > most {
		return nil, errors.Join(fs.ErrInvalid, err)
	}
	return b.Bytes(), nil
}

// private makes dir if it is missing, and checks that it is ours alone.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if perm := info.Mode().Perm(); perm != 0o700 {
		return fmt.Errorf("%s has mode %#o, want 0700", dir, perm)
	}
	if !ours(info) {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}
