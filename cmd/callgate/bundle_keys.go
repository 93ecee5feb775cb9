package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newBundleKeys() *cobra.Command {
	return &cobra.Command{
		Use:   "keys DIR",
		Short: "Make a key pair for signing bundles",
		Long: `Keys makes DIR and in it release.pem, the private key, and release.pub, which
engines verify with. Whoever has release.pem decides what policies say: keep it where
bundles are released and nowhere else.`,
		Example: "  callgate bundle keys keys",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := newKeys(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s and %s\n", filepath.Join(args[0], "release.pem"), filepath.Join(args[0], "release.pub"))
			return err
		},
	}
}
