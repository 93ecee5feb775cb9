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
