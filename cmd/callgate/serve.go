package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/local"
)

func newServe() *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Own a data directory and answer whoever calls through it",
		Long: `Serve opens the data directory and owns it until it is told to end, with SIGINT or
SIGTERM. Whoever makes a call meanwhile is answered by it, over the socket in the
directory, and does not have to open policy, tools and log anew. Calls that are under
way when it is told to end have 30 seconds; a second signal ends it at once.

With --dev, a module that was built anew is taken up before its next call, with whatever
else changed in its tool.yaml, and that is recorded. It is for writing tools: in production
a module that is not the one that was pinned must not run.

Exit code 0 means that every outcome is recorded, 2 that the directory could not be
opened or closed.`,
		Example: "  callgate serve --config work/callgate.yaml\n  callgate serve --config work/callgate.yaml --dev",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if dev && conf.Profile == productionProfile {
				return errors.New("--dev: not in the production profile")
			}
			c := conf.local(cmd.ErrOrStderr())
			c.Dev = dev
			e, err := local.Open(cmd.Context(), c)
			if err != nil {
				return err
			}
			// Whoever starts this in the background waits for the line.
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "serving %s\n", conf.Data)
			if err == nil {
				<-cmd.Context().Done()
				fmt.Fprintln(cmd.ErrOrStderr(), "callgate: ending")
			}
			return errors.Join(err, e.Close())
		},
	}
	addConfigFlags(cmd)
	cmd.Flags().BoolVar(&dev, "dev", false, "take up modules that were built anew")
	return cmd
}
