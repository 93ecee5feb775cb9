package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/audit"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Check the log of decisions and outcomes",
		Example: "  callgate audit verify",
		Args:    cobra.NoArgs,
		RunE:    needSubcommand,
	}
	cmd.AddCommand(newAuditVerify())
	return cmd
}

// verified is what -o json prints of a verification.
type verified struct {
	OK      bool          `json:"ok"`
	Report  *audit.Report `json:"report,omitzero"`
	Record  *int64        `json:"record,omitzero"` // the first that is not what it was
	Last    *int64        `json:"last,omitzero"`   // the last that it could be
	Segment string        `json:"segment,omitzero"`
	Reason  string        `json:"reason,omitzero"`
	Silent  []unanchored  `json:"silent,omitzero"` // witnesses that are configured and said nothing
}

func newAuditVerify() *cobra.Command {
	var format, key string
	var from anchoring
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the log is what its signed checkpoints say",
		Long: `Verify reads the whole log, computes its Merkle tree anew and checks every
signed checkpoint. It changes nothing and needs no engine.

It finds every changed, removed, added or reordered record. A log that was cut back
to an older checkpoint, or rewritten by somebody who has the log's key, it finds with a
witness: those that callgate.yaml names are read or asked, or the ones named here. The
report says how many records are newer than what a witness has cosigned.

Do not take the configuration and the keys from whoever can write the log: name the
witness, and give its key.

Exit codes: 0 verified, 1 not verified, 2 could not tell.`,
		Example: `  callgate audit verify --config work/callgate.yaml
  callgate audit verify -o json --require-anchor
  callgate audit verify --key log.pub --witness https://witness.example/ --witness-key witness.pub`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// What comes of a variable that is not set must not be taken for no pin.
			for _, name := range []string{"key", "witness-key"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return fmt.Errorf("--%s is empty", name)
				}
			}
			conf, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return verify(cmd, conf, key, from, format)
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&key, "key", "", "file with the log's public key, kept elsewhere (default: the one beside the log)")
	from.flags(cmd)
	return cmd
}

func verify(cmd *cobra.Command, conf Config, key string, from anchoring, format string) error {
	public := ""
	if key != "" {
		b, err := os.ReadFile(key)
		if err != nil {
			return fmt.Errorf("--key: %w", err)
		}
		if public = strings.TrimSpace(string(b)); public == "" {
			return fmt.Errorf("--key: %s is empty", key)
		}
	}
	var report audit.Report
	anchors, silent, err := from.find(cmd.Context(), conf, public)
	if err == nil {
		report, err = audit.Verify(conf.Data, public, anchors...)
	} else if errors.Is(err, audit.ErrTampered) {
		// A witness that is asked says less about it than the files, if they show it.
		if _, exact := audit.Verify(conf.Data, public); errors.Is(exact, audit.ErrTampered) {
			err = exact
		}
	}
	tampered, isTampered := errors.AsType[*audit.TamperError](err)
	switch {
	case isTampered:
		if format == "json" {
			v := verified{Record: &tampered.Record, Last: &tampered.Last, Segment: tampered.Segment, Reason: tampered.Reason}
			if err := writeJSON(cmd.OutOrStdout(), v); err != nil {
				return err
			}
			return exitWith(exitDenied, nil)
		}
		return exitWith(exitDenied, fmt.Errorf("not verified: %w", err))
	case err != nil:
		return err
	case format == "json":
		err = writeJSON(cmd.OutOrStdout(), verified{OK: true, Report: &report, Silent: silent})
	default:
		err = errors.Join(printReport(cmd.OutOrStdout(), report), printAnchors(cmd.OutOrStdout(), report, silent))
	}
	if err == nil && from.require && len(report.Anchors) == 0 {
		err = errUnanchored
	}
	return err
}

func printReport(w io.Writer, r audit.Report) error {
	_, err := fmt.Fprintf(w, "verified: %d records under %d signed checkpoints of %s, root %s\n", r.Records, r.Checkpoints, r.Origin, r.Root)
	if err == nil && r.Unfinished > 0 {
		_, err = fmt.Fprintf(w, "%d bytes after the last checkpoint were never acknowledged: the log is in use, or a crash left them\n", r.Unfinished)
	}
	return err
}

// printAnchors says how far witnesses vouch for the log.
func printAnchors(out io.Writer, r audit.Report, silent []unanchored) error {
	var w bytes.Buffer
	for _, a := range r.Anchors {
		fmt.Fprintf(&w, "anchored: witness %s cosigned %d records on %s; %d are newer\n", clean(a.Witness), a.Size, a.At.Format(time.RFC3339), a.Uncovered)
	}
	for _, s := range silent {
		fmt.Fprintf(&w, "no word from witness %s: %s\n", clean(s.Witness), s.Reason)
	}
	if len(r.Anchors) == 0 {
		fmt.Fprintln(&w, "not anchored: a log that was cut back, or rewritten with its key, would look like this too")
	}
	_, err := out.Write(w.Bytes())
	return err
}
