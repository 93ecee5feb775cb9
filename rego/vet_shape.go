package rego

import (
	"reflect"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/types"

	"github.com/callgate/callgate/engine/call"
)

// form is what the entries of a word look like.
type form struct {
	kind     string // object, list, text, number, bool, or "" for anything
	fields   map[string]*form
	required []string
	elem     *form
	orText   bool // a string will do
}

// forms are the forms of the words that base knows, as the engine's types say them.
var forms = sync.OnceValue(func() map[string]*form {
	text := &form{kind: "text"}
	deny := formOf(reflect.TypeFor[call.Reason]())
	deny.orText = true
	caps := formOf(reflect.TypeFor[call.Caps]())
	return map[string]*form{
		"allow": formOf(reflect.TypeFor[call.RuleGrant]()), "ask": formOf(reflect.TypeFor[call.ApprovalRule]()),
		"limit": formOf(reflect.TypeFor[call.Limit]()), "deny": deny, "cap": caps,
		"waive": text, "label": text, "result_label": text, "redact": text, "frame": text, "visible": text,
		"fields": {kind: "list", elem: text}, "rows": {kind: "number"},
	}
})

func formOf(t reflect.Type) *form {
	switch t.Kind() {
	case reflect.Pointer:
		return formOf(t.Elem())
	case reflect.String:
		return &form{kind: "text"}
	case reflect.Bool:
		return &form{kind: "bool"}
	case reflect.Int, reflect.Int64:
		return &form{kind: "number"}
	case reflect.Slice:
		return &form{kind: "list", elem: formOf(t.Elem())}
	case reflect.Struct:
		f := &form{kind: "object", fields: map[string]*form{}}
		f.addFields(t)
		return f
	default:
		return &form{}
	}
}

func (f *form) addFields(t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			f.addFields(field.Type)
		case name == "-" || name == "layer": // the engine sets the layer
		default:
			f.fields[name] = formOf(field.Type)
			if options != "omitzero" {
				f.required = append(f.required, name)
			}
		}
	}
}

// article is the form for people.
func (f *form) article() string {
	switch {
	case f.orText:
		return "text or an object"
	case f.kind == "object":
		return "an object"
	case f.kind == "list":
		return "a list"
	case f.kind == "number":
		return "a number"
	case f.kind == "bool":
		return "true or false"
	default:
		return "text"
	}
}

// fits says that a value of type t can have this form, looking no deeper.
func (f *form) fits(t types.Type) bool {
	switch t := t.(type) {
	case types.Any:
		if len(t) == 0 {
			return true
		}
		for _, x := range t {
			if f.fits(x) {
				return true
			}
		}
		return false
	case types.String:
		return f.kind == "text" || f.kind == "" || f.orText
	case types.Number:
		return f.kind == "number" || f.kind == ""
	case types.Boolean:
		return f.kind == "bool" || f.kind == ""
	case *types.Array, *types.Set:
		return f.kind == "list" || f.kind == ""
	case *types.Object:
		return f.kind == "object" || f.kind == ""
	case types.Null:
		return f.kind == ""
	default:
		return true
	}
}
