package call_test

import (
	"fmt"

	"github.com/callgate/callgate/engine/call"
)

func ExampleCanonical() {
	a, err := call.Canonical([]byte(`{ "path": "notes.txt", "lines": 1.0 }`))
	fmt.Println(string(a.Bytes()), err)

	_, err = call.Canonical([]byte(`{"amount": 9007199254740993}`))
	fmt.Println(call.CodeOf(err, ""))
	// Output:
	// {"lines":1,"path":"notes.txt"} <nil>
	// args_inexact
}

func ExampleCaps_Meet() {
	manifest := call.Caps{FS: []call.FS{{Root: "work", Path: ".", Modes: []string{"read", "write"}}}}
	granted := call.Caps{FS: []call.FS{{Root: "work", Path: "notes", Modes: []string{"read", "list"}}}}

	caps, err := manifest.Meet(granted)
	fmt.Println(caps.FS, err)
	fmt.Println(caps.Allows(call.Op{Kind: call.OpFS, Root: "work", Path: "notes/a.txt", Mode: "read"}))
	fmt.Println(caps.Allows(call.Op{Kind: call.OpFS, Root: "work", Path: "notes/a.txt", Mode: "write"}))
	// Output:
	// [{work notes [read]}] <nil>
	// true
	// false
}

func ExampleJoin() {
	caps, err := call.Join(
		call.Caps{Secrets: []string{"tickets"}, Bounds: call.Bounds{TimeoutMS: 1000}},
		call.Caps{Secrets: []string{"search"}, Bounds: call.Bounds{TimeoutMS: 5000}},
	)
	fmt.Println(caps.Secrets, caps.Bounds.TimeoutMS, err)
	// Output: [search tickets] 5000 <nil>
}

func ExampleMatchHost() {
	fmt.Println(call.MatchHost("*.example.com", "api.example.com"))
	fmt.Println(call.MatchHost("*.example.com", "example.com"))
	fmt.Println(call.MatchHost("*.com", "example.com"))
	// Output:
	// true
	// false
	// false
}
