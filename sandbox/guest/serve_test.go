package guest

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestServe(t *testing.T) {
	echo := func(b []byte) ([]byte, error) { return b, nil }
	tests := []struct {
		name   string
		do     func([]byte) ([]byte, error)
		in     io.Reader
		out    io.Writer
		status uint32
		log    string
	}{
		{name: "result", do: echo},
		{name: "no handler", status: 1, log: "the tool has no handler: call guest.Handle while its package is initialised\n"},
		{name: "arguments that cannot be read", do: echo, in: iotest.ErrReader(io.ErrUnexpectedEOF), status: 3, log: "the arguments cannot be read\n"},
		{name: "result that cannot be written", do: echo, out: broken{}, status: 4, log: "the result cannot be written\n"},
		{name: "error of no status", do: func([]byte) ([]byte, error) { return nil, &Error{Err: fs.ErrExist} }, status: 1, log: "file already exists\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, log strings.Builder
			if tt.in == nil {
				tt.in = strings.NewReader(`{"a":1}`)
			}
			if tt.out == nil {
				tt.out = &out
			}
			if status := serve(tt.do, tt.in, tt.out, &log); status != tt.status || log.String() != tt.log {
				t.Errorf("status %d, log %q, want %d, %q", status, log.String(), tt.status, tt.log)
			}
			if status := tt.status; status == 0 && out.String() != `{"a":1}` {
				t.Errorf("result %q", out.String())
			}
		})
	}
}

func TestErrno(t *testing.T) {
	for e, want := range map[Errno]error{ErrNotFound: fs.ErrNotExist, ErrNotGranted: fs.ErrPermission, ErrMalformed: fs.ErrInvalid, ErrClosed: fs.ErrClosed, ErrExists: fs.ErrExist} {
		if !errors.Is(&fs.PathError{Err: e}, want) || !errors.Is(&fs.PathError{Err: e}, e) || errors.Is(e, ErrFailed) {
			t.Errorf("%v is not %v", e, want)
		}
	}
	for e, want := range map[Errno]string{ErrWithheld: "withheld", ErrExists: "something is there already", 0: "error 0 of the host", 99: "error 99 of the host", 1<<32 - 1: "error 4294967295 of the host"} {
		if e.Error() != want {
			t.Errorf("%d is %q, want %q", uint32(e), e.Error(), want)
		}
	}
}

// Without a host there are no effects, and what could not be sent is not.
func TestNoHost(t *testing.T) {
	_, http := HTTP(Request{Method: "GET", URL: "https://a.example/"})
	_, read := ReadFile("/docs/a.txt")
	_, list := List("/docs")
	_, stat := Stat("/docs/a.txt")
	_, run := Run(Command{Path: "/bin/cat"})
	_, start := Start(Command{Path: "/bin/cat"})
	_, output := Output("x")
	_, plan := Plan()
	for _, err := range []error{
		http, read, list, Log("x"), stat, run, start, output, plan, Kill("x"), Charge("rows", 1), WriteFile("/docs/a.txt", nil), AppendFile("/docs/a.txt", nil),
		Mkdir("/docs/a"), Remove("/docs/a"), Rename("/docs/a", "/docs/b"), RegisterTask(Task{ID: "a"}), AdvanceTask("a", TaskDone), ReplanTask("a"),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v, want that it is not supported", err)
		}
	}
	if _, err := HTTP(Request{Method: "GET", URL: "https://a.example/\xff"}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a URL that is no text: %v", err)
	}
	if _, err := Run(Command{Path: "/bin/cat", Args: []string{"\xff"}}); !errors.Is(err, ErrMalformed) {
		t.Errorf("an argument that is no text: %v", err)
	}
	if err := ReplanTask("a", Task{ID: "\xff"}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a task that is no text: %v", err)
	}
}

func TestEncode(t *testing.T) {
	for want, give := range map[string]Request{
		`{"method":"","url":""}` + "\n": {},
		`{"method":"PUT","url":"https://a/","headers":{"A":"1","B":"\n"}}` + "\nbody\n": {Method: "PUT", URL: "https://a/", Header: map[string]string{"B": "\n", "A": "1"}, Body: []byte("body\n")},
		`{"method":"GET","url":"\"}","secret":"s"}` + "\n":                              {Method: "GET", URL: `"}`, Secret: "s"},
	} {
		if b, err := encode(give); err != nil || string(b) != want {
			t.Errorf("encode(%v) = %q, %v, want %q", give, b, err, want)
		}
	}
}

