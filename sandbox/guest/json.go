package guest

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// head is the first line of a request, one JSON object, while it is written. To encode Go
// types, or to decode into them, would add 1.7 MB to a tool that does without.
type head struct {
	b      []byte
	failed bool // something was no UTF-8
}

func (h *head) quote(s string) {
	b, err := jsontext.AppendQuote(h.b, s)
	if err != nil {
		h.failed = true
		return
	}
	h.b = b
}

func (h *head) name(name string) {
	sep := byte(',')
	if len(h.b) == 0 {
		sep = '{'
	}
	h.b = append(h.b, sep)
	h.quote(name)
	h.b = append(h.b, ':')
}

func (h *head) text(name, value string) {
	h.name(name)
	h.quote(value)
}

// texts leaves out what has no members.
func (h *head) texts(name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	h.name(name)
	sep := byte('{')
	for _, key := range slices.Sorted(maps.Keys(values)) {
		h.b = append(h.b, sep)
		h.quote(key)
		h.b = append(h.b, ':')
		h.quote(values[key])
		sep = ','
	}
	h.b = append(h.b, '}')
}

func (h *head) list(name string, values []string) {
	h.name(name)
	h.b = append(h.b, '[')
	for i, v := range values {
		if i > 0 {
			h.b = append(h.b, ',')
		}
		h.quote(v)
	}
	h.b = append(h.b, ']')
}

func (h *head) numbers(name string, values []int) {
	h.name(name)
	h.b = append(h.b, '[')
	for i, v := range values {
		if i > 0 {
			h.b = append(h.b, ',')
		}
		h.b = strconv.AppendInt(h.b, int64(v), 10)
	}
	h.b = append(h.b, ']')
}

// with ends the line and adds what follows it.
func (h *head) with(body []byte) ([]byte, error) {
	if h.failed {
		return nil, ErrMalformed
	}
	return append(append(h.b, "}\n"...), body...), nil
}

// answered reads the first line of an answer as object does, and returns what follows
// it.
func answered(b []byte, member func(d *jsontext.Decoder, name string) bool) ([]byte, error) {
	line, body, ok := bytes.Cut(b, []byte("\n"))
	d := jsontext.NewDecoder(bytes.NewReader(line))
	if !ok || !object(d, func(name string) bool { return member(d, name) }) {
		return nil, ErrFailed
	}
	return body, nil
}

// array reads one array; item reads each of its items.
func array(d *jsontext.Decoder, item func() bool) bool {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return false
	}
	for d.PeekKind() != ']' {
		if !item() {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil
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

func texts(d *jsontext.Decoder) (list []string, ok bool) {
	ok = array(d, func() bool {
		s, ok := text(d)
		list = append(list, s)
		return ok
	})
	return list, ok
}

func number(d *jsontext.Decoder) (int64, bool) {
	t, err := d.ReadToken()
	if err != nil || t.Kind() != '0' {
		return 0, false
	}
	n, err := t.Int()
	return n, err == nil
}
