package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// A permit that nobody finishes is in the log as unfinished, whether its process ends
// well or is killed, and whoever keeps the state: this directory or a server. What it
// reserved stays used, for nobody knows what ran.
func TestPermitsOfProcessesThatEnd(t *testing.T) {
	const manifest = "name: mail\ndescription: sends a mail\nkind: external\nclass: read\ninput: {type: object, properties: {}, additionalProperties: false}\n"
	const rules = `package callgate.rules

import rego.v2

# METADATA
# title: Anybody
allow contains {"id": "mail"} if input.tool.name == "mail"

# METADATA
# title: Three a day
limit contains {"name": "mails", "key": "all", "burst": 3, "per": "day", "cost": 1} if input.tool.name == "mail"
`
	shared := sharing(t, redistest.Start(t).Address).State
	for name, shared := range map[string]*local.Shared{"its own": nil, "shared": shared} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeSmall(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "bundle", "rules.rego"), []byte(rules), 0o644); err != nil {
				t.Fatal(err)
			}
			c := small(dir)
			c.Node, c.State, c.HostTools = "one", shared, []engine.Tool{engine.External(manifest)}
			mail := call.Call{Principal: ask("", "").Principal, Tool: "mail", Args: []byte("{}")}

			killed, err := local.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			m, err := killed.Authorize(t.Context(), mail)
			if err != nil {
				t.Fatal(err)
			}
			left := t.TempDir() // what a kill leaves: the log and the keys as they are now
			for _, part := range []string{"log", "keys"} {
				if err := os.CopyFS(filepath.Join(left, "data", part), os.DirFS(filepath.Join(c.Data, part))); err != nil {
					t.Fatal(err)
				}
			}
			if err := filepath.WalkDir(left, func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					return os.Chmod(name, 0o600)
				}
				return errors.Join(err, os.Chmod(name, 0o700))
			}); err != nil {
				t.Fatal(err)
			}
			if err := killed.Close(); err != nil {
				t.Fatal(err)
			}

			c.Data = filepath.Join(left, "data")
			e, err := local.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			second, err := e.Authorize(t.Context(), mail)
			if err != nil {
				t.Fatal(err)
			}
			third, err := e.Authorize(t.Context(), mail)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := third.Finish(t.Context(), engine.Reported{}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Authorize(t.Context(), mail); denied(err) != call.CodeRateLimited {
				t.Errorf("what an unfinished call took is given back: %v", err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := second.Finish(t.Context(), engine.Reported{}); err == nil {
				t.Error("a report after the end of the process counts")
			}
			ended := map[string]call.Code{}
			for _, r := range records(t, left) {
				if r.Type == call.TypeOutcome {
					ended[r.Call] = r.Code
				}
			}
			if ended[m.CallID()] != call.CodeUnfinished || ended[second.CallID()] != call.CodeUnfinished || ended[third.CallID()] != call.CodeOK || len(ended) != 3 {
				t.Errorf("outcomes %v of %s, %s and %s", ended, m.CallID(), second.CallID(), third.CallID())
			}
		})
	}
}
