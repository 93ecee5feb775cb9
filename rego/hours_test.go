package rego

import (
	"strings"
	"testing"
)

// Hours that are none would neither refuse nor ask: the decision fails, and a policy
// that gets to them whatever the call does not load.
func TestHoursThatAreNone(t *testing.T) {
	const rule = "allow contains {\"id\": \"x\"} if input.tool.name == \"x\"\ndeny contains \"closed\" if {\n\t"
	for name, tt := range map[string]struct {
		hours string
		fails bool
	}{
		"sound":         {`approval.hours({"sat", "sun"}, "00:00", "24:00", "Z")`, false},
		"whole days":    {`approval.hours({"sat", "sun"}, "09:00", "09:00", "Z")`, false},
		"days":          {`approval.hours({"Sat", "Sun"}, "00:00", "24:00", "Z")`, true},
		"one that is":   {`approval.hours({"Sat", "sun"}, "00:00", "24:00", "Z")`, true},
		"times":         {`approval.hours({"sat", "sun"}, "00:00", "25:00", "Z")`, true},
		"under not":     {`not approval.hours({"sat", "sun"}, "9:00", "18:00", "Z")`, true},
		"an offset":     {`approval.hours({"sat", "sun"}, "00:00", "24:00", "CET")`, true},
		"from the data": {`approval.hours(data.open.days, data.open.from, data.open.to, "Z")`, true},
	} {
		t.Run(name, func(t *testing.T) {
			text := "import data.callgate.approval\n" + rule + "input.tool.name == \"x\"\n\t" + tt.hours + "\n}\n@ open/data.json\n{\"days\": [\"Sat\"], \"from\": \"00:00\", \"to\": \"24:00\"}\n"
			if !strings.Contains(tt.hours, "data.open") {
				text, _, _ = strings.Cut(text, "@ ")
			}
			p, err := Open(t.Context(), sampleFiles(t, text, false), Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Decide(t.Context(), input(t, "x", "{}"))
			if failed := err != nil; failed != tt.fails {
				t.Errorf("%v", err)
			}
			if tt.fails && !strings.Contains(err.Error(), "approval.rego") {
				t.Errorf("does not say where: %v", err)
			}
			always := strings.Replace(text, "input.tool.name == \"x\"\n\t", "", 1)
			if _, err := Open(t.Context(), sampleFiles(t, always, false), Options{}); (err != nil) != tt.fails {
				t.Errorf("loads: %v", err)
			}
		})
	}
}
