package guest

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

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
	for e, want := range map[Errno]error{ErrNotFound: fs.ErrNotExist, ErrNotGranted: fs.ErrPermission, ErrMalformed: fs.ErrInvalid, ErrClosed: fs.ErrClosed} {
		if !errors.Is(&fs.PathError{Err: e}, want) || !errors.Is(&fs.PathError{Err: e}, e) || errors.Is(e, ErrFailed) {
			t.Errorf("%v is not %v", e, want)
		}
	}
	for e, want := range map[Errno]string{ErrWithheld: "withheld", 0: "error 0 of the host", 11: "error 11 of the host", 1<<32 - 1: "error 4294967295 of the host"} {
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
	for _, err := range []error{http, read, list, Log("x")} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v, want that it is not supported", err)
		}
	}
	if _, err := HTTP(Request{Method: "GET", URL: "https://a.example/\xff"}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a URL that is no text: %v", err)
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
