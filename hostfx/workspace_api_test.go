package hostfx_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// A journal is one host's, closed to others, and out of reach of every grant.
func TestJournalIsApart(t *testing.T) {
	d := newDesk(t)
	link := filepath.Join(d.dir, "link")
	must(t, os.Symlink(d.dir+"/work", link))
	must(t, os.Mkdir(d.dir+"/open", 0o700))
	must(t, os.Chmod(d.dir+"/open", 0o750))
	for _, tt := range []struct {
		name string
		o    func(*hostfx.Options)
		want string
	}{
		{"relative", func(o *hostfx.Options) { o.Journal = "journal" }, "not absolute"},
		{"in use", func(*hostfx.Options) {}, "another process uses it"},
		{"open to others", func(o *hostfx.Options) { o.Journal = d.dir + "/open" }, "chmod 700"},
		{"in a root", func(o *hostfx.Options) { o.Journal = d.dir + "/work/journal" }, "lie in each other"},
		{"in a root by a link", func(o *hostfx.Options) { o.Journal = link + "/journal" }, "lie in each other"},
		{"around a root", func(o *hostfx.Options) { o.Journal = d.dir; must(t, os.Chmod(d.dir, 0o700)) }, "lie in each other"},
		{"a file", func(o *hostfx.Options) { o.Journal = d.dir + "/more/d.txt" }, "not a directory"},
		{"no bytes", func(o *hostfx.Options) { o.Journal, o.JournalBytes = d.dir+"/other", -1 }, "negative"},
		{"no time", func(o *hostfx.Options) { o.Journal, o.JournalAge = d.dir+"/other", -1 }, "negative"},
	} {
		o := d.o
		tt.o(&o)
		if _, err := hostfx.New(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: New = %v, want something about %q", tt.name, err, tt.want)
		}
	}
	d.do(busy)
	must(t, filepath.WalkDir(d.o.Journal, func(path string, e fs.DirEntry, err error) error {
		i, infoErr := e.Info()
		if err == nil && infoErr == nil && i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: others can use it: %s", path, i.Mode())
		}
		return errors.Join(err, infoErr)
	}))
}

// Without a journal, or in nobody's session, no call starts that was granted a workspace.
func TestWorkspaceUnavailable(t *testing.T) {
	d, none := newDesk(t), newDesk(t, func(o *hostfx.Options) { o.Journal = "" })
	mine := hostfx.Session{Call: "c", Owner: "me", ID: "s"}
	for _, tt := range []struct {
		name string
		h    *hostfx.Host
		s    hostfx.Session
		want call.Code
	}{
		{"a journal and a session", d.h, mine, ""},
		{"no journal", none.h, mine, call.CodeWorkspaceUnavailable},
		{"no session", d.h, hostfx.Session{}, call.CodeWorkspaceUnavailable},
		{"no id", d.h, hostfx.Session{Owner: "me", ID: "s"}, call.CodeWorkspaceUnavailable},
		{"an id that is a path", d.h, hostfx.Session{Call: "../c", Owner: "me", ID: "s"}, call.CodeWorkspaceUnavailable},
		{"no owner", d.h, hostfx.Session{Call: "c", ID: "s"}, call.CodeWorkspaceUnavailable},
		{"no session's id", d.h, hostfx.Session{Call: "c", Owner: "me"}, call.CodeWorkspaceUnavailable},
	} {
		fx, err := tt.h.OpenFor(t.Context(), mint(t, workCaps()), tt.s)
		if call.CodeOf(err, "") != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil {
			fx.Close()
		}
	}
	var nobody *hostfx.Host
	if _, err := nobody.OpenFor(t.Context(), mint(t, call.Caps{Workspace: true}), mine); call.CodeOf(err, "") != call.CodeWorkspaceUnavailable {
		t.Errorf("no host: %v", err)
	}
}