func TestEncodeCommand(t *testing.T) {
	for want, give := range map[string]Command{
		`{"path":"","args":[]}` + "\n": {},
		`{"path":"/bin/a","args":["-x","\""],"env":["A=b"],"ports":[1,65535],"dir":"/docs/d"}` + "\nin\n": {Path: "/bin/a", Args: []string{"-x", `"`}, Env: []string{"A=b"}, Ports: []int{1, 65535}, Dir: "/docs/d", Stdin: []byte("in\n")},
	} {
		if b, err := encodeCommand(give); err != nil || string(b) != want {
			t.Errorf("encodeCommand(%v) = %q, %v, want %q", give, b, err, want)
		}
	}
	b, err := encodeTask(Task{ID: "a", Status: "done", Tools: []string{"x", "y"}, After: []string{"z"}})
	if want := `{"id":"a","tools":["x","y"],"after":["z"]}` + "\n"; err != nil || string(b) != want {
		t.Errorf("encodeTask() = %q, %v, want %q", b, err, want)
	}
}

func TestDecodeProcess(t *testing.T) {
	p, err := decodeProcess([]byte(`{"later":1,"state":"exited","exit":-1,"signal":"killed","stdout_bytes":3,"stderr_bytes":2}` + "\no\nuer"))
	if d := cmp.Diff(Process{"exited", -1, "killed", []byte("o\nu"), []byte("er")}, p); d != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, d)
	}
	for _, give := range []string{
		"", "{}", "[]\n", "{}\nx", `{"stdout_bytes":1}` + "\n", `{"stdout_bytes":-1,"stderr_bytes":1}` + "\n", `{"stdout_bytes":2,"stderr_bytes":-1}` + "\nx",
		`{"stdout_bytes":9223372036854775807,"stderr_bytes":9223372036854775807}` + "\n", `{"exit":"0"}` + "\n", `{"stderr_bytes":0.5}` + "\n",
		`{"exit":0,"stdout_bytes":0,"stderr_bytes":0}` + "\n", `{"state":"exited","stdout_bytes":0,"stderr_bytes":0}` + "\n", `{"state":"running","exit":0}` + "\n",
	} {
		if p, err := decodeProcess([]byte(give)); !errors.Is(err, ErrFailed) {
			t.Errorf("decodeProcess(%q) = %v, %v", give, p, err)
		}
	}
	for give, want := range map[string]error{`{"exit":0}` + "\n": nil, "{}\n": ErrFailed, `{"stdout_bytes":1}` + "\nx": ErrFailed, `{"exit":0,"stdout_bytes":1}` + "\n": ErrFailed} {
		if r, err := decodeRan([]byte(give)); !errors.Is(err, want) {
			t.Errorf("decodeRan(%q) = %v, %v", give, r, err)
		}
	}
	i, err := decodeInfo([]byte(`{"type":"file","size":5,"modified_ms":1767225600123,"later":[]}`))
	if d := cmp.Diff(Info{TypeFile, 5, time.UnixMilli(1767225600123)}, i); d != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, d)
	}
	for _, give := range []string{"", "{}", "[]", `{"type":1}`, `{"type":"file","size":"5"}`, `{"type":"file"`} {
		if i, err := decodeInfo([]byte(give)); !errors.Is(err, ErrFailed) {
			t.Errorf("decodeInfo(%q) = %v, %v", give, i, err)
		}
	}
	for _, give := range []string{"", "{}", "[", "[1]", `[{"id":1}]`, `[{"tools":"x"}]`, `[{"after":[1]}]`, `[{"id":"a"}`} {
		if tasks, err := decodeTasks([]byte(give)); !errors.Is(err, ErrFailed) {
			t.Errorf("decodeTasks(%q) = %v, %v", give, tasks, err)
		}
	}
}

func TestDecode(t *testing.T) {
	r, err := decodeResponse([]byte(`{"later":[{}],"status":200,"headers":{"a":"1","b":"é"}}` + "\nbo\ndy"))
	if d := cmp.Diff(Response{200, map[string]string{"a": "1", "b": "é"}, []byte("bo\ndy")}, r); d != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, d)
	}
	for _, give := range []string{"", "\n", "{}", "{}\n", `{"status":200}`, `{"status":"200"}` + "\n", `{"status":2.5}` + "\n", `{"status":200,"headers":{"a":1}}` + "\n", `{"status":200` + "\n", "[]\n"} {
		if r, err := decodeResponse([]byte(give)); !errors.Is(err, ErrFailed) {
			t.Errorf("decodeResponse(%q) = %v, %v", give, r, err)
		}
	}
	entries, err := decodeEntries([]byte(`[{"name":"a","dir":true,"size":1},{"dir":false,"name":"b"}]`))
	if d := cmp.Diff([]Entry{{"a", true}, {"b", false}}, entries); d != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, d)
	}
	for _, give := range []string{"", "{}", "[", "[1]", `[{"name":1}]`, `[{"dir":"x"}]`, `[{"name":"a"}`} {
		if e, err := decodeEntries([]byte(give)); !errors.Is(err, ErrFailed) {
			t.Errorf("decodeEntries(%q) = %v, %v", give, e, err)
		}
	}
}
