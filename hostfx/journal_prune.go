package hostfx

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

const (
	pruneEvery = time.Hour   // how often it is looked whether calls are too old
	stuckFor   = time.Second // how long it is not tried again to make room, after there was none
)

// keptCall is one call's file that is in the journal.
type keptCall struct {
	name string
	size int64
	time time.Time // of the call; zero if the file cannot be read
	uses []string  // contents
}

// measure counts what is in the directory, and removes what a crash left.
func (j *journal) measure() error {
	total := int64(0)
	err := j.walk(func(name string, size int64) error {
		if strings.HasPrefix(name, "objects/new-") {
			return j.dir.Remove(name)
		}
		total += size
		return nil
	})
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.bytes = total
	j.mu.Unlock()
	return j.prune(0)
}

// walk visits each regular file below objects and calls.
func (j *journal) walk(visit func(name string, size int64) error) error {
	for _, top := range []string{"objects", "calls"} {
		err := fs.WalkDir(j.dir.FS(), top, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			i, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			return visit(name, i.Size())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// room sees to it that so much more can be stored, at the cost of the oldest calls. It
// must be called with gate held for reading.
func (j *journal) room(size int64) error {
	if j.fits(size) {
		return nil
	}
	full := fmt.Errorf("%w: the journal is full", ErrQuota)
	j.mu.Lock()
	stuck := j.now().Sub(j.stuck) < stuckFor
	j.mu.Unlock()
	if stuck {
		return full
	}
	j.gate.RUnlock()
	err := j.prune(max(size, j.most/4))
	j.gate.RLock()
	if err != nil || j.fits(size) {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stuck = j.now()
	return full
}

func (j *journal) fits(size int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes+size <= j.most
}

// prune removes calls that are too old, unless that was looked at a while ago, and with
// need the oldest ones until there is room for so much; and then the contents that no
// call has any more. Those of calls under way stay.
func (j *journal) prune(need int64) error {
	j.mu.Lock()
	due := j.now().Sub(j.pruned) >= pruneEvery
	j.mu.Unlock()
	if !due && need == 0 {
		return nil
	}
	j.gate.Lock()
	defer j.gate.Unlock()
	calls, err := j.calls()
	if err != nil {
		return err
	}
	gone := 0
	for gone < len(calls) && j.now().Sub(calls[gone].time) > j.age {
		gone++
	}
	if err := j.discard(calls[:gone]); err != nil {
		return err
	}
	calls = calls[gone:]
	if err := j.sweep(calls); err != nil {
		return err
	}
	for need > 0 && len(calls) > 0 && !j.fits(need) {
		some := (len(calls) + 7) / 8
		if err := j.discard(calls[:some]); err != nil {
			return err
		}
		calls = calls[some:]
		if err := j.sweep(calls); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pruned = j.now()
	return nil
}

// calls are those that are not under way, the oldest first.
func (j *journal) calls() ([]keptCall, error) {
	live := map[string]bool{}
	j.mu.Lock()
	for e := range j.live {
		live[e.fileName()] = true
	}
	j.mu.Unlock()
	var out []keptCall
	err := j.walk(func(name string, size int64) error {
		if !strings.HasPrefix(name, "calls/") || live[name] {
			return nil
		}
		k := keptCall{name: name, size: size}
		if c, err := j.open(name); err == nil { // else it is of no use to anybody
			k.time = c.time
			for _, e := range c.names {
				for _, i := range []image{e.before, e.after} {
					if i.Stored {
						k.uses = append(k.uses, i.Digest)
					}
				}
			}
		}
		out = append(out, k)
		return nil
	})
	slices.SortFunc(out, func(a, b keptCall) int { return a.time.Compare(b.time) })
	return out, err
}

func (j *journal) discard(calls []keptCall) error {
	for _, k := range calls {
		if err := j.forget(k.name, k.size); err != nil {
			return err
		}
	}
	return nil
}

// forget removes one file.
func (j *journal) forget(name string, size int64) error {
	if err := j.dir.Remove(name); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bytes -= size
	return nil
}

// sweep removes the contents that neither these calls nor those under way have.
func (j *journal) sweep(calls []keptCall) error {
	used := map[string]bool{}
	for _, k := range calls {
		for _, digest := range k.uses {
			used[digest] = true
		}
	}
	j.mu.Lock()
	for e := range j.live {
		for digest := range e.kept {
			used[digest] = true
		}
	}
	j.mu.Unlock()
	return j.walk(func(name string, size int64) error {
		if digest := name[strings.LastIndexByte(name, '/')+1:]; strings.HasPrefix(name, "objects/") && !used[digest] {
			return j.forget(name, size)
		}
		return nil
	})
}

// open reads a call's file.
func (j *journal) open(name string) (*journaled, error) {
	if i, err := j.dir.Lstat(name); err != nil || !i.Mode().IsRegular() {
		return nil, errors.Join(errCorrupt, err)
	}
	f, err := j.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := readJournaled(f)
	if err == nil && "calls/"+c.call+".jsonl" != name {
		err = errors.New("it is another call's")
	}
	if err != nil {
		return nil, errors.Join(errCorrupt, err)
	}
	return c, nil
}