// A call that was granted no workspace leaves nothing in the journal, and has none.
func TestNoWorkspace(t *testing.T) {
	d := newDesk(t)
	fx, _ := d.open(func(c *call.Caps, _ *hostfx.Session) { c.Workspace = false })
	must(t, busy(fx))
	if w, err := fx.Workspace(); w != nil || !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("Workspace = %v, %v", w, err)
	}
	effects := fx.Close()
	want := call.Effect{Kind: "workspace", Code: "refused"}
	if diff := cmp.Diff(want, happened(t, effects)[len(effects)-1]); diff != "" {
		t.Errorf("effect (-want +got):\n%s", diff)
	}
	if _, err := fx.Workspace(); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("Workspace after Close = %v", err)
	}
	for _, name := range []string{"calls", "objects"} {
		if e, err := os.ReadDir(filepath.Join(d.o.Journal, name)); err != nil || len(e) > 0 {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
}

func TestResolvePath(t *testing.T) { both(t, testResolvePath) }

func testResolvePath(t *testing.T) {
	d := newDesk(t)
	must(t, os.Symlink("../more", filepath.Join(d.dir, "work/out")))
	fx, _ := d.open(func(c *call.Caps, _ *hostfx.Session) {
		c.FS = []call.FS{{Root: "work", Path: "sub", Modes: []string{"read"}}, {Root: "work", Path: ".", Modes: []string{"write"}}}
	})
	w, err := fx.Workspace()
	must(t, err)
	if w.Dir() != "/work" {
		t.Errorf("Dir = %q", w.Dir())
	}
	refusals := 0
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{"a.txt", "/work/a.txt", nil},
		{"./sub//b.txt", "/work/sub/b.txt", nil},
		{"/work/a.txt", "/work/a.txt", nil},
		{"/work/./sub/", "/work/sub", nil},
		{"nothing/here", "/work/nothing/here", nil},
		{"alias/b.txt", "/work/alias/b.txt", nil},
		{".", "/work", nil},
		{"...", "/work/...", nil},
		{"..", "", hostfx.ErrNotGranted},
		{"sub/../a.txt", "", hostfx.ErrNotGranted},
		{"/work/sub/../../work/a.txt", "", hostfx.ErrNotGranted},
		{"/more/d.txt", "", hostfx.ErrNotGranted},
		{"/etc/passwd", "", hostfx.ErrNotGranted},
		{"out", "", hostfx.ErrNotGranted},
		{"out/d.txt", "", hostfx.ErrNotGranted},
		{"out/nothing", "", hostfx.ErrNotGranted},
		{"", "", fs.ErrInvalid},
		{"a\x00b", "", fs.ErrInvalid},
		{strings.Repeat("x", 5000), "", fs.ErrInvalid},
	} {
		got, err := w.ResolvePath(tt.name)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ResolvePath(%.40q) = %q, %v, want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
		if tt.err == hostfx.ErrNotGranted {
			refusals++
		}
	}
	effects := fx.Close()
	if len(effects) != refusals {
		t.Errorf("%d effects for %d refusals", len(effects), refusals)
	}
	for _, e := range effects {
		if e.Kind != "fs.stat" || e.Code != "refused" {
			t.Errorf("effect %+v", e)
		}
	}
	if _, err := w.ResolvePath("a.txt"); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestWorkspaceDir(t *testing.T) {
	d := newDesk(t)
	for _, tt := range []struct {
		fs   []call.FS
		want string
	}{
		{nil, ""},
		{[]call.FS{{Root: "more", Path: ".", Modes: []string{"read"}}, {Root: "work", Path: "sub", Modes: []string{"write"}}}, "/work/sub"},
		{[]call.FS{{Root: "more", Path: ".", Modes: []string{"write"}}, {Root: "work", Path: "sub", Modes: []string{"write"}}}, "/more"},
		{[]call.FS{{Root: "more", Path: ".", Modes: []string{"read"}}, {Root: "work", Path: "sub", Modes: []string{"append"}}}, "/more"},
	} {
		fx, _ := d.open(func(c *call.Caps, _ *hostfx.Session) { c.FS = tt.fs })
		w, err := fx.Workspace()
		must(t, err)
		if w.Dir() != tt.want {
			t.Errorf("Dir = %q, want %q", w.Dir(), tt.want)
		}
	}
}

// What something else changes, after it was said that it will, is the call's change.
func TestRecordEdit(t *testing.T) { both(t, testRecordEdit) }

func testRecordEdit(t *testing.T) {
	for _, name := range []string{"/work", "/work/sub", "/work/alias", "/work/alias/."} {
		d := newDesk(t)
		before := d.state()
		id := d.do(func(fx *hostfx.Effects) error {
			err := record(name)(fx)
			d.write("work/sub/b.txt", "command")
			d.write("work/sub/made", "made")
			return errors.Join(err, os.MkdirAll(d.dir+"/work/sub/new/dir", 0o755), os.RemoveAll(d.dir+"/work/sub/deep"), os.Remove(d.dir+"/work/sub/link"))
		})
		_, err := d.undo(id)
		must(t, err)
		if diff := cmp.Diff(before, d.state()); diff != "" {
			t.Errorf("%s: undone (-before +now):\n%s", name, diff)
		}
	}
	d := newDesk(t)
	must(t, unix.Mkfifo(d.dir+"/work/sub/pipe", 0o600))
	fx, _ := d.open(func(c *call.Caps, _ *hostfx.Session) { c.FS[1].Modes = []string{"read"} })
	w, err := fx.Workspace()
	must(t, err)
	must(t, os.Symlink("/a.txt", d.dir+"/work/absolute")) // which is no way to say /work/a.txt
	for _, name := range []string{"/work", "/work/sub/pipe", "/work/absolute", "/more/d.txt", "/etc/passwd"} {
		if err := w.RecordEdit(name); !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("RecordEdit(%s) = %v", name, err)
		}
	}
	if err := w.RecordEdit("/work/a.txt"); err != nil {
		t.Error(err)
	}
	var codes []string
	for _, e := range fx.Close() {
		codes = append(codes, e.Kind+" "+e.Code)
	}
	refused := "workspace.record refused"
	if diff := cmp.Diff([]string{refused, refused, refused, refused, refused, "workspace.record ok"}, codes); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// A pipe could not be put back, so it is not taken away.
func TestUnlikeIsNotChanged(t *testing.T) {
	d := newDesk(t)
	must(t, unix.Mkfifo(d.dir+"/work/sub/pipe", 0o600))
	fx, _ := d.open()
	for name, err := range map[string]error{
		"remove":      fx.Remove("/work/sub/pipe"),
		"rename":      fx.Rename("/work/sub/pipe", "/work/pipe"),
		"rename over": fx.Rename("/work/a.txt", "/work/sub/pipe"),
		"rename tree": fx.Rename("/work/sub", "/work/moved"),
	} {
		if !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if i, err := os.Lstat(d.dir + "/work/sub/pipe"); err != nil || i.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("the pipe: %v", err)
	}
}
