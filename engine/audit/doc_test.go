package audit

import (
	"reflect"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// docs/record-format.md names every member that a record can have.
func TestDocumentation(t *testing.T) {
	doc := string(read(t, "../../docs/record-format.md"))
	seen := map[reflect.Type]bool{}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(typ.Elem())
		case reflect.Struct:
			if seen[typ] || typ.PkgPath() == "time" {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				f := typ.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name != "" && name != "-" && !strings.Contains(doc, "`"+name+"`") {
					t.Errorf("%s.%s: member %q is not described", typ, f.Name, name)
				}
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[call.Record]())
	if len(seen) < 10 {
		t.Errorf("only %d types seen", len(seen))
	}
}
