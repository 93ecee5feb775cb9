package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/token"
)

func newGrants() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "Keys of grants that other machines run, and a look at a grant",
		Long: `A machine that issues grants has two keys in the directory that grants.keys in the
configuration names: one that signs, and the next one. The executors know the public
halves of both, as a JSON Web Key Set.`,
		Example: "  callgate grants keys\n  callgate grants jwks --out decider.jwks.json\n  callgate grants verify --jwks decider.jwks.json grant",
		Args:    cobra.NoArgs,
		RunE:    needSubcommand,
	}
	cmd.AddCommand(newGrantsKeys(), newGrantsJWKS(), newGrantsRotate(), newGrantsVerify())
	return cmd
}

// ringOf opens the keys of grants, or makes them, where the configuration says.
func ringOf(cmd *cobra.Command, open func(dir string, now func() time.Time) (*token.Ring, error)) (*token.Ring, error) {
	conf, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	if conf.Grants.Keys == "" {
		return nil, errors.New("grants.keys in the configuration does not say where the keys are")
	}
	return open(conf.Grants.Keys, nil)
}

func newGrantsKeys() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make the keys to sign grants with, if there are none, and name them",
		Long: `Keys makes two Ed25519 keys in the directory that grants.keys names, unless it has some,
and says which one signs. Whoever has them can write any grant in this issuer's name.
They sign nothing else; the key of the audit log is another one.`,
		Example: "  callgate grants keys",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ring, err := ringOf(cmd, token.MakeRing)
			if err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), format, ring)
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	return cmd
}

func printKeys(w io.Writer, format string, ring *token.Ring) error {
	current, next, err := ring.KeyIDs()
	if err != nil {
		return err
	}
	if format == "json" {
		return writeJSON(w, struct {
			Current string `json:"current"`
			Next    string `json:"next"`
		}{current, next})
	}
	_, err = fmt.Fprintf(w, "signs  %s\nnext   %s\n", current, next)
	return err
}

func newGrantsJWKS() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "jwks",
		Short: "Print the public keys that executors should know now",
		Long: `JWKS prints a JSON Web Key Set: the key that signs, the next one and, for a minute and
a half after a rotation, the one before. Publish it where the executors look: as a
file, or behind https.

An executor reads a file for every grant, and refuses while it is empty or half written,
as > makes it for a moment. With --out the file is replaced whole, or left alone.`,
		Example: "  callgate grants jwks --out decider.jwks.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ring, err := ringOf(cmd, token.OpenRing)
			if err != nil {
				return err
			}
			set, err := ring.Set()
			if err != nil {
				return err
			}
			b, err := set.Encode()
			if err != nil {
				return err
			}
			if out != "" {
				return replaceFile(out, b)
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
	addConfigFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "file to replace with the set, in place of printing it")
	return cmd
}

func newGrantsRotate() *cobra.Command {
	var format string
	var leaked bool
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Let the next key sign, and make another one to follow it",
		Long: `Rotate needs no stop: an engine that runs signs with the next key from then on, which
executors know already. Publish callgate grants jwks afterwards, for the key after it.
The key that signed is removed; its public half stays in the set until the last grant
under it is over. A key that was made less than 5 minutes ago does not sign.

With --leaked, both keys are withdrawn at once, for they lie side by side, and two new
ones take their places. Until the executors know the new set they still take the old
keys, and refuse the new one: publish at once.`,
		Example: "  callgate grants rotate && callgate grants jwks --out decider.jwks.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ring, err := ringOf(cmd, token.OpenRing)
			if err != nil {
				return err
			}
			if err := ring.Rotate(leaked); err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), format, ring)
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().BoolVar(&leaked, "leaked", false, "somebody else may have the keys: withdraw both at once")
	return cmd
}

func newGrantsVerify() *cobra.Command {
	var jwks, audience, format string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Look at a grant, and check it against an issuer's keys",
		Long: `Verify reads a grant from FILE, or from stdin for -, says what it permits, and checks
its form, its signature and its time, without asking anybody. Whether it was used
before or is revoked only the executor knows.

Exit codes: 0 the grant is good, 1 it is not, 2 that could not be told.`,
		Example: "  callgate grants verify --jwks decider.jwks.json --audience runner-1 grant",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := token.ReadSet(jwks)
			if err != nil {
				return fmt.Errorf("--jwks: %w", err)
			}
			raw, err := readToken(cmd.Context(), "grant", args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			t, err := token.Parse(raw)
			if err != nil {
				return exitWith(exitDenied, err)
			}
			c, err := t.Verify(set[t.KeyID()])
			if err != nil {
				return exitWith(exitDenied, err) // and nothing of what it says
			}
			err = c.At(now())
			if audience != "" {
				err = errors.Join(err, c.For(audience))
			}
			if printErr := printClaims(cmd.OutOrStdout(), format, c); printErr != nil {
				return printErr
			}
			if err != nil {
				return exitWith(exitDenied, err)
			}
			return nil
		},
	}
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&jwks, "jwks", "", "file of the issuer's public keys")
	cmd.Flags().StringVar(&audience, "audience", "", "name of the executor that it must be for; any when absent")
	if err := cmd.MarkFlagRequired("jwks"); err != nil {
		panic(err) // the flag was defined above
	}
	return cmd
}

func printClaims(w io.Writer, format string, c token.Claims) error {
	if format == "json" {
		return writeJSON(w, c)
	}
	caps, err := json.Marshal(c.Caps)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		// One line, whatever stands in it: none may look like another.
		fmt.Fprintf(t, "%s\t%s\n", name, visible(value))
	}
	at := func(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }
	line("grant", c.ID)
	line("issuer", c.Issuer)
	line("audience", c.Audience)
	line("principal", who(c.Principal))
	for _, p := range c.Principal.OnBehalfOf {
		line("on behalf of", who(p))
	}
	line("tool", c.Tool.Name+" "+c.Tool.Digest)
	line("arguments", c.Args)
	line("may do", string(caps))
	for _, p := range c.Preconditions {
		line("if still", strings.TrimSpace(p.File+" "+p.Digest+p.ETag))
	}
	line("from", at(c.NotBefore))
	line("until", at(c.Expires))
	line("decided", fmt.Sprintf("call %s, record %d of %s, epoch %d", c.Decision, c.Log.Index, cmp.Or(c.Log.Origin, "-"), c.Epoch))
	if len(c.Approvals) > 0 {
		line("approvals", strings.Join(c.Approvals, ", "))
	}
	for _, r := range c.Policy {
		line("policy", fmt.Sprintf("%s %s %s", r.Name, cmp.Or(r.Revision, "-"), r.Digest))
	}
	return t.Flush()
}
