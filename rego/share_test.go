package rego

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sharing looks at data in all the ways in which OPA keeps things in values: hashes,
// sorted keys, the elements of sets.
const sharing = `package callgate

decision := {"decision": "deny", "reasons": reasons} if input.tool.name == "t"

reasons := [{"code": "c", "message": sprintf("%v", [all])}]

all := [
	sort(object.keys(data.x.by)), json.marshal(data.x), [k | some k, _ in data.x.by],
	{v | some v in data.x.list} & {"a", "b"}, union({{v} | some v in data.x.list}),
	object.union(data.x.by, input.args.by), graph.reachable(data.x.by, {"a"}),
	count([p | walk(data.x, [p, _])]), data.x.by == input.args.by, {data.x.by: 1}[data.x.by],
	glob.match(data.x.glob, ["."], "a.b"), regex.match(data.x.regex, input.tool.name),
	max(data.x.list), f(data.x.by), f(input.args.by), input.args == {"by": data.x.by},
]

f(x) := sprintf("%v %v", [x, {y | some y in x}])
`

// All goroutines read the same policy, data and input, the first time too: run with
// -race, this says that nobody writes there.
func TestDecisionsShareNoState(t *testing.T) {
	for n := range 5 {
		p := mustOpen(t, files("p.rego", sharing, "x/data.json", fmt.Sprintf(
			`{"list": ["c", "b", "a", %d], "by": {"b": ["c"], "a": ["b", %[1]d], "c": []}, "glob": "a.*", "regex": "^[a-z]+$"}`, n)))
		in := input(t, "t", fmt.Sprintf(`{"by":{"a":["b",%d],"b":["c"],"c":[]}}`, n))
		s := mustSet(t, p)
		start := make(chan struct{})
		answers := make([]string, 8)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				<-start
				for range 3 {
					d, err := s.Decide(t.Context(), in)
					if err != nil {
						t.Error(err)
						return
					}
					answers[i] = d.Reasons[0].Message
				}
			})
		}
		close(start)
		wg.Wait()
		for _, a := range answers {
			if diff := cmp.Diff(answers[0], a); diff != "" {
				t.Error(diff)
			}
		}
	}
}
