package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/local"
)

// anchoring is where verify gets the memory of witnesses from.
type anchoring struct {
	witnesses []string // names, directories, files and URLs; none: all that are configured
	key       string   // of the one that is not configured
	require   bool
}

func (a *anchoring) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.witnesses, "witness", nil, "witness to compare with: the name of a configured one, its directory, a file with what it cosigned, or a URL (default: all that are configured)")
	cmd.Flags().StringVar(&a.key, "witness-key", "", "verifier key of the witnesses that --witness names, or a file with it; with it none is looked for among those that are configured")
	cmd.Flags().BoolVar(&a.require, "require-anchor", false, "exit with 2 unless a witness vouches for the log")
}

// unanchored is a witness that said nothing.
type unanchored struct {
	Witness string `json:"witness"`
	Reason  string `json:"reason"`
}

// find gets what the witnesses remember. One that was named must answer; of those that
// are merely configured, silence is reported.
func (a *anchoring) find(ctx context.Context, conf Config, public string) (out []audit.Anchor, silent []unanchored, err error) {
	configured := conf.localWitnesses()
	key, err := a.readKey()
	if err != nil {
		return nil, nil, err
	}
	if len(a.witnesses) == 0 {
		if key != "" {
			return nil, nil, errors.New("--witness-key: needs --witness")
		}
		for _, w := range configured {
			anchor, err := remembered(ctx, conf, public, w, w.Name)
			switch {
			case errors.Is(err, audit.ErrTampered):
				return nil, nil, err
			case err != nil:
				silent = append(silent, unanchored{w.Name, clean(err.Error())})
			default:
				out = append(out, anchor)
			}
		}
		return out, silent, nil
	}
	if key != "" {
		configured = nil // the key is from somewhere else, and so is everything
	}
	for _, name := range a.witnesses {
		var w local.Witness
		label := ""
		if i := slices.IndexFunc(configured, func(w local.Witness) bool { return w.Name == name }); i >= 0 {
			w, label = configured[i], name
		} else if w, err = unconfigured(name, key); err != nil {
			return nil, nil, err
		}
		anchor, err := remembered(ctx, conf, public, w, label)
		if err != nil {
			return nil, nil, fmt.Errorf("--witness %s: %w", name, err)
		}
		out = append(out, anchor)
	}
	return out, nil, nil
}

func (a *anchoring) readKey() (string, error) {
	if a.key == "" || strings.Contains(a.key, "+") {
		return a.key, nil
	}
	b, err := os.ReadFile(a.key)
	if err != nil {
		return "", fmt.Errorf("--witness-key: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" {
		return "", fmt.Errorf("--witness-key: %s is empty", a.key)
	}
	return key, nil
}

// kindCopy is a file with what a witness cosigned.
const kindCopy = "copy"

// unconfigured is a witness that only the command line names. Its key must come from
// somewhere else than what it signed, which of its own directory is not the log's.
func unconfigured(name, key string) (local.Witness, error) {
	w := local.Witness{Name: "named", Kind: kindCopy, Path: name, Key: key}
	if strings.Contains(name, "://") {
		w.Kind, w.URL, w.Path = local.WitnessHTTP, name, ""
	} else if info, err := os.Stat(name); err != nil {
		return w, fmt.Errorf("--witness %s: not the name of a configured witness, or there is --witness-key: %w", name, err)
	} else if info.IsDir() {
		w.Kind = local.WitnessFile
		if key != "" {
			return w, nil
		}
		var err error
		if w.Key, _, err = audit.ReadFileWitness(name); err != nil {
			return w, fmt.Errorf("--witness %s: %w", name, err)
		}
		return w, nil
	}
	if key == "" {
		return w, fmt.Errorf("--witness %s: needs --witness-key", name)
	}
	return w, nil
}

// remembered is what w remembers: read from its directory or from a copy, or else w is
// asked. The report calls it by its label, or by its key's name.
func remembered(ctx context.Context, conf Config, public string, w local.Witness, label string) (audit.Anchor, error) {
	a := audit.Anchor{Witness: label, Key: w.Key}
	var err error
	switch w.Kind {
	case local.WitnessFile:
		if _, a.Checkpoint, err = audit.ReadFileWitness(w.Path); err == nil && a.Checkpoint == nil {
			err = errors.New("it has not seen the log yet")
		}
		return a, err
	case kindCopy:
		a.Checkpoint, err = os.ReadFile(w.Path)
		return a, err
	}
	witness, err := w.Open(now)
	if err != nil {
		return a, err
	}
	asked, err := audit.AskWitness(ctx, conf.Data, public, witness, now())
	asked.Witness = label
	return asked, err
}

// errUnanchored is for --require-anchor.
var errUnanchored = errors.New("not anchored: no witness vouches for the log")
