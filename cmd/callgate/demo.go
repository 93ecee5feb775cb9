package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Play a short story of good and bad calls against a new project",
		Long: `Demo writes a project as init does, into DIR or a new temporary folder, and
plays calls against it: harmless ones, forbidden ones, and tools that attack their
host. Each line says what was decided and what really happened. Then it verifies
the log, changes one byte of it, and verifies again.`,
		Example: "  callgate demo",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) == 1 {
				dir = args[0]
			} else {
				var err error
				if dir, err = os.MkdirTemp("", "callgate-demo-"); err != nil {
					return err
				}
			}
			return demo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), dir)
		},
	}
}

func demo(ctx context.Context, out, errOut io.Writer, dir string) error {
	if err := project.Write(dir); err != nil {
		return err
	}
	// Outside of every root, with a link to it inside one.
	secret := filepath.Join(dir, "files", "salaries.txt")
	if err := os.WriteFile(secret, []byte("not for analysts\n"), 0o600); err != nil {
		return err
	}
	if err := os.Symlink("../salaries.txt", filepath.Join(dir, "files", "docs", demoLink)); err != nil {
		return err
	}
	token := "demo-" + rand.Text()
	server, err := startDemoServer(token)
	if err != nil {
		return err
	}
	defer server.Close()
	err = project.AddWeb(dir, project.Web{
		CA: server.ca, Address: server.addr, Private: "10.20.30.40", Range: "127.0.0.0/8", Token: token,
	})
	if err != nil {
		return err
	}
	conf, err := readConfig(filepath.Join(dir, "callgate.yaml"), nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A new project is in %s\n\n", dir)
	fmt.Fprintf(out, "%-39s  %-7s  %-16s %10s  %s\n", "AN AGENT ...", "VERDICT", "CODE", "TIME", "WHAT REALLY HAPPENED")
	c := conf.local(errOut)
	c.HostTools = []engine.Tool{fetchInGo()}
	denial, err := play(ctx, out, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	return tamper(out, conf.Data, denial)
}

// play makes every call of the story in one engine. It returns the index of the
// record of the call that policy denied.
func play(ctx context.Context, out io.Writer, c local.Config) (denial int64, err error) {
	e, err := local.Open(ctx, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	pending := "" // the approval that the last call waits for
	for _, s := range story {
		if s.voter != "" {
			a, err := e.Vote(ctx, engine.Vote{Approval: pending, By: asserted(s.voter, "user", "", s.roles)})
			if err != nil {
				return 0, err
			}
			fmt.Fprintf(out, "%-39s  %-7s  %-16s %10s  %s\n", s.what, "", "", "", a.ID[:9]+"... is "+string(a.Standing))
			continue
		}
		start := now()
		res, callErr := e.Do(ctx, call.Call{
			Principal: asserted("alice", "agent", "", s.roles), Tool: s.tool, Args: []byte(s.args),
		})
		took := now().Sub(start)
		r := describe(s.tool, res, callErr)
		pending = r.ApprovalID
		fmt.Fprintf(out, "%-39s  %-7s  %-16s %10s  %s\n", s.what, short(r.Verdict), r.Code, ms(took), happened(r, callErr))
		if r.Code != s.want {
			return 0, fmt.Errorf("the demo expected %s: %v", s.want, callErr)
		}
		if r.Code == call.CodePolicyDenied && denial == 0 {
			denial = r.Record
		}
	}
	return denial, nil
}

// short is a verdict in a word.
func short(v call.Verdict) string {
	if v == call.Ask {
		return "ask"
	}
	return string(v)
}

// happened says in a few words what a call did.
func happened(r callResult, err error) string {
	if _, ok := errors.AsType[*engine.Denial](err); ok {
		why := make([]string, len(r.Reasons))
		for i, reason := range r.Reasons {
			why[i] = reason.Code
			if reason.Message != "" {
				why[i] = reason.Message
			}
		}
		if r.Detail != "" {
			why = append(why, r.Detail)
		}
		if r.Limit != nil {
			why = append(why, fmt.Sprintf("%s: %d of %d left, again in %v", r.Limit.Name, r.Limit.Remaining, r.Limit.Limit, (time.Duration(r.RetryMS)*time.Millisecond).Round(time.Minute)))
		}
		if r.ApprovalID != "" {
			why = append(why, r.ApprovalID[:9]+"... waits for approval")
		}
		if len(why) == 0 {
			why = []string{r.Meaning}
		}
		return "nothing ran: " + strings.Join(why, ", ")
	}
	var parts []string
	for _, fx := range r.Outcome.Effects {
		switch fx.Code {
		case "ok":
			parts = append(parts, strings.TrimSuffix(fx.Kind+" "+fx.Target+", "+moved(fx), ", "))
		default:
			parts = append(parts, fmt.Sprintf("%s %s %s", fx.Kind, fx.Target, fx.Code))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "no effect")
	}
	if r.Outcome.MemoryRefused {
		parts = append(parts, fmt.Sprintf("memory beyond %d MiB refused", r.Outcome.MemoryBytes>>20))
	}
	switch r.Code {
	case call.CodeOK:
	case call.CodeToolError:
		if line, _, _ := strings.Cut(clean(r.Stderr), "\n"); line != "" {
			parts = append(parts, "the tool says: "+line)
		}
	default:
		parts = append(parts, "stopped")
	}
	return strings.Join(parts, "; ")
}

// tamper verifies the log, changes one byte of the record of the denial, verifies
// again, and puts the byte back.
func tamper(out io.Writer, data string, denial int64) error {
	report, err := audit.Verify(data, "")
	if err != nil {
		return err
	}
	fmt.Fprint(out, "audit verify: ")
	if err := printReport(out, report); err != nil {
		return err
	}

	segments, err := filepath.Glob(filepath.Join(data, "log", "*.jsonl"))
	if err != nil {
		return err
	}
	if len(segments) == 0 {
		return fmt.Errorf("no log in %s", data)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		return err
	}
	at := bytes.Index(text, []byte(`"policy_denied"`)) // the first
	if at < 0 {
		return errors.New("the log holds no denial")
	}
	if err := writeByte(segments[0], int64(at+1), 'P'); err != nil {
		return err
	}
	fmt.Fprintf(out, "one byte of record %d changed in %s\n", denial, segments[0])
	_, err = audit.Verify(data, "")
	tampered, ok := errors.AsType[*audit.TamperError](err)
	if !ok || tampered.Record != denial || tampered.Last != denial {
		return fmt.Errorf("the changed byte was not found: %v", err)
	}
	fmt.Fprintf(out, "audit verify: NOT verified: %v\n", tampered)
	if err := writeByte(segments[0], int64(at+1), 'p'); err != nil {
		return err
	}
	fmt.Fprintln(out, "the byte is back as it was")
	return nil
}

func writeByte(name string, at int64, b byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{b}, at)
	return errors.Join(err, f.Close())
}
