package hostfx_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

var reads = call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}}

func TestContent(t *testing.T) { both(t, testContent) }

func testContent(t *testing.T) {
	dir := tree(t)
	must(t, os.WriteFile(filepath.Join(dir, "docs/reports/most"), make([]byte, 16<<20), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "docs/reports/more"), make([]byte, 16<<20+1), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "docs/reports/empty"), nil, 0o600))
	fs := func(path string, modes ...string) call.Caps {
		return call.Caps{FS: []call.FS{{Root: "docs", Path: path, Modes: modes}}}
	}
	alpha := call.Digest([]byte("alpha"))
	for _, tt := range []struct {
		name, file string
		caps       call.Caps // zero: reads
		want       string
		err        call.Code
	}{
		{name: "file", file: "/docs/reports/a.txt", want: alpha},
		{name: "deeper", file: "/docs/reports/sub/b.txt", want: call.Digest([]byte("beta"))},
		{name: "link inside", file: "/docs/reports/in", want: call.Digest([]byte("beta"))},
		{name: "empty is not absent", file: "/docs/reports/empty", want: call.Digest(nil)},
		{name: "as large as may be", file: "/docs/reports/most", want: call.Digest(make([]byte, 16<<20))},
		{name: "missing", file: "/docs/reports/none", want: call.Absent},
		{name: "in a missing directory", file: "/docs/reports/none/a.txt", want: call.Absent},
		{name: "dangling link", file: "/docs/reports/dangling", want: call.Absent},
		{name: "the deepest entry", file: "/docs/reports/a.txt", caps: call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}, reads.FS[0]}}, want: alpha},
		{name: "an entry above", file: "/docs/reports/a.txt", caps: fs(".", "read"), want: alpha},

		{name: "a byte too large", file: "/docs/reports/more", err: call.CodePreconditionUnavailable},
		{name: "link out", file: "/docs/reports/out", err: call.CodePreconditionUnavailable},
		{name: "directory link out", file: "/docs/reports/updir/secret.txt", err: call.CodePreconditionUnavailable},
		{name: "link loop", file: "/docs/reports/loop", err: call.CodePreconditionUnavailable},
		{name: "FIFO", file: "/docs/reports/fifo", err: call.CodePreconditionUnavailable},
		{name: "directory", file: "/docs/reports/sub", err: call.CodePreconditionUnavailable},
		{name: "the granted directory", file: "/docs/reports", err: call.CodePreconditionUnavailable},
		{name: "below a file", file: "/docs/reports/a.txt/x", err: call.CodePreconditionUnavailable},
		{name: "beside the grant", file: "/docs/secret.txt", err: call.CodePreconditionUnavailable},
		{name: "a longer name", file: "/docs/reports2/a.txt", err: call.CodePreconditionUnavailable},
		{name: "nothing granted", file: "/docs/reports/a.txt", caps: call.Caps{Log: true}, err: call.CodePreconditionUnavailable},
		{name: "only to be listed", file: "/docs/reports/a.txt", caps: fs("reports", "list"), err: call.CodePreconditionUnavailable},
		{name: "no such root", file: "/none/a.txt", caps: call.Caps{FS: []call.FS{{Root: "none", Path: ".", Modes: []string{"read"}}}}, err: call.CodeRootUnavailable},
		{name: "a missing directory is granted", file: "/docs/none/a.txt", caps: fs("none", "read"), err: call.CodeRootUnavailable},
		{name: "a link is granted", file: "/docs/alias/a.txt", caps: fs("alias", "read"), err: call.CodePathIsLink},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if cmp.Equal(tt.caps, call.Caps{}) {
				tt.caps = reads
			}
			got, err := host(t, dir).Content(t.Context(), tt.caps, tt.file)
			if got != tt.want || call.CodeOf(err, "") != tt.err || (err != nil) != (tt.err != "") {
				t.Errorf("Content() = %q, %v, want %q, %s", got, err, tt.want, tt.err)
			}
		})
	}
	var none *hostfx.Host
	if _, err := none.Content(t.Context(), reads, "/docs/reports/a.txt"); call.CodeOf(err, "") != call.CodeRootUnavailable {
		t.Errorf("a nil Host: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := host(t, dir).Content(ctx, reads, "/docs/reports/a.txt"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// dependent is a call that may read reports and send to the server, and depends on
// what is given.
func dependent(t *testing.T, dir string, w *web, depends ...call.Precondition) *hostfx.Effects {
	t.Helper()
	o := w.opts
	o.Roots = []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "docs")}}
	h, err := newHost(o)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	caps := only(func(e *call.HTTP) { e.Methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "REPORT"} })
	caps.FS = reads.FS
	args, err := call.Canonical([]byte("{}"))
	must(t, err)
	fx, err := h.Open(t.Context(), granttest.Mint(t, call.Digest([]byte("tool")), args, caps, depends...))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

