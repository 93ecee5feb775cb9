package hostfx_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// shell lets the call run anything.
func shell(c *call.Caps, _ *hostfx.Session) {
	c.Exec = []call.Exec{{Command: "/bin/sh", Args: []string{"-c", "*"}}}
	c.Bounds.TimeoutMS = 60_000
}

func sh(t testing.TB, fx *hostfx.Effects, script string) error {
	t.Helper()
	ran, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/sh", Args: []string{"-c", "#\n" + script}, Dir: "/work"})
	if err == nil && ran.Exit != 0 {
		t.Fatalf("exit %d: %s", ran.Exit, ran.Stderr)
	}
	return err
}

// What a command changes is undone like all else, with what the call changes itself.
func TestUndoCommands(t *testing.T) {
	d := newDesk(t)
	before := d.state()
	fx, id := d.open(shell)
	must(t, put(fx, "/work/a.txt", "first"))
	must(t, sh(t, fx, `
echo more >>a.txt
echo new >sub/new
mkdir -p made/in
mv sub/b.txt made/in/b.txt
rm -r sub/deep empty
: >../more/d.txt
`))
	must(t, fx.Rename("/work/made", "/work/moved"))
	must(t, sh(t, fx, `echo again >moved/in/c.txt`))
	effects := fx.Close()
	var records []string
	for _, e := range effects {
		if e.Kind == "workspace.record" {
			records = append(records, e.Target+" "+e.Code)
		}
	}
	if diff := cmp.Diff([]string{"/work ok", "/more ok"}, records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if b, err := os.ReadFile(d.dir + "/work/moved/in/c.txt"); err != nil || string(b) != "again\n" {
		t.Fatalf("the commands did nothing: %q, %v", b, err)
	}
	_, err := d.undo(id)
	must(t, err)
	if diff := cmp.Diff(before, d.state()); diff != "" {
		t.Errorf("undone (-before +now):\n%s", diff)
	}
}

// A command does not start where not all that it may change can be put back.
func TestCommandsNeedTheirTrees(t *testing.T) {
	d := newDesk(t)
	must(t, os.Truncate(d.dir+"/more/d.txt", 64<<20+1))
	fx, _ := d.open(shell)
	if err := sh(t, fx, "echo x >ran"); !errors.Is(err, hostfx.ErrQuota) {
		t.Errorf("Run = %v", err)
	}
	effects := fx.Close()
	if last := effects[len(effects)-1]; last.Kind != "exec" || last.Code != "over_cap" {
		t.Errorf("effect %+v", last)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "work/ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
	fx, _ = d.open(shell, func(c *call.Caps, _ *hostfx.Session) { c.FS[1].Modes = []string{"read", "list"} })
	if err := sh(t, fx, "echo x >ran"); err != nil { // it cannot change what is too large
		t.Errorf("Run = %v", err)
	}
	fx.Close()
}
