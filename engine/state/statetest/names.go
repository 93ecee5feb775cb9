package statetest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// hostileNames are what a store may take for something else: its own names, separators of
// its keys, of its protocol, of its scripts.
var hostileNames = []string{
	"", " ", "\x00", "a\x00b", "\r\n*1\r\n$8\r\nFLUSHALL\r\n", "{other}:meta", "}:", "meta", "rev", "owner", "v", "calls", "until", "l:x", "l:", "tat:a", "use:a", "*",
	"a/b", "a//b", "/", "//", "a:b", `"}`, `\`, "]]", "%d%s", "nil", "null", "-1", "9999999999999999999", "\u202e", "é", "e\u0301", "\U0001F600", strings.Repeat("x", 1<<16),
}

// Whatever bytes a name has, it is that name and no other.
func names(t *testing.T, s store) {
	for _, name := range hostileNames {
		a := plain("call "+name, bucket("k/"+name, 1), bucket(name+"/k", 1))
		a.Session, a.Labels, a.LabelsEnd = "s"+name, []string{name, "other"}, Start.Add(time.Hour)
		a.Charges = append(a.Charges, state.Charge{Name: "w", Key: "w/" + name, Burst: 1, Cost: 1, Per: time.Hour, End: Start.Add(time.Hour)})
		ans, err := s.Admit(t.Context(), a)
		if err != nil || !ans.Admitted || len(ans.Change.Used) != 1 || ans.Change.Session.Labels[name] != Start.Add(time.Hour).UnixNano() {
			t.Errorf("%.20q: %+v, %v", name, ans, err)
			continue
		}
		again, err := s.Admit(t.Context(), a)
		if diff := cmp.Diff(ans, again); diff != "" || err != nil {
			t.Errorf("%.20q: asked again, %v:\n%s", name, err, diff)
		}
		got := s.session(t, a.Session, Start)
		if got.Owner != "" || got.Version != 1 || got.Calls != 1 || len(got.Labels) != 2 {
			t.Errorf("%.20q: session %+v", name, got)
		}
		b := a
		b.Call, b.Version = "next "+name, 1
		if ans := s.admit(t, b); ans.Limited == nil {
			t.Errorf("%.20q: its limits are another's: %+v", name, ans)
		}
		g := grant("g"+name, 0)
		g.Tool, g.Principals = name+"!", []string{name + "!"}
		if _, err := s.Spend(t.Context(), g); err != nil {
			t.Errorf("%.20q: a grant of that name: %v", name, err)
		}
		if _, err := s.Spend(t.Context(), g); err == nil {
			t.Errorf("%.20q: a grant of that name is spent twice", name)
		}
		if c, err := s.Refund(t.Context(), a.Call, call.Uses{"w/" + name: {Units: 1}}); err != nil || c.Used["w/"+name].Units != -1 {
			t.Errorf("%.20q: Refund = %+v, %v", name, c, err)
		}
	}
	// What is revoked under a name is revoked under no other.
	for _, name := range hostileNames[1:] {
		if strings.ContainsAny(name, "x") {
			continue
		}
		s.revoke(t, call.Revocation{Tool: name})
		a := plain("tool "+name, bucket("left/"+name, 1))
		a.Tool.Name, a.Session = name, "fresh"
		if !s.admit(t, a).Revoked {
			t.Errorf("tool %q is not revoked", name)
		}
		a.Call, a.Tool.Name, a.Principal = "fine "+name, "fine", name
		if s.admit(t, a).Revoked {
			t.Errorf("principal %q is revoked with the tool of that name", name)
		}
	}
}
