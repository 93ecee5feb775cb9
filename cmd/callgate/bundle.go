package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/keyfile"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
)

func newBundle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Build, sign, verify and look into bundles of policy",
		Example: `  callgate bundle build bundle --revision 2026-05-01 --epoch 12 --out policy.tar.gz
  callgate bundle sign policy.tar.gz --key release.pem --key-id release --scope acme/base --expires 2160h
  callgate bundle verify policy.tar.gz --key release.pub --key-id release --scope acme/base`,
		Args: cobra.NoArgs,
		RunE: needSubcommand,
	}
	cmd.AddCommand(newBundleBuild(), newBundleSign(), newBundleVerify(), newBundleInspect(), newBundlePrune(), newBundleKeys())
	return cmd
}

// maxKey is more than any key has, in bytes.
const maxKey = 1 << 20

func newBundleSign() *cobra.Command {
	var s pack.Signing
	var format, key string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "sign ARCHIVE|DIR",
		Short: "Sign a bundle with a private key",
		Long: `Sign puts .signatures.json into an archive or a directory, in place of any that
is there: OPA's format, over every file. It does not look at the policy.

Keys are RSA, ECDSA (P-256, P-384, P-521) or Ed25519, in PEM form. OPA's server
verifies all but Ed25519.`,
		Example: "  callgate bundle sign policy.tar.gz --key release.pem --key-id release --scope acme/base --expires 2160h",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if s.Key, err = signingKey(cmd, key); err != nil {
				return err
			}
			s.Issued = now()
			if cmd.Flags().Changed("expires") {
				if expires <= 0 {
					return errors.New("--expires: want more than 0")
				}
				s.Expires = s.Issued.Add(expires)
			}
			at, err := signBundle(args[0], s)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), struct {
					OK  bool   `json:"ok"`
					Out string `json:"out"`
				}{true, at})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "signed %s\n", at)
			return err
		},
	}
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&key, "key", "", "file with the private key, which nobody else may read, or - for stdin (required)")
	cmd.Flags().StringVar(&s.KeyID, "key-id", "", "name by which verifiers know the key")
	cmd.Flags().StringVar(&s.Algorithm, "algorithm", "", "such as PS256 or ES384 (default: the key's own, RS256 for RSA)")
	cmd.Flags().StringVar(&s.Scope, "scope", "", "what the bundle is for, which verifiers must expect")
	cmd.Flags().DurationVar(&expires, "expires", 0, "for how long the bundle may be activated, such as 2160h (default: for ever)")
	_ = cmd.MarkFlagRequired("key") // the flag is there
	return cmd
}

// signingKey reads a private key, from stdin for -.
func signingKey(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return readFrom(cmd.Context(), "--key", name, cmd.InOrStdin(), maxKey)
	}
	b, err := keyfile.Read(name, maxKey)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	return b, nil
}

// signBundle says which file it wrote.
func signBundle(path string, s pack.Signing) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		fsys, err := rego.Load(path)
		if err != nil {
			return "", err
		}
		b, err := pack.SignDir(fsys, s)
		if err != nil {
			return "", err
		}
		path = filepath.Join(path, pack.SignaturesFile)
		return path, replaceFile(path, b)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if b, err = pack.SignArchive(b, s); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return path, replaceFile(path, b)
}

// replaceFile writes the whole file or leaves the one that is there.
func replaceFile(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".callgate-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func newBundleVerify() *cobra.Command {
	var format, key, id, algorithm, scope string
	cmd := &cobra.Command{
		Use:   "verify ARCHIVE|DIR",
		Short: "Check a bundle's signature with a public key",
		Long: `Verify checks that a bundle is what was signed: every file, no other, by the key,
for the scope, and not expired. It does not look at the policy, nor whether a newer
bundle is known.

Exit codes: 0 verified, 1 not verified, 2 could not tell.`,
		Example: "  callgate bundle verify policy.tar.gz --key release.pub --key-id release --scope acme/base",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := os.ReadFile(key)
			if err != nil {
				return fmt.Errorf("--key: %w", err)
			}
			name := id
			if name == "" {
				name = "key" // of signatures that name none
			}
			v := &rego.Verification{Keys: map[string]rego.Key{name: {PEM: string(b), Algorithm: algorithm}}, Scope: scope, Now: now}
			if err := v.Validate(); err != nil {
				return err
			}
			return verifyBundle(cmd, args[0], format, v, id == "")
		},
	}
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&key, "key", "", "file with the public key (required)")
	cmd.Flags().StringVar(&id, "key-id", "", "the name that the signature gives the key, if it gives it one")
	cmd.Flags().StringVar(&algorithm, "algorithm", "", "such as PS256 (default: the key's own, RS256 for RSA)")
	cmd.Flags().StringVar(&scope, "scope", "", "what the bundle must be for")
	_ = cmd.MarkFlagRequired("key") // the flag is there
	return cmd
}

