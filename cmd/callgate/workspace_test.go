package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/callgate/callgate/engine/local"
)

func TestJournalConfig(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "callgate.yaml")
	for _, tt := range []struct {
		text string
		want local.Journal
		ok   bool
	}{
		{"", local.Journal{}, true},
		{"journal: {dir: j, bytes: 5, days: 2}", local.Journal{Dir: filepath.Join(dir, "j"), Bytes: 5, Days: 2}, true},
		{"journal: {dir: /j}", local.Journal{Dir: "/j"}, true},
		{"journal: {bytes: -1}", local.Journal{}, false},
		{"journal: {days: -1}", local.Journal{}, false},
		{"journal: {days: 40000}", local.Journal{}, false},
		{"journal: {hours: 1}", local.Journal{}, false},
	} {
		mustDo(t, os.WriteFile(name, []byte("data: data\nbundle: bundle\n"+tt.text), 0o600))
		c, err := readConfig(name, nil)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.text, err)
		}
		if err == nil && c.Journal.local() != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.text, c.Journal.local(), tt.want)
		}
	}
}

// A tool that needs a workspace can be tried, and nothing of it stays.
func TestToolsRunWithWorkspace(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	grant := filepath.Join(dir, "grant.json")
	mustDo(t, os.WriteFile(grant, []byte(`{"workspace":true}`), 0o600))
	code, out, errOut := command(t, "tools", "run", "../../sandbox/guests/echo.wasm", "--grant", grant, "--args", `{"text":"x"}`)
	if code != exitOK {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "callgate-journal-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
