package hostfx_test

import (
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

// What can name nothing is no effect, wherever it would be.
func TestNamesOfNothing(t *testing.T) { both(t, testNamesOfNothing) }

func testNamesOfNothing(t *testing.T) {
	fx, f := granted(t, tree(t), all...)
	for _, name := range []string{"/nowhere\x00", "nowhere", "", "/" + strings.Repeat("n", 4096)} {
		if _, err := fx.ReadFile(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("reading %.20q: %v", name, err)
		}
	}
	h, err := f.Open("sub", hostfx.OpenOptions{})
	must(t, err)
	must(t, h.Close())
	gone := h.(*hostfx.Folder)
	for what, err := range map[string]error{
		"moving": f.Rename("a.txt", gone, "b.txt"), "linking": f.Link("a.txt", gone, "c.txt"), "making a directory": gone.Mkdir("d"),
	} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s in a closed folder: %v", what, err)
		}
	}
	if e := fx.Close(); len(e) > 0 {
		t.Errorf("effects = %v", e)
	}
}

// Where a root is does not depend on where the program is.
func TestRootsAreAbsolute(t *testing.T) {
	h, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "here", Path: "."}}})
	if err == nil || !strings.Contains(err.Error(), "not absolute") {
		t.Errorf("New() = %v, %v", h, err)
	}
}

// Headers that the table of TestHeadersThatAreNotTheTools has no row for.
func TestOldCookies(t *testing.T) {
	w := newWeb(t, hello)
	fx := w.open(t, only())
	r := get(v1)
	r.Header = map[string][]string{"Cookie2": {"$Version=1"}}
	if _, err := fx.HTTP(t.Context(), r); !errors.Is(err, hostfx.ErrBadRequest) || len(w.requests()) > 0 {
		t.Errorf("HTTP() = %v", err)
	}
}

// A name that leads to one address which is not granted is not trusted with another that
// is, although that one answers.
func TestOneRefusedAddressIsEnough(t *testing.T) {
	c := newTown(t, false)
	c.dns.resolves("127.0.0.2", "127.0.0.1")
	if _, err := c.open(t, "near").HTTP(t.Context(), get(c.url())); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("HTTP() = %v", err)
	}
	if _, _, asked := c.taken(); len(asked) > 0 {
		t.Errorf("%d requests", len(asked))
	}
}

// What a call depends on and may list, but not read, cannot be seen to be unchanged.
func TestChangedUnlessItMayBeRead(t *testing.T) {
	for mode, want := range map[string]error{"read": nil, "list": hostfx.ErrChanged} {
		args, err := call.Canonical([]byte(`{}`))
		must(t, err)
		g := granttest.Mint(t, call.Digest([]byte("tool")), args, call.Caps{FS: []call.FS{
			{Root: "docs", Path: "reports", Modes: []string{mode}}, {Root: "docs", Path: "reports/sub", Modes: []string{"write"}},
		}}, call.Precondition{File: within + "/a.txt", Digest: call.Digest([]byte("alpha"))})
		fx, err := host(t, tree(t)).Open(t.Context(), g)
		must(t, err)
		if err := fx.Mkdir(within + "/sub/new"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", mode, err, want)
		}
		fx.Close()
	}
}

// Base64 has two alphabets, which differ for few credentials.
func TestCredentialInBothAlphabets(t *testing.T) {
	const value = "key~?>key~?>key~?>"
	standard, forURLs := base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value))
	if !strings.ContainsAny(standard, "+/") || !strings.ContainsAny(forURLs, "-_") {
		t.Fatalf("%s and %s do not differ", standard, forURLs)
	}
	answers := map[string]error{standard: hostfx.ErrWithheld, forURLs: hostfx.ErrWithheld, value: hostfx.ErrWithheld, "none of them": nil}
	for answer, want := range answers {
		w := newWeb(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x"+answer) })
		w.opts.Secrets = func(string) (hostfx.Secret, error) { return hostfx.Secret{Value: value}, nil }
		fx := w.open(t, only(carrying("token", "bearer")))
		if _, err := fx.HTTP(t.Context(), named("token")); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", answer, err, want)
		}
	}
}

