package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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
}

func newAuditVerify() *cobra.Command {
	var format, key string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the log is what its signed checkpoints say",
		Long: `Verify reads the whole log, computes its Merkle tree anew and checks every
signed checkpoint. It changes nothing and needs no engine.

It finds every changed, removed, added or reordered record. It cannot find a log
that was cut back to an older checkpoint, or rewritten by somebody who has the log's
key: that takes a witness outside of this machine.

Exit codes: 0 verified, 1 not verified, 2 could not tell.`,
		Example: "  callgate audit verify --config work/callgate.yaml\n  callgate audit verify -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return verify(cmd, conf.Data, key, format)
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&key, "key", "", "file with the log's public key, kept elsewhere (default: the one beside the log)")
	return cmd
}

func verify(cmd *cobra.Command, data, key, format string) error {
	public := ""
	if key != "" {
		b, err := os.ReadFile(key)
		if err != nil {
			return fmt.Errorf("--key: %w", err)
		}
		public = strings.TrimSpace(string(b))
	}
	report, err := audit.Verify(data, public)
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
		return writeJSON(cmd.OutOrStdout(), verified{OK: true, Report: &report})
	}
	return printReport(cmd.OutOrStdout(), report)
}

func printReport(w io.Writer, r audit.Report) error {
	_, err := fmt.Fprintf(w, "verified: %d records under %d signed checkpoints of %s, root %s\n", r.Records, r.Checkpoints, r.Origin, r.Root)
	if err == nil && r.Unfinished > 0 {
		_, err = fmt.Fprintf(w, "%d bytes after the last checkpoint were never acknowledged: the log is in use, or a crash left them\n", r.Unfinished)
	}
	return err
}
