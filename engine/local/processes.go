package local

import (
	"time"

	"github.com/callgate/callgate/hostfx"
)

// Processes bound the commands that tools start and leave running, as in [hostfx.Options].
type Processes struct {
	Life    time.Duration // of each; zero: an hour
	Session int           // of one session; zero: 8
	All     int           // of all sessions; zero: 64
}

// into says it to a host.
func (p Processes) into(o *hostfx.Options) {
	o.ProcessLife, o.Processes, o.AllProcesses = p.Life, p.Session, p.All
}
