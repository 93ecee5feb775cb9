package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/state"
)

// An owner, its clients and whoever joins are told the same, as often as they like,
// and the log does not grow.
func TestExplain(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	c := small(dir)
	e, k := open(t, c), dial(t, c)
	j, err := local.Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	forged := ask("echo", "hi")
	forged.Principal.Auth = call.Auth{Method: "magic"} // the owner knows better
	broken := ask("echo", "")
	broken.Args = []byte(`{"text": "a", "text": "b"}`)
	large := ask("echo", strings.Repeat("x", 3*call.MaxArgsBytes))
	calls := map[string]struct {
		call call.Call
		code call.Code
	}{
		"allowed":            {ask("echo", "hi"), call.CodeOK},
		"a forged method":    {forged, call.CodeOK},
		"destructive":        {ask("wipe", ""), call.CodeRequiresApproval},
		"an unknown tool":    {ask("no-such-tool", ""), call.CodeToolUnknown},
		"not JSON":           {broken, call.CodeArgsInvalid},
		"too large":          {large, call.CodeArgsTooLarge},
		"a foreign session":  {call.Call{Principal: ask("echo", "").Principal, Tool: "echo", Session: "so-NONE"}, call.CodeSessionInvalid},
		"without a name":     {call.Call{Tool: "echo"}, call.CodePrincipalInvalid},
		"without a decision": {call.Call{Principal: ask("echo", "").Principal, Tool: "echo", Args: []byte(`{"n":1}`)}, call.CodeArgsSchema},
	}
	for range 3 {
		for name, tt := range calls {
			want, err := k.Explain(t.Context(), tt.call)
			if err != nil || want.Code != tt.code {
				t.Errorf("%s: %+v, %v; want %s", name, want, err, tt.code)
			}
			for who, g := range map[string]local.Gate{"owner": e, "joined": j} {
				if who == "owner" && name == "a forged method" {
					continue // whoever has the engine says how the caller is known
				}
				if got, err := g.Explain(t.Context(), tt.call); err != nil || !cmp.Equal(want, got) {
					t.Errorf("%s: the %s is told otherwise: %v\n%s", name, who, err, cmp.Diff(want, got))
				}
			}
		}
	}
	nonsense := ask("\xff", "")
	if x, err := k.Explain(t.Context(), nonsense); x != nil || denied(err) != call.CodeRequestInvalid || !strings.HasPrefix(err.Error(), "unknown tool: ") {
		t.Errorf("what cannot be sent: %+v, %v", x, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.Explain(ended, ask("echo", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if list, err := k.Approvals(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("somebody was asked: %+v, %v", list, err)
	}

	// Once it is asked, the question about that very call is told.
	_, err = k.Do(t.Context(), ask("wipe", ""))
	d, _ := errors.AsType[*engine.Denial](err)
	if x, err := k.Explain(t.Context(), ask("wipe", "")); err != nil || d == nil || x.ApprovalID != d.ApprovalID || x.Standing != state.Open {
		t.Errorf("asked: %+v, %v; want the approval of %v", x, err, d)
	}
	if err := errors.Join(k.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Explain(t.Context(), ask("echo", "")); denied(err) != call.CodeEngineClosed {
		t.Errorf("after Close: %v", err)
	}
	if n := len(records(t, dir)); n != 1 {
		t.Errorf("%d records, want that of the one call that was made", n)
	}
	// Whoever has joined goes on, by now as the owner.
	if x, err := j.Explain(t.Context(), ask("echo", "hi")); err != nil || x.Code != call.CodeOK {
		t.Errorf("without that owner: %+v, %v", x, err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "data", "pending"))
	if err != nil || len(files) == 0 {
		t.Errorf("pending: %v, %v", files, err)
	}
}

func denied(err error) call.Code {
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		return d.Code
	}
	return ""
}
