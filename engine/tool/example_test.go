package tool_test

import (
	"fmt"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
)

func ExampleParse() {
	m, err := tool.Parse([]byte(`
name: note.read
description: Reads one note.
kind: host
class: read
input:
  type: object
  properties: {name: {type: string, maxLength: 100}}
  required: [name]
  additionalProperties: false
caps:
  fs: [{root: notes, path: ., modes: [read]}]
facts: none
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	args, err := call.Canonical([]byte(`{"name": 7}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Name, m.Check(args))
	// Output: note.read args_schema: at /name: want string
}

func ExampleManifest_Derive() {
	m, err := tool.Parse([]byte(`
name: page.fetch
description: Fetches pages.
kind: host
class: read
input:
  type: object
  properties:
    urls: {type: array, minItems: 1, items: {type: string, maxLength: 2048}}
  required: [urls]
  additionalProperties: false
caps:
  http: [{hosts: [docs.example.com], ports: [443], methods: [GET], paths: [/v1], networks: [public]}]
facts:
  urls: [{at: "/urls/*", method: GET}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, raw := range []string{
		`{"urls": ["https://Docs.Example.com:443/v1/a%62c"]}`,
		`{"urls": ["https://docs.example.com/v1", "https://docs.example.com/v1/%2e%2e/admin"]}`,
	} {
		args, err := call.Canonical([]byte(raw))
		if err != nil {
			fmt.Println(err)
			return
		}
		f, args, err := m.Derive(args)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(f.URLs[0].Host, f.URLs[0].Path, string(args.Bytes()))
	}
	// Output:
	// docs.example.com /v1/abc {"urls":["https://docs.example.com/v1/abc"]}
	// facts_unparsable: at /urls/*: the URL has a path that has a dot segment
}
