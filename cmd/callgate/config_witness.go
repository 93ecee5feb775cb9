package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/local"
)

// WitnessConfig is somebody who remembers checkpoints of the log.
type WitnessConfig struct {
	Name    string   `mapstructure:"name"`
	Kind    string   `mapstructure:"kind"`    // file, http or command
	Key     string   `mapstructure:"key"`     // verifier key of its cosignatures
	Path    string   `mapstructure:"path"`    // of file: its directory
	URL     string   `mapstructure:"url"`     // of http: https, or http to this machine
	CA      string   `mapstructure:"ca"`      // of http: in place of the system's authorities
	Command []string `mapstructure:"command"` // of command
}

// WitnessingConfig says how the witnesses are asked.
type WitnessingConfig struct {
	Strict bool          `mapstructure:"strict"`
	Quorum int           `mapstructure:"quorum"` // all when absent
	Every  time.Duration `mapstructure:"every"`
}

func (c *Config) resolveWitnesses(dir string) {
	for i := range c.Witnesses {
		absolute(&c.Witnesses[i].Path, dir)
		absolute(&c.Witnesses[i].CA, dir)
	}
}

func (c *Config) validateWitnesses() error {
	var errs []error
	names := map[string]bool{}
	for _, w := range c.Witnesses {
		ways := 0
		for _, there := range []bool{w.Path != "", w.URL != "", len(w.Command) > 0} {
			if there {
				ways++
			}
		}
		there := map[string]bool{local.WitnessFile: w.Path != "", local.WitnessHTTP: w.URL != "", local.WitnessCommand: len(w.Command) > 0}
		ok, known := there[w.Kind]
		switch {
		case w.Name == "" || names[w.Name]:
			errs = append(errs, fmt.Errorf("witnesses: %q has no name or stands there twice", w.Name))
		case strings.Trim(w.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "": // nor a path or a URL, which audit verify takes too
			errs = append(errs, fmt.Errorf("witnesses: %q is not lower case letters, digits and hyphens", w.Name))
		case !known:
			errs = append(errs, fmt.Errorf("witnesses: %s: kind is not %s, %s or %s", w.Name, local.WitnessFile, local.WitnessHTTP, local.WitnessCommand))
		case !ok || ways > 1:
			errs = append(errs, fmt.Errorf("witnesses: %s: of kind %s needs path for file, url for http or command for command, and no other of them", w.Name, w.Kind))
		case w.CA != "" && w.Kind != local.WitnessHTTP:
			errs = append(errs, fmt.Errorf("witnesses: %s: ca is for http", w.Name))
		case w.Key == "":
			errs = append(errs, fmt.Errorf("witnesses: %s: key is empty", w.Name))
		}
		names[w.Name] = true
	}
	switch {
	case c.Witness.Quorum < 0 || c.Witness.Quorum > len(c.Witnesses):
		errs = append(errs, fmt.Errorf("witness.quorum is not between 0 and the number of witnesses, %d", len(c.Witnesses)))
	case c.Witness.Every < 0:
		errs = append(errs, errors.New("witness.every is negative"))
	case c.Witness.Strict && len(c.Witnesses) == 0:
		errs = append(errs, errors.New("witness.strict is set, and there are no witnesses"))
	}
	return errors.Join(errs...)
}

func (c *Config) localWitnesses() (out []local.Witness) {
	for _, w := range c.Witnesses {
		out = append(out, local.Witness{Name: w.Name, Kind: w.Kind, Key: w.Key, Path: w.Path, URL: w.URL, CA: w.CA, Command: w.Command})
	}
	return out
}
