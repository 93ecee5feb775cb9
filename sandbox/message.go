package sandbox

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/hostfx"
)

// errMalformed says that a request is not one. The guest learns no more, and
// nobody else gets to see what it wrote.
var errMalformed = errors.New("malformed request")

// requestHead is the first line of a request over HTTP. The rest is its body.
type requestHead struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"headers"`
	Secret string            `json:"secret"`
}

// parseHead reads the first line of a request into head, a pointer, and returns a copy
// of what follows, or nil.
func parseHead(b []byte, head any) (body []byte, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxHead+1)], '\n')
	if end < 0 {
		return nil, errMalformed
	}
	if err := parseValue(b[:end], head); err != nil {
		return nil, err
	}
	if rest := b[end+1:]; len(rest) > 0 {
		body = bytes.Clone(rest)
	}
	return body, nil
}

// parseValue reads JSON into v, a pointer.
func parseValue(b []byte, v any) error {
	if len(b) > maxHead || hasNull(b) || json.Unmarshal(b, v, json.RejectUnknownMembers(true)) != nil {
		return errMalformed
	}
	return nil
}

// parseRequest reads a request over HTTP. Nothing in it lies in b afterwards:
// b is the guest's memory, which goes away with the run, and a transport may
// still look at a body by then.
func parseRequest(b []byte) (hostfx.Request, error) {
	var h requestHead
	body, err := parseHead(b, &h)
	if err != nil {
		return hostfx.Request{}, err
	}
	r := hostfx.Request{Method: h.Method, URL: h.URL, Secret: h.Secret, Header: http.Header{}, Body: body}
	for name, value := range h.Header {
		// Two names that differ in case are one to whoever gets the request.
		key := textproto.CanonicalMIMEHeaderKey(name)
		if _, twice := r.Header[key]; twice {
			return hostfx.Request{}, errMalformed
		}
		r.Header[key] = []string{value}
	}
	return r, nil
}

// hasNull reports whether there is a null in JSON, which decoding
// would take for absent.
func hasNull(b []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if t.Kind() == 'n' {
			return true
		}
	}
}

// Bytes that are no UTF-8, in header values and names of files, become U+FFFD.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.Deterministic(true))

// responseHead is the first line of an answer over HTTP. What follows is the body.
func responseHead(res *hostfx.Response) ([]byte, error) {
	headers := make(map[string]string, len(res.Header))
	for name, values := range res.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	b, err := json.Marshal(struct {
		Status int               `json:"status"`
		Header map[string]string `json:"headers"`
	}{res.Status, headers}, lenient)
	return append(b, '\n'), err
}

// listing is the answer to a request for a directory, which may be large: it calls
// check every now and then, and goes on for little more than most bytes.
func listing(entries []fs.DirEntry, most uint64, check func()) ([]byte, error) {
	type entry struct {
		Name string `json:"name"`
		Dir  bool   `json:"dir"`
	}
	out := []byte{'['}
	for n, e := range entries {
		if n%maxSome == 0 {
			check()
		}
		if uint64(len(out)) > most {
			return nil, hostfx.ErrTooLarge
		}
		if n > 0 {
			out = append(out, ',')
		}
		b, err := json.Marshal(entry{e.Name(), e.IsDir()}, lenient)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return append(out, ']'), nil
}

// described is the answer to a question about a file or directory.
func described(i fs.FileInfo) ([]byte, error) {
	kind, size := "other", int64(0)
	switch {
	case i.IsDir():
		kind = "directory"
	case i.Mode().IsRegular():
		kind, size = "file", i.Size()
	}
	return json.Marshal(struct {
		Type     string `json:"type"`
		Size     int64  `json:"size"`
		Modified int64  `json:"modified_ms"`
	}{kind, size, i.ModTime().UnixMilli()})
}
