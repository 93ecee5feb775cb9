package rego

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// inputValue gives OPA the very JSON of in, numbers as they are written.
func inputValue(in *call.Input) (ast.Value, error) {
	b, err := inputBytes(in)
	if err != nil {
		return nil, err
	}
	return parseValue(b)
}

func inputBytes(in *call.Input) ([]byte, error) {
	if in == nil {
		return nil, errors.New("no input")
	}
	return json.Marshal(in)
}

func parseValue(b []byte) (ast.Value, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(b)) // in place, unlike other readers
	t, err := readTerm(d)
	if err != nil {
		return nil, err
	}
	return t.Value, nil
}

func readTerm(d *jsontext.Decoder) (*ast.Term, error) {
	switch d.PeekKind() {
	case '{':
		return readObject(d)
	case '[':
		return readArray(d)
	case '0':
		v, err := d.ReadValue()
		return ast.NewTerm(ast.Number(v)), err
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 'n':
		return ast.NullTerm(), nil
	case 't', 'f':
		return ast.BooleanTerm(t.Bool()), nil
	default:
		return ast.StringTerm(t.String()), nil
	}
}

func readObject(d *jsontext.Decoder) (*ast.Term, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var pairs [][2]*ast.Term
	for d.PeekKind() != '}' {
		k, err := readTerm(d)
		if err != nil {
			return nil, err
		}
		v, err := readTerm(d)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]*ast.Term{k, v})
	}
	_, err := d.ReadToken()
	return ast.ObjectTerm(pairs...), err
}

func readArray(d *jsontext.Decoder) (*ast.Term, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var terms []*ast.Term
	for d.PeekKind() != ']' {
		t, err := readTerm(d)
		if err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	_, err := d.ReadToken()
	return ast.ArrayTerm(terms...), err
}

var (
	errNull = errors.New("null")
	errSize = errors.New("too large")
)

// writeValue writes v as JSON: keys sorted, sets as sorted arrays, numbers as
// they are. One value always gives the same bytes.
func writeValue(e *jsontext.Encoder, v ast.Value, nulls bool) error {
	switch v := v.(type) {
	case ast.Null:
		if !nulls {
			return errNull
		}
		return e.WriteToken(jsontext.Null)
	case ast.Boolean:
		return e.WriteToken(jsontext.Bool(bool(v)))
	case ast.Number:
		return e.WriteValue(jsontext.Value(v))
	case ast.String:
		return e.WriteToken(jsontext.String(string(v)))
	case *ast.Array:
		return writeArray(e, v.Iter, nulls)
	case ast.Set:
		return writeArray(e, v.Iter, nulls)
	case ast.Object:
		return writeObject(e, v, nulls)
	default:
		return fmt.Errorf("%T has no JSON form", v)
	}
}

func writeArray(e *jsontext.Encoder, iter func(func(*ast.Term) error) error, nulls bool) error {
	if err := e.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	if err := iter(func(t *ast.Term) error { return writeValue(e, t.Value, nulls) }); err != nil {
		return err
	}
	return e.WriteToken(jsontext.EndArray)
}

func writeObject(e *jsontext.Encoder, o ast.Object, nulls bool) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	err := o.Iter(func(k, v *ast.Term) error {
		s, ok := k.Value.(ast.String)
		if !ok {
			return errors.New("a key is not a string")
		}
		if err := e.WriteToken(jsontext.String(string(s))); err != nil {
			return err
		}
		return writeValue(e, v.Value, nulls)
	})
	if err != nil {
		return err
	}
	return e.WriteToken(jsontext.EndObject)
}

// bounded collects at most max bytes.
type bounded struct {
	b   []byte
	max int
}

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > w.max {
		return 0, errSize
	}
	w.b = append(w.b, p...)
	return len(p), nil
}
