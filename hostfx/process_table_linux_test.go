package hostfx_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// Those that ended make room: first the session's own, then anybody's, the oldest first.
func TestEndedProcessesMakeRoom(t *testing.T) {
	s := newShop(t)
	var err error
	s.host, err = newHost(hostfx.Options{Launcher: probe(t), Processes: 2, AllProcesses: 3})
	must(t, err)
	t.Cleanup(func() { s.host.Close() })
	caps := call.Caps{Exec: append(exactly("/bin/true"), exactly("/bin/sleep", "1000")...)}
	run := func(fx *hostfx.Effects) string {
		id, err := fx.Start(t.Context(), hostfx.Command{Path: "/bin/true"})
		must(t, err)
		until(t, fx, id, never)
		return id
	}
	ids := func(fx *hostfx.Effects) (all []string) {
		for _, p := range fx.Processes() {
			all = append(all, p.ID)
		}
		return all
	}
	a, b := s.openFor(t, ours, caps), s.openFor(t, hostfx.Session{Owner: "o2", ID: "so"}, caps)
	run(a)
	a2 := run(a)
	a3 := run(a)
	if d := cmp.Diff([]string{a2, a3}, ids(a)); d != "" {
		t.Errorf("of the session (-want +got):\n%s", d)
	}
	b1 := run(b)
	b2 := run(b)
	if d := cmp.Diff([][]string{{a2, a3}, {b2}}, [][]string{ids(a), ids(b)}); d != "" {
		t.Errorf("the own first, not %s (-want +got):\n%s", b1, d)
	}
	for range 2 {
		_, err := b.Start(t.Context(), hostfx.Command{Path: "/bin/sleep", Args: []string{"1000"}})
		must(t, err)
	}
	if d := cmp.Diff([]string{a3}, ids(a)); d != "" || len(ids(b)) != 2 {
		t.Errorf("of all (-want +got):\n%s", d)
	}
	if _, err := a.Output(a2); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("a forgotten one: %v", err)
	}
}

// Whatever comes at once, nothing is left and nobody waits for ever.
func TestProcessesRace(t *testing.T) {
	s := newShop(t)
	sleep := hostfx.Command{Path: "/bin/sleep", Args: []string{"1000"}}
	caps := call.Caps{Exec: exactly(sleep.Path, sleep.Args...)}
	var wg sync.WaitGroup
	for i := range 3 {
		of := hostfx.Session{Owner: "o", ID: fmt.Sprint("so", i%2)}
		wg.Go(func() {
			fx := s.openFor(t, of, caps)
			for range 3 {
				id, err := fx.Start(t.Context(), sleep)
				if err != nil {
					if !errors.Is(err, hostfx.ErrNotGranted) && !errors.Is(err, hostfx.ErrEnded) && !errors.Is(err, hostfx.ErrClosed) {
						t.Errorf("Start() = %v", err)
					}
					return
				}
				var inner sync.WaitGroup
				for _, do := range []func(){func() { fx.Kill(id) }, func() { fx.Output(id) }, func() { fx.Processes() }, func() { fx.Kill(id) }} {
					inner.Go(do)
				}
				inner.Wait()
			}
		})
	}
	wg.Go(func() { s.host.EndSession("o", "so0") })
	wg.Wait()
	var all sync.WaitGroup
	fx := s.openFor(t, hostfx.Session{Owner: "o", ID: "so3"}, caps)
	for _, do := range []func(){func() { fx.Start(t.Context(), sleep) }, func() { s.host.EndOwner("o") }, func() { s.host.Close() }, func() { fx.Close() }} {
		all.Go(do)
	}
	all.Wait()
	if left := descendants(t, "sleep"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// descendants are the processes with a name that came of this one.
func descendants(t testing.TB, name string) string {
	t.Helper()
	var found []string
	self := os.Getpid()
	for _, pid := range children(self) {
		for _, all := pid, []int{pid}; len(all) > 0; all = all[1:] {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", all[0])); err == nil && bytes.Contains(b, []byte(name)) {
				found = append(found, fmt.Sprintf("%d %q", all[0], b))
			}
			all = append(all, children(all[0])...)
		}
	}
	return strings.Join(found, ", ")
}

func children(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		for word := range strings.FieldsSeq(string(b)) {
			var n int
			fmt.Sscan(word, &n)
			all = append(all, n)
		}
	}
	return all
}
