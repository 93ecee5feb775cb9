package rego

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
)

// maxCapsSaid is how many caps one decision may hold.
const maxCapsSaid = 32

// wireReason is a reason as policies write it.
type wireReason struct {
	call.Reason `json:",embed"`
	Layer       jsontext.Value `json:"layer"` // not for a policy to say
}

func reasons(ws []wireReason) ([]call.Reason, error) {
	if ws == nil {
		return nil, nil
	}
	out := make([]call.Reason, len(ws))
	for i, w := range ws {
		if w.Layer != nil {
			return nil, bad("reasons", i, "layer")
		}
		out[i] = w.Reason
	}
	return out, nil
}

// caps reads what a layer leaves of what others permit: one object of capabilities,
// or a list of them, of which all count. No list and an empty one are no opinion.
func caps(raw jsontext.Value) (*call.Cap, error) {
	if raw == nil {
		return nil, nil
	}
	var said []call.Cap
	if raw.Kind() == '[' {
		if err := strictly(raw, &said); err != nil {
			return nil, err
		}
	} else {
		said = make([]call.Cap, 1)
		if err := strictly(raw, &said[0]); err != nil {
			return nil, err
		}
	}
	switch {
	case len(said) == 0:
		return nil, nil
	case len(said) > maxCapsSaid:
		return nil, tooMany("cap")
	}
	all := said[0]
	for i, c := range said {
		err := c.Validate()
		if err == nil && i > 0 {
			all, err = all.Meet(c)
		}
		if err != nil {
			return nil, &call.Error{Code: call.CodeOf(err, call.CodeCapsInvalid), Detail: fmt.Sprintf("cap[%d]", i), Err: err}
		}
	}
	return &all, nil
}
