package source

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
)

// Prepared is a bundle that was checked as a whole and can decide.
type Prepared struct {
	// Revision is what records will call it.
	Revision call.Revision

	// Expires is when its signature ends; from then on [Follower.Check] refuses.
	// Zero means never.
	Expires time.Time

	// Commit puts it into force. It comes after the bytes are kept, and is the
	// place to raise the epoch's mark. If it fails, the bundle before MUST still
	// decide.
	Commit func() error
}

// Activate checks a snapshot: signature, epoch, syntax, types, everything. It MUST
// change nothing: what is in force stays so until Prepared.Commit.
type Activate func(ctx context.Context, s *Snapshot) (*Prepared, error)

// Options configure a Follower. Layer, Source and Activate are required.
type Options struct {
	Layer    string
	Source   Source
	Activate Activate

	// Store keeps what decides. Nil: nothing is kept, and there is no start without
	// the source.
	Store *Store

	// Every is how often the source is asked. Zero means 30 s.
	Every time.Duration

	// MaxAge is for how long calls are decided without word from the source that
	// the bundle is the newest. Zero means for ever.
	MaxAge time.Duration

	// Now is the clock. Zero means time.Now.
	Now func() time.Time

	Logger zerolog.Logger
}

// Stage is where bringing a bundle in failed.
type Stage string

// The stages, in order.
const (
	StageCredential Stage = "credential" // a token, certificate or key of ours cannot be used
	StageFetch      Stage = "fetch"      // the source cannot be reached, or answers something else
	StageRead       Stage = "read"       // what it gave is no archive of a bundle
	StageActivate   Stage = "activate"   // the bundle was refused: signature, epoch, syntax, types
	StageKeep       Stage = "keep"       // it cannot be stored
	StageCommit     Stage = "commit"     // it could not be put into force
)

// Error is a bundle that did not come in. What decided before still does.
type Error struct {
	Layer string
	From  string
	Stage Stage
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("layer %s from %s: %s: %v", e.Layer, e.From, e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Status is for people and health checks.
type Status struct {
	Layer    string        `json:"layer"`
	From     string        `json:"from"`
	Revision call.Revision `json:"revision"`
	Archive  string        `json:"archive"` // digest of the bytes
	Fresh    time.Time     `json:"fresh"`
	Expires  time.Time     `json:"expires,omitzero"`
	Stale    bool          `json:"stale"`             // calls are refused
	Failed   Stage         `json:"failed,omitzero"`   // of the last attempt, if it failed
	Failures int           `json:"failures,omitzero"` // in a row
}
