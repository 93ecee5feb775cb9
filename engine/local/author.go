package local

import (
	"context"
	"errors"
	"os"

	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// Host opens what effects are made of, without a data directory: roots, networks,
// names, authorities and credentials. It has a journal only if c.Journal.Dir says where.
func (c Config) Host() (*hostfx.Host, error) { return c.host(c.commands()) }

// OpenGuests opens the sandbox of a data directory, which it makes if it is missing, to
// compile modules ahead of time into the cache there. An owner may have the directory
// open meanwhile.
func OpenGuests(ctx context.Context, c Config) (*sandbox.Sandbox, error) {
	if c.Data == "" {
		return nil, errors.New("local: Config.Data is empty")
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(c.Data)
	if err == nil {
		err = ownDir(c.Data, info)
	}
	if err != nil {
		return nil, err
	}
	return c.guests(ctx)
}
