package hostfx_test

import (
	"os/exec"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// BenchmarkRun runs a command that does nothing, with package os/exec, and confined to
// its grant with all that it starts.
func BenchmarkRun(b *testing.B) {
	s := newShop(b)
	const command = "/bin/true"
	fx := s.open(b, call.Caps{FS: work("read"), Exec: exactly(command), Bounds: call.Bounds{TimeoutMS: 3_600_000}})
	compareRoutes(b, route{"ns/os-exec", func() { must(b, exec.Command(command).Run()) }}, route{"hostfx/os-exec", func() {
		_, err := fx.Run(b.Context(), hostfx.Command{Path: command})
		must(b, err)
	}})
}
