package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/token"
)

func newIssue() *cobra.Command {
	var p callParams
	var audience string
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Decide one tool call here, for another machine to run",
		Long: `Issue takes one tool call down the road up to its run: policy decides, limits are
charged, approvals are consumed, the decision is recorded. It prints a grant, by which
the executor that --audience names runs this tool once, with exactly these arguments,
in the next minute at most: see callgate exec.

Whoever has the grant can use it. Hand it over like a password, with the arguments.`,
		Example: `  callgate issue --audience runner-1 --as alice --roles analyst --tool read-file --args @args.json > grant
  callgate issue --audience runner-1 --as alice --roles analyst --tool read-file --args @args.json |
    ssh runner callgate exec --grant - --args @args.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			c, err := p.call(cmd.Context(), cmd.InOrStdin())
			if err != nil {
				return err
			}
			g, err := local.Join(cmd.Context(), conf.local(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			raw, err := g.Issue(cmd.Context(), c, audience)
			if err != nil {
				return ended(cmd, g, p.output, p.tool, nil, err)
			}
			return errors.Join(g.Close(), printIssued(cmd.OutOrStdout(), p.output, raw))
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&audience, "audience", "", "name of the executor that may run it")
	if err := cmd.MarkFlagRequired("audience"); err != nil {
		panic(err) // the flag was defined above
	}
	return cmd
}

// issued is what -o json prints of a grant.
type issued struct {
	Grant    string    `json:"grant"`
	ID       string    `json:"id"`
	Call     string    `json:"call"`
	Audience string    `json:"audience"`
	Expires  time.Time `json:"expires"`
	Record   int64     `json:"record"` // index in the log
}

func printIssued(w io.Writer, format, raw string) error {
	if format != "json" {
		_, err := fmt.Fprintln(w, raw)
		return err
	}
	t, err := token.Parse(raw)
	if err != nil {
		return err
	}
	c := t.Unverified()
	return writeJSON(w, issued{raw, c.ID, c.Decision, c.Audience, time.Unix(c.Expires, 0).UTC(), c.Log.Index})
}

func newExec() *cobra.Command {
	var from, args, format string
	cmd := &cobra.Command{
		Use:   "exec",
		Short: "Run one tool call that another machine decided",
		Long: `Exec runs the call of a grant from callgate issue, once, with the very arguments that
were decided on. The grant's issuer is one of grants.issuers in the configuration, and
its audience is grants.audience. Policy is not asked again; what the tool may do is
what the grant says and this machine's manifest and ceiling allow. The decision, the
outcome and every refusal are recorded in the log here.

Exit codes are those of callgate call.`,
		Example: `  callgate exec --grant - --args '{"path": "/docs/welcome.txt"}' < grant
  callgate exec --grant grant --args @args.json -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "-" && args == "-" {
				return errors.New("--grant and --args cannot both be stdin")
			}
			conf, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			raw, err := readToken(cmd.Context(), "--grant", from, cmd.InOrStdin())
			if err != nil {
				return err
			}
			a, err := readArgs(cmd.Context(), args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			g, err := local.Join(cmd.Context(), conf.local(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			res, callErr := g.Execute(cmd.Context(), raw, a)
			return ended(cmd, g, format, toolOf(raw), res, callErr)
		},
	}
	addConfigFlags(cmd)
	outputFlag(cmd, &format)
	cmd.Flags().StringVar(&from, "grant", "", "file of the grant, or - for stdin")
	cmd.Flags().StringVar(&args, "args", "{}", "arguments: JSON, @file, or - for stdin")
	if err := cmd.MarkFlagRequired("grant"); err != nil {
		panic(err) // the flag was defined above
	}
	return cmd
}

// toolOf is what the caller is told that they called, in their own grant's word, if
// that could be the name of a tool: nobody has vouched for it yet.
func toolOf(raw string) string {
	t, err := token.Parse(raw)
	if err != nil {
		return "grant"
	}
	name := t.Unverified().Tool.Name
	if len(name) > 128 || strings.ContainsFunc(name, hidden) {
		return "grant"
	}
	return name
}

// readToken reads a grant from a file, or from in for -. One line break at its end
// is not part of it. What is too long stays so.
func readToken(ctx context.Context, flag, from string, in io.Reader) (string, error) {
	b, err := readFrom(ctx, flag, from, in, token.MaxBytes+3)
	if err != nil {
		return "", err
	}
	raw, _ := strings.CutSuffix(string(b), "\n")
	raw, _ = strings.CutSuffix(raw, "\r")
	return raw, nil
}

func newRevoke() *cobra.Command {
	var id, kind, tenant, tool string
	var all bool
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "End what was permitted, for ever",
		Long: `Revoke acts on every call from now on, and is recorded. With --principal nobody calls
or votes by that id or in its name; without --kind, whatever kind it is. An id is a
name within a tenant: without --tenant, those of no tenant are meant. With --tool
that tool is never called again. With --all every approval that is pending or given is
void, and so is every grant that was issued and has not run.

What runs already goes on to the end of its time. On an executor with a state of its
own it ends grants that come to that executor, and nothing elsewhere.`,
		Example: `  callgate revoke --principal agent-7 --kind agent
  callgate revoke --tool publish
  callgate revoke --all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := revocations(cmd, id, kind, tenant, tool, all)
			if err != nil {
				return err
			}
			what := "every approval and every grant that has not run"
			if tool != "" {
				what = "tool " + tool
			} else if id != "" {
				what = "principal " + id + " of tenant " + tenant
				if tenant == "" {
					what = "principal " + id + " of no tenant; of one, that is another principal: name it with --tenant"
				}
			}
			return withGate(cmd, func(g local.Gate) error {
				for _, r := range list {
					if err := g.Revoke(cmd.Context(), r); err != nil {
						return err
					}
				}
				// So that a slip of the pen is seen: any name can be revoked.
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "revoked:", visible(what))
				return err
			})
		},
	}
	addConfigFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&id, "principal", "", "id of a principal")
	f.StringVar(&kind, "kind", "", "their kind, with --principal: agent, user or service; all of these when absent")
	f.StringVar(&tenant, "tenant", "", "their tenant, with --principal; none when absent")
	f.StringVar(&tool, "tool", "", "name of a tool")
	f.BoolVar(&all, "all", false, "every approval, and every grant that has not run")
	cmd.MarkFlagsOneRequired("principal", "tool", "all")
	cmd.MarkFlagsMutuallyExclusive("principal", "tool", "all")
	return cmd
}

// revocations are what the flags say.
func revocations(cmd *cobra.Command, id, kind, tenant, tool string, all bool) ([]call.Revocation, error) {
	given := cmd.Flags().Changed
	if (given("kind") || given("tenant")) && !given("principal") {
		return nil, errors.New("--kind and --tenant go with --principal")
	}
	if given("principal") && id == "" || given("tool") && tool == "" || given("all") && !all {
		return nil, errors.New("nothing is named that could be revoked")
	}
	switch {
	case all:
		return []call.Revocation{{Epoch: 1}}, nil // whichever comes next
	case tool != "":
		return []call.Revocation{{Tool: tool}}, nil
	}
	kinds := []string{"agent", "user", "service"}
	switch kind {
	case "":
	case "agent", "user", "service":
		kinds = []string{kind}
	default:
		return nil, fmt.Errorf("--kind %q: want agent, user or service", kind)
	}
	var out []call.Revocation
	for _, k := range kinds {
		out = append(out, call.Revocation{Principal: engine.PrincipalDigest(call.Principal{ID: id, Kind: k, Tenant: tenant})})
	}
	return out, nil
}
