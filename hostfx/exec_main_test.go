package hostfx_test

import (
	"os"
	"testing"

	"github.com/callgate/callgate/hostfx"
)

func TestMain(m *testing.M) {
	hostfx.Main()
	code := m.Run()
	if probeDir != "" {
		os.RemoveAll(probeDir)
	}
	os.Exit(code)
}

// probeDir is where the program is that tests run as a command.
var probeDir string
