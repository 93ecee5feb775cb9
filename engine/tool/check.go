package tool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/callgate/callgate/engine/call"
)

const maxFaults = 3 // of one refusal

// Check checks arguments against the manifest's schema, on exactly their
// canonical bytes.
//
// # Errors
//
// [*call.Error] with [call.CodeArgsSchema]. Its Detail says where and what in the
// schema's own words ("at /path: want string"); a property that the schema does
// not name is *. It holds nothing of the arguments. The zero manifest refuses all.
func (m *Manifest) Check(args call.Args) error {
	refuse := func(detail string) error { return &call.Error{Code: call.CodeArgsSchema, Detail: detail} }
	if m.schema == nil || args.IsZero() {
		return refuse("")
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(args.Bytes())))
	if err != nil {
		return refuse("")
	}
	err = m.schema.Validate(v)
	if err == nil {
		return nil
	}
	// The validator's own text quotes values, so it goes nowhere.
	broken, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return refuse("")
	}
	var faults []string
	for _, leaf := range leaves(broken) {
		if _, ok := leaf.ErrorKind.(*kind.PropertyNames); ok {
			// Its location shares memory with those that were visited after it.
			faults = append(faults, "a property has a name that propertyNames does not allow")
			continue
		}
		faults = append(faults, fmt.Sprintf("at %s: %s", m.place(v, leaf.InstanceLocation), fault(leaf.ErrorKind)))
	}
	slices.Sort(faults) // the validator walks maps, in any order
	faults = slices.Compact(faults)
	return refuse(strings.Join(faults[:min(len(faults), maxFaults)], "; "))
}

// leaves returns the rules that were broken. Alternatives are one rule: what
// each of them wanted would only confuse.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.PropertyNames:
		return []*jsonschema.ValidationError{e}
	}
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

// place writes a location as a pointer in which only the schema's property names
// and array indexes show.
func (m *Manifest) place(v any, location []string) string {
	if len(location) == 0 {
		return "/"
	}
	var b strings.Builder
	for _, token := range location {
		b.WriteByte('/')
		switch x := v.(type) {
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(x) {
				return b.String() + "*"
			}
			b.WriteString(token)
			v = x[i]
		case map[string]any:
			if m.words[token] {
				b.WriteString(token)
			} else {
				b.WriteByte('*')
			}
			v = x[token]
		default:
			return b.String() + "*"
		}
	}
	return b.String()
}

// fault says what is wrong without what was found.
func fault(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "want " + strings.Join(k.Want, " or ")
	case *kind.Required:
		return "lacks " + strings.Join(k.Missing, ", ")
	case *kind.AdditionalProperties, *kind.FalseSchema:
		return "has what the schema does not allow"
	case *kind.Enum, *kind.Const:
		return "is none of the values that are allowed"
	case *kind.Format:
		return "want the format " + k.Want
	case *kind.Pattern:
		return "does not match the pattern"
	case *kind.AnyOf, *kind.OneOf:
		return "does not fit exactly what the alternatives want"
	case *kind.DependentRequired:
		return "lacks " + strings.Join(k.Missing, ", ")
	case *kind.MinLength:
		return fmt.Sprintf("is shorter than %d", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("is longer than %d", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has fewer than %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has more than %d items", k.Want)
	case *kind.Minimum:
		return "is below the minimum " + k.Want.RatString()
	case *kind.Maximum:
		return "is above the maximum " + k.Want.RatString()
	}
	if words := k.KeywordPath(); len(words) > 0 {
		return "breaks " + words[0]
	}
	return "does not fit"
}
