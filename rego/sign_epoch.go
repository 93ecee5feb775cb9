package rego

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/rego/internal/durable"
)

// Epochs keeps, for each layer, the highest epoch of a bundle that has decided. A
// signature says who made a bundle, not that it is the newest: without the mark,
// whoever sits between us and the source could put back an older bundle, with the
// holes that it had.
//
// The epoch is a whole number in the manifest, {"metadata": {"callgate": {"epoch":
// 7}}}, that its author raises with every release. The mark is a file in the data
// directory; whoever can write there can lower it.
type Epochs struct {
	// Dir is the directory with a file for each layer.
	Dir string
}

// mark is the file of a layer.
type mark struct {
	Epoch    int64  `json:"epoch"`
	Content  string `json:"content"`
	Revision string `json:"revision"`
}

// Check refuses a bundle that would take the layer back. An epoch below the mark is
// an older bundle. The mark's own epoch with other contents is refused as well:
// nothing tells which of the two came first, so that one could be played against
// the other. Bundles without an epoch have no order at all.
//
// What allowed names is let in all the same: an operator's word that it is meant.
// It lists revisions, as manifests have them, or digests.
//
// # Errors
//
// A [*BundleError], or the mark cannot be read.
func (e Epochs) Check(layer string, f *Facts, allowed []string) error {
	m, err := e.read(layer)
	if err != nil {
		return err
	}
	if f.Revision != "" && slices.Contains(allowed, f.Revision) || slices.Contains(allowed, f.Digest) {
		return nil
	}
	switch {
	case f.Epoch == nil:
		return refuse(CodeEpochMissing, manifestFile, "metadata.callgate.epoch is not there, or no whole number")
	case m == nil || *f.Epoch > m.Epoch:
		return nil
	case *f.Epoch < m.Epoch:
		return refuse(CodeEpochOlder, manifestFile, fmt.Sprintf("its epoch is %d, and a bundle of epoch %d has decided before", *f.Epoch, m.Epoch))
	case f.Content != m.Content:
		return refuse(CodeEpochReused, manifestFile, fmt.Sprintf("another bundle of epoch %d has decided before; raise the epoch with every release", m.Epoch))
	}
	return nil
}

// Raise notes that a bundle decides from now on. It never lowers the mark. Call it
// before the bundle does decide, and not before it is known that it can: a bundle
// that does not compile must not shut out the last good one.
func (e Epochs) Raise(layer string, f *Facts) error {
	m, err := e.read(layer)
	if err != nil {
		return err
	}
	if f.Epoch == nil || m != nil && *f.Epoch <= m.Epoch {
		return nil
	}
	b, err := json.Marshal(mark{*f.Epoch, f.Content, f.Revision}, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.Write(e.path(layer), append(b, '\n'))
}

// read gives nil when no bundle has decided yet.
func (e Epochs) read(layer string) (*mark, error) {
	if !isName(layer) {
		return nil, fmt.Errorf("rego: %q is no name for a layer", layer)
	}
	b, err := os.ReadFile(e.path(layer))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m mark
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true)); err != nil || m.Epoch < 0 || m.Content == "" {
		// Not "none": what is broken must not open the way back.
		return nil, fmt.Errorf("%s is damaged; restore it, or remove it to trust the next bundle whatever its epoch", e.path(layer))
	}
	return &m, nil
}

func (e Epochs) path(layer string) string { return filepath.Join(e.Dir, layer+".json") }
