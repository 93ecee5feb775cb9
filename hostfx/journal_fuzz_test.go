package hostfx_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/hostfx"
)

var rootForm = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

const journalHead = `{"callgate_journal":1,"call":"call-1","owner":"sha256:me","session":"s-mine","time":"2026-01-01T00:00:00Z"}` + "\n"

// Whatever stands in a call's file, reading it ends, and what it gives are names below
// roots and nothing else. Undoing it changes nothing outside of them: at most it refuses.
func FuzzJournal(f *testing.F) {
	sha := strings.Repeat("0a", 32)
	for _, text := range []string{
		"", "\n", journalHead, journalHead + `{"end":"whole"}` + "\n", journalHead + `{"end":"whole"}`,
		journalHead + `{"root":"work","path":"YS50eHQ=","before":{"kind":"absent"}}` + "\n" + `{"root":"work","path":"YS50eHQ=","after":{"kind":"file","mode":420,"size":6,"digest":"` + sha + `","stored":true}}` + "\n" + `{"end":"whole"}` + "\n",
		journalHead + `{"root":"work","path":"Li4veA==","before":{"kind":"file","digest":"` + sha + `"},"after":{"kind":"absent"}}` + "\n" + `{"end":"whole"}` + "\n",
		journalHead + `{"root":"work","path":"ZW1wdHk=","before":{"kind":"link","text":"L2V0Yw=="},"after":{"kind":"dir","mode":493}}` + "\n" + `{"end":"whole"}` + "\n",
		journalHead + `{"root":"work","path":"Lg==","before":{"kind":"absent"},"after":{"kind":"dir","mode":493}}` + "\n" + `{"end":"whole"}` + "\n",
		journalHead + `{"root":"","path":"eA==","before":{"kind":"dir"},"after":{"kind":"device"},"mixed":true}` + "\n",
		journalHead + journalHead, `{"end":"lost"}` + "\n", `{"callgate_journal":2}` + "\n",
	} {
		f.Add([]byte(text))
	}
	d := newDesk(f)
	d.calls++
	outside := filepath.Join(d.dir, "outside")
	must(f, os.WriteFile(outside, []byte("outside"), 0o600))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := hostfx.ReadJournaled(bytes.NewReader(b))
		if err == nil {
			if c.Call == "" || c.Owner == "" || c.Session == "" || !slices.Contains([]string{"", "whole", "lost"}, c.End) {
				t.Errorf("read %+v", c)
			}
			for i, p := range c.Paths {
				if !rootForm.MatchString(c.Roots[i]) || p != "." && (strings.HasPrefix(p, "/") || slices.ContainsFunc(strings.Split(p, "/"), func(n string) bool { return n == "" || n == "." || n == ".." })) {
					t.Errorf("read the name %q in %q", p, c.Roots[i])
				}
			}
		}
		must(t, os.WriteFile(filepath.Join(d.o.Journal, "calls/call-1.jsonl"), b, 0o600))
		d.t = t
		fx, _ := d.open()
		_, _ = fx.Diff("call-1")
		undone := fx.Undo("call-1")
		fx.Close()
		if undone == nil && (err != nil || c.End != "whole" || c.Changed == 0) {
			t.Errorf("undid what cannot be read: %+v, %v", c, err)
		}
		if got, err := os.ReadFile(outside); err != nil || string(got) != "outside" {
			t.Errorf("outside: %q, %v", got, err)
		}
	})
}
