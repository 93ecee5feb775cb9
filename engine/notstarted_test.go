package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

// A call that is allowed and recorded but whose run cannot start: the code, both
// records, and no effect.
func TestNotStarted(t *testing.T) {
	fsGrant := func(root, path string) []call.RuleGrant {
		return []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: root, Path: path, Modes: []string{"read"}}}}}}
	}
	tests := []struct {
		name   string
		grants []call.RuleGrant
		spoil  func(r *real) error
		want   call.Code
		detail string
	}{
		{name: "no sandbox", spoil: func(r *real) error { r.o.Guests = nil; return nil }, want: call.CodeGuestUnavailable},
		{name: "no host", grants: fsGrant("docs", "."), spoil: func(r *real) error { r.o.Host = nil; return nil }, want: call.CodeRootUnavailable},
		{name: "a folder that is not there", grants: fsGrant("docs", "canary"), want: call.CodeRootUnavailable, detail: "root docs"},
		{name: "a file for a folder", grants: fsGrant("docs", "welcome.txt"), want: call.CodeRootUnavailable},
		{name: "a link for a folder", grants: fsGrant("docs", "canary-link"), detail: "root docs", spoil: func(r *real) error {
			return os.Symlink("notes", filepath.Join(r.dir, "files/docs/canary-link"))
		}, want: call.CodePathIsLink},
		{name: "less memory than the guest starts with", grants: []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{MemoryBytes: 1}}}}, want: call.CodeMemoryMinimum},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReal(t)
			d := allow
			d.Grants = tt.grants
			r.o.Policy = always(d)
			if tt.spoil != nil {
				if err := tt.spoil(r); err != nil {
					t.Fatal(err)
				}
			}
			var operator strings.Builder
			r.o.Logger = zerolog.New(&operator)
			e := open(t, r.o)
			_, err := e.Do(t.Context(), readFile("/docs/welcome.txt"))
			denial, ok := errors.AsType[*engine.Denial](err)
			if !ok || denial.Code != tt.want || !errors.Is(err, engine.ErrUnavailable) {
				t.Fatalf("Do = %v, want %s", err, tt.want)
			}
			if n := strings.Count(operator.String(), "\n"); n != 1 {
				t.Errorf("%d lines in the operator's log about one call:\n%s", n, operator.String())
			}
			// A granted path can be made of arguments; the root's name is the operator's.
			if s := operator.String(); strings.Contains(s+err.Error(), "canary") || tt.detail != "" && !strings.Contains(s, tt.detail) {
				t.Errorf("the error: %v\nthe operator's log: %s", err, s)
			}
			e.Close()
			recs := r.records(t)
			if len(recs) != 2 || recs[0].Verdict != call.Allow || recs[1].Code != tt.want || recs[1].Outcome.Status != call.NotStarted || len(recs[1].Outcome.Effects) > 0 {
				t.Errorf("records %+v", recs)
			}
		})
	}
}
