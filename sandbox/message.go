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

// parseRequest reads a request over HTTP. Nothing in it lies in b afterwards:
// b is the guest's memory, which goes away with the run, and a transport may
// still look at a body by then.
func parseRequest(b []byte) (hostfx.Request, error) {
	end := bytes.IndexByte(b[:min(len(b), maxHead+1)], '\n')
	if end < 0 || hasNull(b[:end]) {
		return hostfx.Request{}, errMalformed
	}
	var h requestHead
	if err := json.Unmarshal(b[:end], &h, json.RejectUnknownMembers(true)); err != nil {
		return hostfx.Request{}, errMalformed
	}
	r := hostfx.Request{Method: h.Method, URL: h.URL, Secret: h.Secret, Header: http.Header{}}
	for name, value := range h.Header {
		// Two names that differ in case are one to whoever gets the request.
		key := textproto.CanonicalMIMEHeaderKey(name)
		if _, twice := r.Header[key]; twice {
			return hostfx.Request{}, errMalformed
		}
		r.Header[key] = []string{value}
	}
	if body := b[end+1:]; len(body) > 0 {
		r.Body = bytes.Clone(body)
	}
	return r, nil
}

// hasNull reports whether there is a null in one line of JSON, which decoding
// would take for absent.
func hasNull(line []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(line))
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