// bundleVerified is what -o json prints of a verification.
type bundleVerified struct {
	OK        bool            `json:"ok"`
	Signature *rego.Signature `json:"signature,omitzero"`
	Code      rego.BundleCode `json:"code,omitzero"`
	File      string          `json:"file,omitzero"`
	Reason    string          `json:"reason,omitzero"`
}

// verifyBundle looks for the name under which the key would fit, if it has none.
func verifyBundle(cmd *cobra.Command, path, format string, v *rego.Verification, unnamed bool) error {
	fsys, err := rego.Load(path)
	if err != nil {
		return err
	}
	_, s, err := rego.Verify(fsys, v)
	refused, ok := errors.AsType[*rego.BundleError](err)
	if ok && unnamed && refused.Code == rego.CodeSignatureKeyUnknown {
		if id := fittingID(fsys, v); id != "" {
			refused.Detail += "; pass --key-id " + clean(id)
		}
	}
	switch {
	case ok && format == "json":
		if err := writeJSON(cmd.OutOrStdout(), bundleVerified{Code: refused.Code, File: refused.File, Reason: refused.Detail}); err != nil {
			return err
		}
		return exitWith(exitDenied, nil)
	case ok:
		return exitWith(exitDenied, fmt.Errorf("not verified: %w", err))
	case err != nil:
		return err
	case format == "json":
		return writeJSON(cmd.OutOrStdout(), bundleVerified{OK: true, Signature: s})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "verified: %s\n", signatureText(*s))
	return err
}

// fittingID is the name that the signature gives a key, if that is v's only one.
func fittingID(fsys fs.FS, v *rego.Verification) string {
	facts, err := rego.Inspect(fsys)
	if err != nil || facts.Claims == nil || facts.Claims.KeyID == "" {
		return ""
	}
	id, named := facts.Claims.KeyID, *v
	named.Keys = map[string]rego.Key{}
	for _, k := range v.Keys {
		named.Keys[id] = k
	}
	_, _, err = rego.Verify(fsys, &named)
	if refused, ok := errors.AsType[*rego.BundleError](err); ok && refused.Code != rego.CodeSignatureScope {
		return "" // it was not made with this key, or more is wrong
	}
	return id
}

func signatureText(s rego.Signature) string {
	parts := []string{s.Algorithm}
	for _, p := range []struct{ name, value string }{{"key", s.KeyID}, {"scope", s.Scope}, {"issuer", s.Issuer}} {
		if p.value != "" {
			parts = append(parts, p.name+" "+clean(p.value))
		}
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"made", s.Issued}, {"valid from", s.NotBefore}, {"valid until", s.Expires}} {
		if !t.at.IsZero() {
			parts = append(parts, t.name+" "+t.at.Format(time.RFC3339))
		}
	}
	return strings.Join(parts, ", ")
}

func newBundleInspect() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "inspect ARCHIVE|DIR",
		Short: "Tell what is in a bundle",
		Long: `Inspect prints what a bundle says of itself, and the digest by which records name
it. It checks nothing: not the signature, nor whether the policy would load.`,
		Example: "  callgate bundle inspect policy.tar.gz\n  callgate bundle inspect bundle -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, archive, err := inspect(args[0])
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), struct {
					*rego.Facts
					Archive string `json:"archive,omitzero"`
				}{facts, archive})
			}
			return printFacts(cmd.OutOrStdout(), facts, archive)
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

// inspect also gives the digest of an archive's bytes.
func inspect(path string) (*rego.Facts, string, error) {
	var fsys fs.FS
	fsys, err := rego.Load(path)
	if err != nil {
		return nil, "", err
	}
	facts, err := rego.Inspect(fsys)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	archive := ""
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		archive = call.Digest(b)
	}
	return facts, archive, nil
}

func printFacts(out io.Writer, f *rego.Facts, archive string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, clean(value)) }
	row("revision", f.Revision)
	row("digest", f.Digest)
	row("epoch", strings.TrimPrefix(epochText(f), "epoch "))
	row("content", f.Content)
	if archive != "" {
		row("archive", archive)
	}
	row("packages", strings.Join(f.Packages, ", "))
	var data []string
	for _, d := range f.Data {
		data = append(data, "data/"+d)
	}
	row("data", strings.Join(data, ", "))
	if len(f.Tools) > 0 {
		row("tools", strings.Join(f.Tools, ", "))
	}
	row("files", fmt.Sprint(f.Files))
	switch c := f.Claims; {
	case c == nil:
		row("signature", "none")
	case c.Problem != "":
		row("signature", c.Problem)
	default:
		row("signature", "not checked: "+signatureText(c.Signature))
	}
	return w.Flush()
}
