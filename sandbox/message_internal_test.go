package sandbox

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// A large directory is listed with looks at the clock in between, and as it is.
func TestListingLooksAtTheClock(t *testing.T) {
	files := fstest.MapFS{}
	for n := range 10 * maxSome {
		files[strconv.Itoa(n)+" \xff"] = &fstest.MapFile{}
	}
	files["folder/x"] = &fstest.MapFile{}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	b, err := listing(entries, 1<<20, func() { looks++ })
	if err != nil || looks < 10 {
		t.Errorf("%v, %d looks", err, looks)
	}
	if got := strings.Count(string(b), `"dir":false`); got != 10*maxSome {
		t.Errorf("%d files are listed", got)
	}
	if s := string(b); !strings.HasPrefix(s, "[{\"name\":\"0 \uFFFD\",\"dir\":false},{") || !strings.HasSuffix(s, `{"name":"folder","dir":true}]`) {
		t.Errorf("it begins %.60s and ends %s", s, s[len(s)-60:])
	}
	looks = 0
	if _, err := listing(entries, 1000, func() { looks++ }); !errors.Is(err, hostfx.ErrTooLarge) || looks != 1 {
		t.Errorf("with room for 1000 bytes: %v, %d looks", err, looks)
	}
	if b, err := listing(nil, 0, func() {}); string(b) != "[]" || err != nil {
		t.Errorf("of nothing: %s, %v", b, err)
	}
}

// Numbers are for ever.
func TestNumber(t *testing.T) {
	for err, want := range map[error]uint32{
		nil: 0, errMalformed: 2, hostfx.ErrBadRequest: 2, fs.ErrInvalid: 2, hostfx.ErrTask: 2, &call.Error{Code: call.CodeFactsUnparsable}: 2,
		hostfx.ErrNotGranted: 3, fs.ErrNotExist: 4, hostfx.ErrNoTask: 4, hostfx.ErrTooLarge: 5, errors.New("other"): 6, hostfx.ErrNoAnswer: 6,
		hostfx.ErrPlanUnavailable: 6, fs.ErrPermission: 6, hostfx.ErrRedirect: 7, hostfx.ErrTooManyOpen: 8, hostfx.ErrTooManyProcesses: 8, hostfx.ErrClosed: 9,
		hostfx.ErrWithheld: 10, hostfx.ErrQuota: 11, hostfx.ErrPlanFull: 11, hostfx.ErrChanged: 12, hostfx.ErrEnded: 13,
		fs.ErrExist: 14, syscall.EEXIST: 14, syscall.ENOTEMPTY: 14, hostfx.ErrTaskThere: 14, hostfx.ErrTaskStatus: 15,
	} {
		if got := number(err); got != want {
			t.Errorf("%v is the number %d, want %d", err, got, want)
		}
		if err != nil && number(&fs.PathError{Err: err}) != want {
			t.Errorf("%v of a file is the number %d, want %d", err, number(&fs.PathError{Err: err}), want)
		}
	}
}

// Whatever a guest asks for, what is read of it is text, small, and no part of the
// guest's memory.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"", "\n", "{}\n", `{"path":"/bin/a","args":["b","*"],"env":["A=b"],"ports":[1],"dir":"/d"}` + "\nin", `{"path":"\u0000","args":["a\u0000"]}` + "\n",
		`{"method":"GET","url":"https://a/","headers":{"A":"b"},"secret":"s"}` + "\nbody", `{"id":"a","tools":["b"],"after":["c"]}`, `[{"id":"a"},{"id":"b"}]`,
		`{"path":null}` + "\n", "[[[[", "{\"id\":\"\xff\"}", `{"id":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		memory := bytes.Clone(in)
		c, cErr := parseCommand(memory)
		r, rErr := parseRequest(memory)
		task, tErr := parseTask(memory)
		tasks, sErr := parseTasks(memory)
		for _, err := range []error{cErr, rErr, tErr, sErr} {
			if err != nil && number(err) != numMalformed {
				t.Errorf("%v is the number %d", err, number(err))
			}
		}
		for i := range memory {
			memory[i] = 0xff
		}
		line, body, _ := bytes.Cut(in, []byte("\n"))
		if cErr == nil {
			text := append(append(slices.Clone(c.Args), c.Env...), c.Path, c.Dir)
			if !bytes.Equal(c.Stdin, body) || len(line) > maxHead || c.Path == "" || slices.ContainsFunc(text, bad) || slices.ContainsFunc(c.Args, hasNUL) {
				t.Errorf("the command %+v", c)
			}
		}
		if rErr == nil && (!bytes.Equal(r.Body, body) || len(line) > maxHead || bad(r.Method) || bad(r.URL) || bad(r.Secret)) {
			t.Errorf("the request %+v", r)
		}
		if tErr == nil && (len(in) > maxHead || bad(task.ID) || task.Status != "" || slices.ContainsFunc(task.Tools, bad) || slices.ContainsFunc(task.After, bad)) {
			t.Errorf("the task %+v", task)
		}
		for _, task := range tasks {
			if sErr != nil || bad(task.ID) || task.Status != "" {
				t.Errorf("the task %+v of several", task)
			}
		}
	})
}

// bad reports whether a text is none, or lies in memory that was overwritten.
func bad(s string) bool { return !utf8.ValidString(s) }
