package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/audit"
)

func newWitness() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Make and run witnesses, which remember checkpoints of a log",
		Long: `A witness remembers the newest checkpoint of a log that it was shown, and signs no
checkpoint that does not go on from it: so a log that was cut back, rewritten with its
own key, exchanged or deleted is found out. It is worth as much as it is kept from
whoever can write the log: on another disk, under another user, on another machine.`,
		Example: "  callgate witness init /mnt/other/witness",
		Args:    cobra.NoArgs,
		RunE:    needSubcommand,
	}
	cmd.AddCommand(newWitnessInit(), newWitnessAnswer())
	return cmd
}

func newWitnessInit() *cobra.Command {
	var log string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make a witness of a directory, and print what callgate.yaml says of it",
		Long: `Init makes DIR a witness of one log: it writes a key pair there and the log's public
key. DIR must be empty or not exist. The log must have been opened once.`,
		Example: "  callgate witness init /mnt/other/witness\n  callgate witness init --log log.pub /var/lib/callgate-witness",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil || args[0] == "" {
				return errors.Join(errors.New("DIR is empty"), err)
			}
			if log == "" {
				conf, err := loadConfig(cmd)
				if err != nil {
					return err
				}
				log = filepath.Join(conf.Data, "keys", "log.pub")
			}
			public, err := os.ReadFile(log)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("the log's public key: %w; make a call first, or start callgate serve", err)
			}
			if err != nil {
				return err
			}
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			key, err := audit.MakeFileWitness(dir, string(public))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), `made a witness of %[1]s

In callgate.yaml, where the log is on this machine:

witnesses:
  - {name: other, kind: file, path: %[1]q, key: %[2]q}

or where it is asked by a command, such as ssh to this machine:

witnesses:
  - {name: other, kind: command, command: [ssh, HERE, callgate, witness, answer, %[1]q], key: %[2]q}
`, dir, key)
			return err
		},
	}
	addConfigFlags(cmd)
	cmd.Flags().StringVar(&log, "log", "", "file with the log's public key (default: keys/log.pub in the data directory)")
	return cmd
}

func newWitnessAnswer() *cobra.Command {
	return &cobra.Command{
		Use:   "answer DIR",
		Short: "Answer one request to the witness in DIR, on standard input and output",
		Long: `Answer is what the command of a witness of kind command runs, under another user or on
another machine: it reads one request, as https://c2sp.org/tlog-witness has it in the
body of add-checkpoint, and writes the status, a line break and the body of the answer.

Exit code 0 means that it answered, whatever it said, 2 that it could not.`,
		Example: "  ssh witness.example callgate witness answer /var/lib/callgate-witness",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, _, err := audit.ReadFileWitness(args[0])
			if err != nil {
				return err
			}
			w, err := audit.FileWitness("witness", args[0], key, now)
			if err != nil {
				return err
			}
			return audit.AnswerCommand(cmd.Context(), w, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
