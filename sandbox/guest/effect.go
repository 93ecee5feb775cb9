package guest

import (
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Request is one request over HTTP. Method and URL must be there.
type Request struct {
	Method string
	URL    string
	Header map[string]string // without those that are the host's to set, such as Host and Authorization
	Secret string            // name of the credential that the host adds; "" means none
	Body   []byte
}

// Response is an answer over HTTP, of any status but the redirects.
type Response struct {
	Status int
	Header map[string]string // by name in lower case; repeated ones are joined by ", "
	Body   []byte            // as the server sent it: no content coding is undone
}

// Entry is one entry of a directory.
type Entry struct {
	Name string // bytes that are no UTF-8 are U+FFFD
	Dir  bool   // false for links, wherever they lead
}

// HTTP makes a request.
//
// # Errors
//
// An [Errno]; [errors.ErrUnsupported] outside of a host.
func HTTP(r Request) (Response, error) {
	req, err := encode(r)
	if err != nil {
		return Response{}, err
	}
	b, err := ask(hostHTTP, req)
	if err != nil {
		return Response{}, err
	}
	return decodeResponse(b)
}

// ReadFile reads a regular file, /<root>/<granted path>/... The error is an
// [*fs.PathError] with an [Errno] in it, or with [errors.ErrUnsupported].
func ReadFile(name string) ([]byte, error) {
	b, err := ask(hostReadFile, []byte(name))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return b, nil
}

// List lists a directory, sorted by name. The errors are those of [ReadFile].
func List(name string) ([]Entry, error) {
	b, err := ask(hostList, []byte(name))
	var entries []Entry
	if err == nil {
		entries, err = decodeEntries(b)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "list", Path: name, Err: err}
	}
	return entries, nil
}

// Log adds one line to what the caller of the tool gets to see, if the grant gives
// log. The error is an [Errno], or [errors.ErrUnsupported].
func Log(line string) error { return hostLog([]byte(line)) }

// asking is held from a request until its answer is taken: the host keeps one.
var asking sync.Mutex

// ask makes a request in two steps: the host keeps the answer until there is room.
func ask(request func(req []byte, length *uint32) error, req []byte) ([]byte, error) {
	asking.Lock()
	defer asking.Unlock()
	var n uint32
	if err := request(req, &n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if err := hostAnswer(b); err != nil {
		return nil, err
	}
	return b, nil
}

// encode writes a request as the host reads it: a line of JSON and the body.
func encode(r Request) ([]byte, error) {
	b := make([]byte, 0, len(r.URL)+len(r.Body)+128)
	var failed error
	quote := func(s string) {
		var err error
		if b, err = jsontext.AppendQuote(b, s); err != nil {
			failed = ErrMalformed // no UTF-8
		}
	}
	b = append(b, `{"method":`...)
	quote(r.Method)
	b = append(b, `,"url":`...)
	quote(r.URL)
	if len(r.Header) > 0 {
		b = append(b, `,"headers":`...)
		sep := byte('{')
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			b = append(b, sep)
			quote(name)
			b = append(b, ':')
			quote(r.Header[name])
			sep = ','
		}
		b = append(b, '}')
	}
	if r.Secret != "" {
		b = append(b, `,"secret":`...)
		quote(r.Secret)
	}
	if failed != nil {
		return nil, failed
	}
	return append(append(b, "}\n"...), r.Body...), nil
}

// decodeResponse reads the head token by token: to decode into Go types would add
// 1.7 MB to a tool that does without.
func decodeResponse(b []byte) (Response, error) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	r := Response{Header: map[string]string{}, Body: body}
	d := jsontext.NewDecoder(bytes.NewReader(head))
	ok = ok && object(d, func(name string) bool {
		switch name {
		case "status":
			t, err := d.ReadToken()
			if err != nil || t.Kind() != '0' {
				return false
			}
			n, err := t.Int()
			r.Status = int(n)
			return err == nil
		case "headers":
			return object(d, func(name string) bool {
				name = strings.Clone(name)
				value, ok := text(d)
				r.Header[name] = value
				return ok
			})
		default:
			return d.SkipValue() == nil
		}
	})
	if !ok || r.Status == 0 {
		return Response{}, ErrFailed
	}
	return r, nil
}

func decodeEntries(b []byte) ([]Entry, error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil, ErrFailed
	}
	entries := []Entry{}
	for d.PeekKind() != ']' {
		var e Entry
		ok := object(d, func(name string) (ok bool) {
			switch name {
			case "name":
				e.Name, ok = text(d)
				return ok
			case "dir":
				t, err := d.ReadToken()
				e.Dir = err == nil && t.Kind() == 't'
				return err == nil && (t.Kind() == 't' || t.Kind() == 'f')
			default:
				return d.SkipValue() == nil
			}
		})
		if !ok {
			return nil, ErrFailed
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// object reads one object; member reads the value of each of its members.
func object(d *jsontext.Decoder, member func(name string) bool) bool {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, ok := text(d)
		if !ok || !member(name) {
			return false
		}
	}
	t, err := d.ReadToken()
	return err == nil && t.Kind() == '}'
}

func text(d *jsontext.Decoder) (string, bool) {
	t, err := d.ReadToken()
	if err != nil || t.Kind() != '"' {
		return "", false
	}
	return t.String(), true
}
