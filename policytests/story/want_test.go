package story

import (
	"slices"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

func TestSummaryOfCommands(t *testing.T) {
	got := summary(call.Caps{Exec: []call.Exec{
		{Command: "git", Args: []string{"log", "*"}, Env: []string{"TZ=UTC", "A=1"}, Ports: []int{80, 443}}, {Command: "ls"},
	}})
	if want := []string{"exec git log * env TZ=UTC A=1 ports 80,443", "exec ls"}; !slices.Equal(got, want) {
		t.Errorf("summary() = %q, want %q", got, want)
	}
}
