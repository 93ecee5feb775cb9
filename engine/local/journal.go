package local

import (
	"path/filepath"
	"time"

	"github.com/callgate/callgate/hostfx"
)

// Journal says where it is kept what files were before calls changed them, for calls that
// a workspace is granted to. It holds contents of files: it is the operator's alone, as
// the data directory is.
type Journal struct {
	Dir   string // for this data directory alone; "" means journal in it
	Bytes int64  // how large it may become; zero: 1 GiB
	Days  int    // how long what a call changed is kept; zero: 30
}

// into says it to a host.
func (j Journal) into(o *hostfx.Options) (err error) {
	if j.Dir == "" {
		return nil
	}
	o.Journal, err = filepath.Abs(j.Dir)
	o.JournalBytes, o.JournalAge = j.Bytes, time.Duration(j.Days)*24*time.Hour
	return err
}