// Who does one thing often hides nothing else by that.
func TestManyOfOneKindHideNoOther(t *testing.T) {
	fx := open(t, tree(t), "read", "list")
	for range 600 {
		f, err := fx.OpenRead(within + "/a.txt")
		must(t, err)
		must(t, f.Close())
	}
	_, err := fx.List(within)
	must(t, err)
	listed := map[string]int{}
	for _, e := range fx.Close() {
		listed[e.Kind]++
	}
	if listed["fs.read"] != 500 || listed["fs.list"] != 1 || listed[""] != 1 {
		t.Errorf("listed are %v", listed)
	}
}

// Answers whose length is announced, which those of TestHTTPByteCap are not.
func TestHTTPByteCapAnnounced(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = w.Write(make([]byte, n))
	})
	caps := only()
	caps.Bounds.HTTPBytes = 100_000
	fx := w.open(t, caps)
	for _, step := range []struct {
		n    int
		want error
	}{{100_001, hostfx.ErrTooLarge}, {60_000, nil}, {40_001, hostfx.ErrTooLarge}, {40_000, nil}, {1, hostfx.ErrTooLarge}, {0, nil}} {
		a, err := fx.HTTP(t.Context(), get(v1+"?n="+strconv.Itoa(step.n)))
		if !errors.Is(err, step.want) || err == nil && len(a.Body) != step.n {
			t.Errorf("%d bytes: %v, want %v", step.n, err, step.want)
		}
	}
}

// What echoes a request by another name is refused though it is granted.
func TestTrackIsRefused(t *testing.T) {
	w := newWeb(t, hello)
	fx := w.open(t, only(func(h *call.HTTP) { h.Methods = []string{"TRACK"} }))
	if _, err := fx.HTTP(t.Context(), hostfx.Request{Method: "TRACK", URL: v1}); !errors.Is(err, hostfx.ErrNotGranted) || len(w.requests()) > 0 {
		t.Errorf("HTTP() = %v, %d requests", err, len(w.requests()))
	}
}

// Undoing depends on the call's files like any change, and nothing is shown or undone
// after the call.
func TestUndoDependsAndEnds(t *testing.T) {
	d := newDesk(t)
	id := d.do(func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "changed") })
	args, err := call.Canonical([]byte(`{}`))
	must(t, err)
	g := granttest.Mint(t, call.Digest([]byte("tool")), args, workCaps(), call.Precondition{File: "/work/sub/b.txt", Digest: call.Digest([]byte("other"))})
	fx, err := d.h.OpenFor(t.Context(), g, hostfx.Session{Call: "call-9", Owner: "sha256:me", ID: "s-mine"})
	must(t, err)
	if err := fx.Undo(id); !errors.Is(err, hostfx.ErrChanged) {
		t.Errorf("Undo() = %v, want %v", err, hostfx.ErrChanged)
	}
	if b, err := fx.Diff(id); err != nil || len(b) == 0 {
		t.Errorf("Diff() = %q, %v", b, err)
	}
	fx.Close()
	if err := fx.Undo(id); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("Undo() after the call = %v", err)
	}
	if _, err := fx.Diff(id); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("Diff() after the call = %v", err)
	}
}

// A directory is not read on once the call's time is over, although nobody has closed it.
func TestListingEndsWithTheTime(t *testing.T) {
	fx, err := host(t, tree(t)).Open(t.Context(), mint(t, call.Caps{
		FS: []call.FS{{Root: "docs", Path: "reports", Modes: all}}, Bounds: call.Bounds{TimeoutMS: 50},
	}))
	must(t, err)
	defer fx.Close()
	f, give := fx.Dirs()[0].Folder(), time.Now().Add(time.Minute)
	for err == nil && time.Now().Before(give) {
		must(t, f.Rewind())
		_, err = f.Next(1)
	}
	if !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("Next() = %v, want %v", err, hostfx.ErrClosed)
	}
}

// What stands in the place of a task begins as planned, whatever the tool says.
func TestReplacedByWhatIsDone(t *testing.T) {
	p := &planner{plan: call.Plan{{ID: "a", Status: call.TaskPlanned}}}
	fx := planning(t, p, call.Caps{Plan: true})
	if err := fx.ReplanTask(t.Context(), "a", call.Task{ID: "b", Status: call.TaskDone}); err != nil {
		t.Fatal(err)
	}
	for _, task := range p.plan {
		if task.ID == "b" && task.Status != call.TaskPlanned || task.Status == call.TaskDone {
			t.Errorf("the plan is %+v", p.plan)
		}
	}
}
