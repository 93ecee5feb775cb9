package rego_test

import (
	"context"
	"fmt"
	"runtime"
	"testing/fstest"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// An organisation restricts what a team permits, and tries a stricter rule first.
func ExampleNewSet() {
	ctx := context.Background()
	open := func(name string, role rego.Role, src string) *rego.Policy {
		p, err := rego.Open(ctx, fstest.MapFS{"policy.rego": &fstest.MapFile{Data: []byte(src)}}, rego.Options{Name: name, Role: role})
		if err != nil {
			panic(err)
		}
		return p
	}
	team := open("team", rego.Permit, `package callgate

decision := {"decision": "allow", "grants": [{"secrets": ["mail", "crm"]}]} if input.tool.name == "send"`)
	org := open("org", rego.Restrict, `package callgate

restriction := {"decision": "pass", "cap": {"secrets": ["mail"]}}`)
	next := open("org", rego.Restrict, `package callgate

default restriction := {"decision": "pass"}

restriction := {"decision": "deny", "reasons": [{"code": "no_mail"}]} if input.tool.name == "send"`)

	set, err := rego.NewSet(team, org)
	if err != nil {
		panic(err)
	}
	shadow := rego.NewShadow(time.Second)
	defer shadow.Close()
	if set, err = set.Beside(shadow, next); err != nil {
		panic(err)
	}

	args, err := call.Canonical([]byte(`{}`))
	if err != nil {
		panic(err)
	}
	d, err := set.Decide(ctx, &call.Input{Tool: call.Tool{Name: "send"}, Args: args})
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Verdict, d.Grants[0].Secrets)
	for len(shadow.Reports()) == 0 {
		runtime.Gosched()
	}
	for _, x := range shadow.Reports()[0].Last {
		fmt.Printf("%s: %s, with the next %s %v\n", x.Kind, x.Was.Verdict, x.Would.Verdict, x.Would.Reasons)
	}
	// Output:
	// allow [mail]
	// verdict: allow, with the next deny [org/no_mail]
}
