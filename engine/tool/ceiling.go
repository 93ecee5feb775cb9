package tool

import (
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
)

// LoadCeiling reads the YAML file of the capabilities that no tool may exceed.
// It has the form of a manifest's caps and is read as strictly.
func LoadCeiling(name string) (*call.Caps, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("ceiling: %w", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxManifestBytes+1))
	if err != nil {
		return nil, fmt.Errorf("ceiling %s: %w", name, err)
	}
	if len(src) > MaxManifestBytes {
		return nil, fmt.Errorf("ceiling %s: is larger than %d bytes", name, MaxManifestBytes)
	}
	raw, err := toJSON(src)
	if err != nil {
		return nil, fmt.Errorf("ceiling %s: %w", name, err)
	}
	var c call.Caps
	if err := json.Unmarshal(raw, &c, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("ceiling %s: %w", name, err)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("ceiling %s: %w", name, err)
	}
	return &c, nil
}
