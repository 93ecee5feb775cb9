package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego/source"
)

// keptBundles is where the data directory has the bundles that have decided.
const keptBundles = "bundles"

// PruneBundles removes from a data directory the bundles that have decided once, do
// not decide now, and are named by no record of the log, and tells which they were.
// Nothing else ever removes one.
//
// # Errors
//
// [ErrOwned] while an engine is open; a [*audit.TamperError] for a log that is not
// what its checkpoints say. Then nothing is removed.
func PruneBundles(ctx context.Context, data string) (_ []source.Kept, err error) {
	if _, err := os.Stat(filepath.Join(data, keptBundles)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	e := &Engine{}
	defer func() { err = errors.Join(err, e.closeAll()) }()
	if err := e.lock(data); err != nil {
		return nil, err
	}
	log, err := audit.Open(data, audit.Options{})
	if err != nil {
		return nil, err
	}
	e.close = append(e.close, log.Close)
	named := map[string]bool{}
	err = log.Replay(ctx, func(_ int64, b []byte) error {
		var r struct {
			Policy []call.Revision `json:"policy"`
		}
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		for _, p := range r.Policy {
			named[p.Digest] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return source.NewStore(filepath.Join(data, keptBundles)).Prune(named)
}
