package story

import (
	"maps"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	yaml "go.yaml.in/yaml/v3"

	"github.com/callgate/callgate/engine/call"
)

// wrong is one value of each type of JSON.
var wrong = map[jsontext.Kind]any{'n': nil, 't': true, '0': 7, '"': "x", '[': []any{}, '{': map[string]any{}}

// kind of a value; true and false are one.
func kind(v any) jsontext.Kind {
	b, _ := json.Marshal(v)
	k := jsontext.Value(b).Kind()
	if k == 'f' {
		return 't'
	}
	return k
}

// A call whose arguments lack what the tool requires, have more than it takes, or have
// a value of another type is refused before any policy is asked, and says why.
func TestMutantsAreRefusedBeforePolicy(t *testing.T) {
	mutants := 0
	for _, s := range tell(t) {
		done := map[string]bool{}
		for _, c := range s.scenes {
			args := map[string]any{}
			if c.Steps != nil || len(c.Args) == 0 || json.Unmarshal([]byte(c.Args), &args) != nil {
				continue
			}
			if _, err := s.input(c.ask); err != nil || done[c.Tool] {
				continue
			}
			done[c.Tool] = true
			var manifest struct {
				Input struct {
					Required   []string `yaml:"required"`
					Properties map[string]struct {
						Type any `yaml:"type"`
					} `yaml:"properties"`
				} `yaml:"input"`
			}
			if err := yaml.Unmarshal([]byte(s.tools[c.Tool].text), &manifest); err != nil {
				t.Fatal(err)
			}
			refused := func(what string, args map[string]any) {
				mutants++
				mutant := c.ask
				b, err := json.Marshal(args)
				if err != nil {
					t.Fatal(err)
				}
				mutant.Args = value(b)
				_, err = s.input(mutant)
				if code := call.CodeOf(err, ""); code != call.CodeArgsSchema && code != call.CodeFactsUnparsable {
					t.Errorf("%s: %s: %s of %s: %v", s.name, c.name, what, c.Tool, err)
				}
			}
			more := maps.Clone(args)
			more["surplus"] = 1
			refused("one more", more)
			for name, value := range args {
				if _, one := manifest.Input.Properties[name].Type.(string); !one {
					continue // several types, or any
				}
				for k, v := range wrong {
					if k != kind(value) {
						other := maps.Clone(args)
						other[name] = v
						refused(name+" as "+k.String(), other)
					}
				}
			}
			for _, name := range manifest.Input.Required {
				less := maps.Clone(args)
				delete(less, name)
				refused("without "+name, less)
			}
		}
	}
	if mutants < 400 {
		t.Errorf("only %d mutants", mutants)
	}
}
