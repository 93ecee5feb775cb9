package rego

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/unicode/norm"

	"github.com/callgate/callgate/engine/call"
)

//go:embed schema/data.json
var dataJSON string

// starterRoot is where the starter policy has its data.
const starterRoot = "starter"

// dataSchema is compiled when a bundle first needs it.
var dataSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(dataJSON))
	if err != nil {
		return nil, err
	}
	const url = "callgate:///data.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	return c.Compile(url)
})

// checkStarter refuses data of the starter policy that does not fit
// rego/schema/data.json: a misspelt key would be a restriction that nobody keeps.
// Only a bundle without the starter's rules may be without the data: they would
// keep no restriction.
func checkStarter(b *bundle.Bundle) error {
	given, ok := b.Data[starterRoot]
	if !ok {
		for _, m := range b.Modules {
			if m.Parsed.Package.Path.String() == "data.starter_shape" {
				return &fault{"data." + starterRoot, errors.New("is missing, and the starter policy is there")}
			}
		}
		return nil
	}
	v, err := ast.InterfaceToValue(given)
	if err != nil {
		return starterFault(nil, err)
	}
	var text bytes.Buffer
	if err := writeValue(jsontext.NewEncoder(&text), v, true); err != nil {
		return starterFault(nil, err)
	}
	schema, err := dataSchema()
	if err != nil {
		return fmt.Errorf("data.json: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text.Bytes()))
	if err != nil {
		return starterFault(nil, err)
	}
	if err := schema.Validate(doc); err != nil {
		return schemaFaults(err)
	}
	if err := checkWords(doc, "data."+starterRoot); err != nil {
		return err
	}
	var all starterData
	if err := json.Unmarshal(text.Bytes(), &all); err != nil {
		return starterFault(nil, err)
	}
	return all.check()
}

// checkStarterFiles refuses a directory of the starter's data without the file that
// says what is frozen and who is blocked: nothing would be, and nobody.
func checkStarterFiles(fsys fs.FS) error {
	if _, err := fs.Stat(fsys, starterRoot); err != nil {
		return nil // an archive may hold all data in one file
	}
	for _, name := range []string{"data.json", "data.yaml", "data.yml"} {
		if _, err := fs.Stat(fsys, starterRoot+"/"+name); err == nil {
			return nil
		}
	}
	return &fault{starterRoot + "/data.json", errors.New("is missing; it says what is frozen and who is blocked")}
}

// checkWords refuses texts that no id, role or tenant can be equal to, and whole
// numbers that are not written as such, which a decision may not hold.
func checkWords(v any, at string) error {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k == "args" {
				continue // what arguments may be is anything
			}
			if err := checkWords(v[k], at+"/"+k); err != nil {
				return err
			}
		}
	case []any:
		for i, x := range v {
			if err := checkWords(x, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
	case string:
		if strings.TrimSpace(v) != v || !norm.NFC.IsNormalString(v) {
			return &fault{at, errors.New("has spaces around it, or is not in Unicode's form C, as names are")}
		}
	case fmt.Stringer: // a number
		if strings.ContainsAny(v.String(), ".eE") {
			return &fault{at, errors.New("is not written as a whole number")}
		}
	}
	return nil
}

// starterData is what a schema cannot say all of.
type starterData struct {
	Tools     map[string]starterTool    `json:"tools"`
	Limits    map[string]jsontext.Value `json:"limits"`
	Approvals map[string]jsontext.Value `json:"approvals"`
}

type starterTool struct {
	Grant     jsontext.Value               `json:"grant"`
	Args      map[string]starterConstraint `json:"args"`
	Limits    []string                     `json:"limits"`
	Approvals []string                     `json:"approvals"`
}

type starterConstraint struct {
	Pattern string `json:"pattern"`
	Each    struct {
		Pattern string `json:"pattern"`
	} `json:"each"`
}

// check looks at hosts, paths and the like in grants, at patterns, and at the
// limits and approvals that tools name.
func (all starterData) check() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all.Tools)) {
		bad := func(err error, place ...string) {
			errs = append(errs, starterFault(append([]string{"tools", name}, place...), err))
		}
		tool := all.Tools[name]
		var caps call.Caps
		err := json.Unmarshal(tool.Grant, &caps, json.RejectUnknownMembers(true))
		if err == nil {
			err = caps.Validate()
		}
		if err != nil {
			bad(err, "grant")
		}
		for _, arg := range slices.Sorted(maps.Keys(tool.Args)) {
			if _, err := regexp.Compile(tool.Args[arg].Pattern); err != nil {
				bad(err, "args", arg, "pattern")
			}
			if _, err := regexp.Compile(tool.Args[arg].Each.Pattern); err != nil {
				bad(err, "args", arg, "each", "pattern")
			}
		}
		for i, limit := range tool.Limits {
			if all.Limits[limit] == nil {
				bad(fmt.Errorf("there is no limit %q", limit), "limits", strconv.Itoa(i))
			}
		}
		for i, approval := range tool.Approvals {
			if all.Approvals[approval] == nil {
				bad(fmt.Errorf("there is no approval %q", approval), "approvals", strconv.Itoa(i))
			}
		}
	}
	return errors.Join(errs...)
}

// maxSchemaFaults is how many are told at once.
const maxSchemaFaults = 8

func schemaFaults(err error) error {
	broken, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return starterFault(nil, err)
	}
	var errs []error
	english := message.NewPrinter(language.English)
	for leaf := range leaves(broken) {
		errs = append(errs, starterFault(leaf.InstanceLocation, errors.New(leaf.ErrorKind.LocalizedString(english))))
	}
	slices.SortFunc(errs, func(x, y error) int { return strings.Compare(x.Error(), y.Error()) })
	return errors.Join(errs[:min(len(errs), maxSchemaFaults)]...)
}

// leaves yields the rules that were broken, at least one.
func leaves(e *jsonschema.ValidationError) iter.Seq[*jsonschema.ValidationError] {
	return func(yield func(*jsonschema.ValidationError) bool) {
		if len(e.Causes) == 0 {
			yield(e)
			return
		}
		for _, c := range e.Causes {
			for leaf := range leaves(c) {
				if !yield(leaf) {
					return
				}
			}
		}
	}
}

// starterFault takes errors that quote the data, but for those of capabilities.
func starterFault(place []string, err error) error {
	at := "data." + starterRoot
	for _, p := range place {
		at += "/" + p
	}
	if _, ok := errors.AsType[*call.Error](err); !ok {
		err = &quoting{"does not fit the documented shape", err}
	}
	return &fault{at, err}
}
