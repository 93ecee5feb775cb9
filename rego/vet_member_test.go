package rego

import (
	"strings"
	"testing"
)

// Who asks for a key of an object by in is told that in looks at its values.
func TestMemberOfAnObjectSaysWhatToWrite(t *testing.T) {
	const rule = "deny contains \"no\" if input.tool.name in data.denied\n@ denied/data.json\n"
	for _, tt := range []struct {
		data, want string
	}{
		{`{"x": true, "y": true}`, "in looks at the values of an object, not at its keys: is data.denied[input.tool.name] meant?"},
		{`[7]`, ""},
	} {
		found, err := Check(t.Context(), sampleFiles(t, rule+tt.data, false), CheckOptions{})
		if err != nil || len(found) == 0 {
			t.Fatalf("%v, %v", found, err)
		}
		if got := strings.Contains(found[0].Message, "in looks at"); got != (tt.want != "") || !strings.Contains(found[0].Message, tt.want) {
			t.Errorf("%s: %v, want %q", tt.data, found, tt.want)
		}
	}
}
