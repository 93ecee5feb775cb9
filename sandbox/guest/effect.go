package guest

import (
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

// Log adds one line to what the caller of the tool gets to see, if the grant gives
// log. The error is an [Errno], or [errors.ErrUnsupported].
func Log(line string) error { return hostLog([]byte(line)) }

// The levels of [LogAt], as its lines begin.
const (
	LogDebug = "debug"
	LogInfo  = ""
	LogWarn  = "warn"
	LogError = "error"
)

// LogAt is [Log] of a line that matters more or less than others: but for LogInfo it
// begins with its level, as in "warn: ".
func LogAt(level, line string) error {
	if level != LogInfo {
		line = level + ": " + line
	}
	return Log(line)
}

// Charge says that the call used so many units more of what policies count by that
// name, such as tokens or rows. What a limit took for the call beforehand, and was not
// used, is given back once the tool has ended by itself.
//
// # Errors
//
// [ErrMalformed] for negative units and a name that is not for tools to charge, and
// another [Errno]; [errors.ErrUnsupported] outside of a host.
func Charge(name string, units int64) error { return hostCharge([]byte(name), units) }

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
	h := head{b: make([]byte, 0, len(r.URL)+len(r.Body)+128)}
	h.text("method", r.Method)
	h.text("url", r.URL)
	h.texts("headers", r.Header)
	if r.Secret != "" {
		h.text("secret", r.Secret)
	}
	return h.with(r.Body)
}

func decodeResponse(b []byte) (Response, error) {
	r := Response{Header: map[string]string{}}
	var err error
	r.Body, err = answered(b, func(d *jsontext.Decoder, name string) (ok bool) {
		switch name {
		case "status":
			n, ok := number(d)
			r.Status = int(n)
			return ok
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
	if err != nil || r.Status == 0 {
		return Response{}, ErrFailed
	}
	return r, nil
}
