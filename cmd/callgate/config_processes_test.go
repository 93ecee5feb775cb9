package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/local"
)

func TestConfigOfProcesses(t *testing.T) {
	for _, bad := range []string{"life: -1s", "life: soon", "session: -1", "all: -1", "each: 1"} {
		if _, err := load(t, "processes: {"+bad+"}\n"); err == nil || !strings.Contains(err.Error(), "processes") && !strings.Contains(err.Error(), "each") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	t.Setenv("CALLGATE_PROCESSES_ALL", "9")
	c, err := load(t, "processes: {life: 10m, session: 3, all: 7}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.local(io.Discard).Processes, (local.Processes{Life: 10 * time.Minute, Session: 3, All: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
