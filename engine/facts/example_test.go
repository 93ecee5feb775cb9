package facts_test

import (
	"fmt"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

func ExampleDeclaration_Derive() {
	d := facts.Declaration{
		URLs:  []facts.URLAt{{At: "/url", Method: "GET"}},
		Paths: []facts.PathAt{{At: "/files/*/path", ModeAt: "/files/*/mode"}},
	}
	args, err := call.Canonical([]byte(`{"url": "HTTPS://API.Example.com:443/v1?q=a+b", "files": [{"path": "/work//notes/", "mode": "write"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	f, args, err := d.Derive(args)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.URLs[0].Method, f.URLs[0].Host, f.URLs[0].Port, f.URLs[0].Segments)
	fmt.Println(f.Paths[0].Mode, f.Paths[0].Root, f.Paths[0].Path)
	fmt.Println(string(args.Bytes()))
	// Output:
	// GET api.example.com 443 [v1]
	// write work notes
	// {"files":[{"mode":"write","path":"/work/notes"}],"url":"https://api.example.com/v1?q=a%20b"}
}

func ExampleParseURL() {
	for _, raw := range []string{
		"https://bücher.example/%7Ea",
		"https://api.example.com@evil.example/",
		"https://api.example.com/v1/%2e%2e/admin",
		"https://0x7f000001/",
	} {
		_, text, err := facts.ParseURL(raw)
		fmt.Println(text, err)
	}
	// Output:
	// https://xn--bcher-kva.example/~a <nil>
	//  facts_unparsable: the URL has user information
	//  facts_unparsable: the URL has a path that has a dot segment
	//  facts_unparsable: the URL has an IP address for a host, or a name that ends in a number
}
