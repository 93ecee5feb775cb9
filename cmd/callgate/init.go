package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/local/project"
)

func newInit() *cobra.Command {
	policy := "rego"
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a small working project",
		Long: `Init writes a project into DIR, which must be empty or not exist: a
configuration, a policy with data and tests, the base library it stands on, a few
tools and a folder of files that they may read. With --policy starter, the policy
is one that needs no Rego: bundle/starter/data.json says all of it.`,
		Example: "  callgate init work\n  callgate init --policy starter work",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return errors.New("DIR is empty")
			}
			write, ok := map[string]func(string) error{"rego": project.Write, "starter": project.WriteStarter}[policy]
			if !ok {
				return fmt.Errorf("--policy %q: want rego or starter", policy)
			}
			if err := write(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), `wrote %[1]s

  callgate call --config %[1]s/callgate.yaml --as alice --roles analyst \
    --tool read-file --args '{"path": "/docs/welcome.txt"}'
  callgate audit verify --config %[1]s/callgate.yaml
  opa test -b %[1]s/bundle     # or, in Callgate's source: go tool opa test -b
`, args[0])
			return err
		},
	}
	cmd.Flags().StringVar(&policy, "policy", policy, "rego, or starter for one that is data alone")
	return cmd
}