// Between the decision and the first request that can change something, what the call
// depends on must not change.
func TestChangedFile(t *testing.T) { both(t, testChangedFile) }

func testChangedFile(t *testing.T) {
	const name = "docs/reports/a.txt"
	alpha := call.Digest([]byte("alpha"))
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	replace := func(with func(string) error) func(string) error {
		return func(path string) error { return errors.Join(os.Remove(path), with(path)) }
	}
	for _, tt := range []struct {
		name   string
		digest string
		change func(path string) error
		want   error
	}{
		{"untouched", alpha, nil, nil},
		{"written as it was", alpha, write("alpha"), nil},
		{"written", alpha, write("alphb"), hostfx.ErrChanged},
		{"longer", alpha, write("alpha\n"), hostfx.ErrChanged},
		{"emptied", alpha, write(""), hostfx.ErrChanged},
		{"removed", alpha, os.Remove, hostfx.ErrChanged},
		{"a FIFO now", alpha, replace(func(p string) error { return syscall.Mkfifo(p, 0o600) }), hostfx.ErrChanged},
		{"a directory now", alpha, replace(func(p string) error { return os.Mkdir(p, 0o700) }), hostfx.ErrChanged},
		{"a link out now", alpha, replace(func(p string) error { return os.Symlink("../secret.txt", p) }), hostfx.ErrChanged},
		{"was not there, and is", call.Absent, nil, hostfx.ErrChanged},
		{"was not there, and is empty", call.Absent, write(""), hostfx.ErrChanged},
		{"was not there, and is not", call.Absent, os.Remove, nil},
		{"was empty, and is not there", call.Digest(nil), os.Remove, hostfx.ErrChanged},
		{"no digest was taken", "", nil, hostfx.ErrChanged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, w := tree(t), newWeb(t, hello)
			fx := dependent(t, dir, w, call.Precondition{File: "/" + name, Digest: tt.digest})
			path := filepath.Join(dir, name)
			if tt.change != nil {
				must(t, tt.change(path))
			}
			if _, err := fx.HTTP(t.Context(), get(v1)); err != nil {
				t.Errorf("a request that changes nothing: %v", err)
			}
			wants := []call.Effect{{Kind: "http.get", Within: api + ":443", Target: v1, Code: "ok", BytesIn: 5}}
			for _, method := range []string{"POST", "DELETE", "REPORT"} {
				if _, err := fx.HTTP(t.Context(), hostfx.Request{Method: method, URL: v1}); !errors.Is(err, tt.want) {
					t.Errorf("%s = %v, want %v", method, err, tt.want)
				}
				// What was found once holds for the call: its own changes are none, and what
				// was put back was away.
				must(t, os.RemoveAll(path))
				if tt.want == nil {
					must(t, os.WriteFile(path, []byte("its own"), 0o600))
				} else if tt.digest != call.Absent {
					must(t, os.WriteFile(path, []byte("alpha"), 0o600))
				}
				e := call.Effect{Kind: map[string]string{"POST": "http.post", "DELETE": "http.delete", "REPORT": "http.other"}[method], Within: api + ":443", Target: v1, Code: "ok", BytesIn: 5}
				if tt.want != nil {
					e.Code, e.BytesIn = "changed", 0
				}
				wants = append(wants, e)
			}
			if d := cmp.Diff(wants, happened(t, fx.Close())); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
			if n := len(w.requests()); n != 4 && tt.want == nil || n != 1 && tt.want != nil {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

// A file that the call may not read cannot be seen to be unchanged.
func TestChangedUnreadable(t *testing.T) {
	w := newWeb(t, hello)
	for _, name := range []string{"/docs/secret.txt", "/docs/reports", "/none/a.txt"} {
		fx := dependent(t, tree(t), w, call.Precondition{File: name, Digest: call.Absent})
		if _, err := fx.HTTP(t.Context(), hostfx.Request{Method: "POST", URL: v1}); !errors.Is(err, hostfx.ErrChanged) {
			t.Errorf("%s: %v, want %v", name, err, hostfx.ErrChanged)
		}
	}
}

// Of many requests at once, all go out or none does.
func TestChangedAtOnce(t *testing.T) {
	dir, w := tree(t), newWeb(t, hello)
	must(t, os.WriteFile(filepath.Join(dir, "docs/reports/large"), bytes.Repeat([]byte("x"), 4<<20), 0o600))
	for _, digest := range []string{call.Digest(bytes.Repeat([]byte("x"), 4<<20)), call.Absent} {
		fx := dependent(t, dir, w, call.Precondition{File: "/docs/reports/large", Digest: digest})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := fx.HTTP(t.Context(), hostfx.Request{Method: "PUT", URL: v1})
				if (err == nil) != (digest != call.Absent) || err != nil && !errors.Is(err, hostfx.ErrChanged) {
					t.Errorf("PUT = %v", err)
				}
			})
		}
		wg.Wait()
	}
	if n := len(w.requests()); n != 8 {
		t.Errorf("the server was asked %d times, want 8", n)
	}
}

// Whatever can change something says what it must be changed from; the tool can
// neither leave that out nor say something else.
func TestEntityTag(t *testing.T) {
	dir, w := tree(t), newWeb(t, hello)
	tag := call.Precondition{ETag: `"v7"`}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "REPORT"} {
		fx := dependent(t, dir, w, tag)
		if _, err := fx.HTTP(t.Context(), hostfx.Request{Method: method, URL: v1, Header: http.Header{"If-None-Match": {"*"}}}); err != nil {
			t.Fatal(err)
		}
		var want []string
		if method != "GET" && method != "HEAD" {
			want = []string{`"v7"`}
		}
		seen := w.requests()
		if d := cmp.Diff(want, seen[len(seen)-1].Header["If-Match"]); d != "" {
			t.Errorf("%s: If-Match (-want +got):\n%s", method, d)
		}
	}
	asked := len(w.requests())
	for _, name := range []string{"If-Match", "if-match", "IF-MATCH", "If_Match", "if.match"} {
		fx := dependent(t, dir, w, tag)
		_, err := fx.HTTP(t.Context(), hostfx.Request{Method: "PUT", URL: v1, Header: http.Header{name: {`"v8"`}}})
		if !errors.Is(err, hostfx.ErrBadRequest) {
			t.Errorf("%s: %v, want %v", name, err, hostfx.ErrBadRequest)
		}
		if d := cmp.Diff([]call.Effect{{Kind: "http.put", Within: api + ":443", Target: v1, Code: "refused"}}, happened(t, fx.Close())); d != "" {
			t.Error(d)
		}
	}
	if n := len(w.requests()); n != asked {
		t.Errorf("the server was asked %d times more", n-asked)
	}
	// Without a precondition the header is the tool's.
	fx := dependent(t, dir, w)
	if _, err := fx.HTTP(t.Context(), hostfx.Request{Method: "PUT", URL: v1, Header: http.Header{"If-Match": {`"mine"`}}}); err != nil {
		t.Fatal(err)
	}
	seen := w.requests()
	if got := seen[len(seen)-1].Header.Get("If-Match"); got != `"mine"` {
		t.Errorf("If-Match: %s", got)
	}
}
