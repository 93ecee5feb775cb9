package hostfx

import (
	"math"
	"time"
)

// Unlimited is a limit that nobody states.
const Unlimited = math.MaxInt64

// Limits are how much one call may have, whoever stated it: what its grant says, or what
// holds where that says nothing. They are of the whole call and do not shrink as it uses
// them up.
type Limits struct {
	Deadline    time.Time // when the call's effects end
	OutputBytes int64     // of the result, and of what each command prints
	OpenFiles   int64     // files, directories and commands at once
	WriteBytes  int64     // written, holes included
	Entries     int64     // of directories that are made
	LogBytes    int64     // of all lines
	HTTPBytes   int64     // of request bodies, and as many of answers
	Calls       int64     // requests and commands; [Unlimited] when nobody says
}

// Limits says what the call may have, for tools that plan ahead. A tool need not keep to
// them by itself: what goes beyond them is refused.
func (fx *Effects) Limits() Limits {
	b := fx.caps.Bounds
	at, _ := fx.ctx.Deadline() // which newEffects sets
	return Limits{
		Deadline: at, OutputBytes: b.Output(), OpenFiles: or(b.OpenFiles, defaultOpenFiles),
		WriteBytes: or(b.WriteBytes, defaultWriteBytes), Entries: maxEntries, LogBytes: or(b.LogBytes, defaultLogBytes),
		HTTPBytes: b.HTTP(), Calls: or(b.Calls, Unlimited),
	}
}
