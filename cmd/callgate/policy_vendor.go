package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/bundles"
)

// shippedBases are the digests of all base libraries that were ever shipped, one a
// line, the oldest first and this version's own last.
//
//go:embed policy_bases.txt
var shippedBases string

func newPolicyVendor() *cobra.Command {
	var format string
	var force bool
	cmd := &cobra.Command{
		Use:   "vendor [DIR]",
		Short: "Write this version's base library into a bundle",
		Long: `Vendor puts the base library of this version into callgate/ of a bundle, in place of
an older one that was shipped. What somebody has changed there stays as it is, unless
--force is given: then it is gone. DIR is the directory of a bundle, "." by default.

Exit codes: 0 the library is this version's, 1 it was changed and stays, 2 could not
tell.`,
		Example: "  callgate policy vendor bundle\n  callgate policy vendor bundle --force",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			r, err := vendorBase(dir, force)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			text := "wrote"
			if !r.Written {
				text = "nothing to do:"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s, the base library %s\n", text, clean(r.Dir), r.Digest)
			return err
		},
	}
	outputFlag(cmd, &format)
	cmd.Flags().BoolVar(&force, "force", false, "replace whatever is there")
	return cmd
}

// vendoredBase is what -o json prints.
type vendoredBase struct {
	Dir     string `json:"dir"`
	Digest  string `json:"digest"`
	Was     string `json:"was,omitzero"` // the digest of what was there
	Written bool   `json:"written"`
}

func vendorBase(dir string, force bool) (*vendoredBase, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: is not a directory", dir)
	}
	to := filepath.Join(dir, libraryDir)
	want, err := bundles.Digest(bundles.Base())
	if err != nil {
		return nil, err
	}
	r := &vendoredBase{Dir: to, Digest: want}
	info, err := os.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: is not a directory, and would not be replaced by one", to)
	default:
		// A digest that cannot be had, such as of links, is one that nobody shipped.
		r.Was, err = bundles.Digest(os.DirFS(to))
		switch {
		case err == nil && r.Was == want:
			return r, nil
		case !force && !slices.Contains(strings.Fields(shippedBases), r.Was):
			return nil, exitWith(exitDenied, fmt.Errorf("%s: is none of the libraries that were shipped: somebody has changed it; see --force", to))
		}
	}
	r.Written = true
	return r, replaceDir(to, bundles.Base())
}

// replaceDir writes the whole directory or leaves the one that is there.
func replaceDir(to string, from fs.FS) (err error) {
	fresh, err := os.MkdirTemp(filepath.Dir(to), ".callgate-new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(fresh, from); err != nil {
		return err
	}
	old := fresh + "-old"
	err = os.Rename(to, old)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Rename(fresh, to)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, to); err != nil {
		return errors.Join(err, os.Rename(old, to))
	}
	return os.RemoveAll(old)
}
