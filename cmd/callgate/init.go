package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/local/project"
)

func newInit() *cobra.Command {
	policy, profile := "rego", demoProfile
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a small working project",
		Long: `Init writes a project into DIR, which must be empty or not exist: a
configuration, a policy with data and tests, the base library it stands on, a few
tools and a folder of files that they may read. With --policy starter, the policy
is one that needs no Rego: bundle/starter/data.json says all of it.

With --profile production, the project works only with a signed policy, which carries
the manifests of its tools: a new key pair and a first signed release are written too.
Move the private key keys/release.pem to where releases are made.`,
		Example: "  callgate init work\n  callgate init --policy starter work\n  callgate init --profile production work",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return errors.New("DIR is empty")
			}
			write, ok := map[string]func(string) error{"rego": project.Write, "starter": project.WriteStarter}[policy]
			if !ok {
				return fmt.Errorf("--policy %q: want rego or starter", policy)
			}
			if profile != demoProfile && profile != productionProfile {
				return fmt.Errorf("--profile %q: want %s or %s", profile, demoProfile, productionProfile)
			}
			if err := write(args[0]); err != nil {
				return err
			}
			next := ""
			if profile == productionProfile {
				if err := produce(cmd.Context(), args[0]); err != nil {
					return err
				}
				next = fmt.Sprintf(release, args[0])
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), `wrote %[1]s

  callgate call --config %[1]s/callgate.yaml --as alice --roles analyst \
    --tool read-file --args '{"path": "/docs/welcome.txt"}'
  callgate audit verify --config %[1]s/callgate.yaml
  opa test -b %[1]s/bundle     # or, in Callgate's source: go tool opa test -b
%[2]s`, args[0], next)
			return err
		},
	}
	cmd.Flags().StringVar(&profile, "profile", profile, "demo, or production for one whose policy is signed")
	cmd.Flags().StringVar(&policy, "policy", policy, "rego, or starter for one that is data alone")
	return cmd
}

// release is how the next release of a policy is made.
const release = `
Whoever has %[1]s/keys/release.pem can sign a policy: move it to where releases are
made. The next release is

  callgate bundle build %[1]s/bundle --revision 2 --epoch 2 --out next.tar.gz
  callgate bundle sign next.tar.gz --key release.pem --key-id release --scope policy
  mv next.tar.gz %[1]s/policy.tar.gz
`
