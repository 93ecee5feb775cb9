package rego

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/callgate/callgate/bundles"
)

// manyRules is the project with n more rules of three kinds, in files of a hundred.
func manyRules(b *testing.B, n int) fstest.MapFS {
	b.Helper()
	out := withBase(b, bundles.Project())
	for file := range (n + 99) / 100 {
		var s strings.Builder
		s.WriteString("package callgate.rules\n\nimport data.callgate.lib\nimport rego.v2\n")
		for i := file * 100; i < min(n, file*100+100); i++ {
			switch i % 3 {
			case 0:
				fmt.Fprintf(&s, "\nallow contains {\"id\": \"r%d\", \"fs\": [{\"root\": \"docs\", \"path\": input.args.dir, \"modes\": [\"read\"]}]} if {\n\tinput.tool.name == \"t%d\"\n\tlib.role(\"analyst\")\n}\n", i, i)
			case 1:
				fmt.Fprintf(&s, "\ndeny contains {\"code\": \"r%d\", \"message\": $\"{input.args.x}\"} if {\n\tinput.tool.name == \"t%d\"\n\tnot _fine%d(input.facts.urls)\n}\n\n_fine%d(urls) if every u in urls { u.host == \"a.example\"; u.port == 443 }\n", i, i, i, i)
			default:
				fmt.Fprintf(&s, "\nlimit contains {\"name\": \"r%d\", \"key\": input.principal.id, \"burst\": 5, \"per\": \"1h\"} if input.tool.name in {\"t%d\", \"u%d\"}\n", i, i, i)
			}
		}
		out[fmt.Sprintf("many/f%d.rego", file)] = &fstest.MapFile{Data: []byte(s.String())}
	}
	return out
}

// BenchmarkOpen is what an activation costs, and BenchmarkVet what of it is vet.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{0, 200, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			fsys := manyRules(b, n)
			b.ReportAllocs()
			for b.Loop() {
				mustOpen(b, fsys)
			}
		})
	}
}

func BenchmarkVet(b *testing.B) {
	for _, n := range []int{0, 200, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bundle, err := read(manyRules(b, n), Capabilities())
			if err != nil {
				b.Fatal(err)
			}
			c, err := compile(bundle, Capabilities(), nil, entrypoints[Permit])
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := vet(bundle, c, entrypoints[Permit]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
