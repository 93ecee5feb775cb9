package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

func newPolicyExplain() *cobra.Command {
	var p policyParams
	var a askParams
	record := int64(-1)
	cmd := &cobra.Command{
		Use:   "explain [DIR|ARCHIVE]",
		Short: "Say which rules decide about one call, and which nearly did",
		Long: `Explain asks a policy about one call, as eval does, and says which rules held and
which failed late: with the expression that failed, and what stood in it. Values are
cut to 40 bytes, and what looks like a secret is not shown.

With --record N it explains a decision of the log. Records do not hold arguments, so
--args gives them again; they are compared with the keyed digest in the record. Labels
of the session are read from the log; the caller's own word, claims and the number of
calls are in no record and taken as they are given or empty. It says loudly if the
policy is not the one that decided, or decides otherwise now.

Exit codes: 0 explained, 1 the policy now decides otherwise than recorded, 2 could not
tell.`,
		Example: `  callgate policy explain --as alice --roles analyst --tool read-file --args '{"path": "/docs/a.txt"}'
  callgate policy explain bundle --input input.json -o json
  callgate policy explain --record 17 --args @args.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := p.desk(cmd, oneArg(args))
			if err != nil {
				return err
			}
			policy, layers, err := d.decider(cmd.Context())
			if err != nil {
				return err
			}
			e := &explaining{desk: d, policy: policy, layers: layers}
			var x *explainedCall
			if cmd.Flags().Changed("record") {
				x, err = e.recorded(cmd, record, &a)
			} else {
				x, err = e.asked(cmd, &a)
			}
			if err != nil {
				return err
			}
			return x.report(cmd, p.output)
		},
	}
	p.flags(cmd)
	a.flags(cmd)
	cmd.Flags().Int64Var(&record, "record", -1, "index of a decision in the log")
	return cmd
}

type explaining struct {
	*desk
	policy rego.Decider
	layers []*rego.Policy
}

// explainedCall is what -o json prints.
type explainedCall struct {
	Verdict call.Verdict         `json:"verdict"` // of all layers, for all principals
	Code    call.Code            `json:"code,omitzero"`
	Meaning string               `json:"meaning,omitzero"`
	Detail  string               `json:"detail,omitzero"`
	For     []explainedPrincipal `json:"for,omitzero"`
	Record  *explainedRecord     `json:"record,omitzero"`
}

// explainedPrincipal is what the layers say of one principal of the chain.
type explainedPrincipal struct {
	Who    string              `json:"who"`
	Layers []*rego.Explanation `json:"layers"`

	decision call.Decision
}

func (e *explaining) asked(cmd *cobra.Command, a *askParams) (*explainedCall, error) {
	in, err := a.ask(cmd, e.desk)
	if refused, ok := errors.AsType[*call.Error](err); ok {
		return &explainedCall{
			Verdict: call.Deny, Code: refused.Code, Meaning: refused.Code.Info().Meaning,
			Detail: "the call is refused before any policy is asked: " + refused.Detail,
		}, nil
	}
	if err != nil {
		return nil, err
	}
	x := &explainedCall{Verdict: call.Allow}
	return x, e.explain(cmd.Context(), in, x)
}

// explain adds what the layers say of in. The strictest verdict of all wins.
func (e *explaining) explain(ctx context.Context, in *call.Input, x *explainedCall) error {
	one := explainedPrincipal{Who: in.Principal.ID}
	d, err := e.policy.Decide(ctx, in)
	for _, l := range e.layers {
		y, why := within(ctx, explainTime(e.most), func(ctx context.Context) (*rego.Explanation, error) { return l.Explain(ctx, in) })
		switch {
		case why != nil && call.CodeOf(err, "") == call.CodePolicyTimeout && ctx.Err() == nil:
			y = &rego.Explanation{Revision: l.Revision(), Verdict: call.Deny, Code: call.CodePolicyTimeout, Fired: []rego.FiredRule{}, Nearly: []rego.NearMiss{}}
		case why != nil:
			return why
		}
		one.Layers = append(one.Layers, y)
	}
	if late, ok := errors.AsType[*call.Error](err); ok && late.Code == call.CodePolicyTimeout {
		x.Detail = late.Detail
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		x.Verdict, x.Code = call.Deny, call.CodeOf(err, call.CodePolicyError)
		x.Meaning = x.Code.Info().Meaning
	case d.Verdict == call.Deny:
		x.Verdict = call.Deny
	case d.Verdict == call.Ask && x.Verdict != call.Deny:
		x.Verdict = call.Ask
	case d.Verdict == call.Pass && x.Verdict == call.Allow:
		x.Verdict = call.Pass // of a restrict layer alone
	}
	one.decision = d
	x.For = append(x.For, one)
	return nil
}

func (x *explainedCall) report(cmd *cobra.Command, format string) error {
	var err error
	if format == "json" {
		err = writeJSON(cmd.OutOrStdout(), x)
	} else {
		err = x.print(cmd.OutOrStdout())
	}
	if err != nil || x.Record == nil || len(x.Record.Differs) == 0 {
		return err
	}
	return exitWith(exitDenied, nil)
}

func (x *explainedCall) print(out io.Writer) error {
	var b strings.Builder
	if x.Record != nil {
		x.Record.print(&b)
	}
	fmt.Fprintf(&b, "verdict %s\n", x.Verdict)
	if x.Code != "" {
		fmt.Fprintf(&b, "code %s: %s\n", x.Code, x.Meaning)
	}
	if x.Detail != "" {
		fmt.Fprintf(&b, "%s\n", oneLine(x.Detail))
	}
	for _, p := range x.For {
		for _, l := range p.Layers {
			if len(x.For) > 1 {
				fmt.Fprintf(&b, "\nfor %s", oneLine(p.Who))
			}
			fmt.Fprintf(&b, "\nlayer %s: %s\n", l.Revision.Name, l.Verdict)
			printLayer(&b, l)
		}
	}
	_, err := io.WriteString(out, clean(b.String()))
	return err
}

// oneLine is text that a policy or a caller wrote: none may look like another line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func printLayer(b *strings.Builder, x *rego.Explanation) {
	if x.Code != "" {
		fmt.Fprintf(b, "  %s: %s %s\n", x.Code, x.Code.Info().Meaning, x.Where)
	}
	if x.Decision != nil {
		for _, r := range x.Decision.Reasons {
			fmt.Fprintf(b, "  %s\n", strings.TrimSuffix(r.Code+": "+oneLine(r.Message), ": "))
		}
	}
	fmt.Fprintln(b, "  rules that held:")
	for _, r := range x.Fired {
		fmt.Fprintf(b, "    %s  %s  %s\n", r.Where, r.Rule, oneLine(r.Title))
	}
	if len(x.Fired) == 0 {
		fmt.Fprintln(b, "    none")
	}
	if len(x.Nearly) > 0 {
		fmt.Fprintln(b, "  rules that nearly held:")
	}
	for _, m := range x.Nearly {
		printMiss(b, m, "    ")
	}
	if x.More > 0 {
		fmt.Fprintf(b, "    and %d more\n", x.More)
	}
}

func printMiss(b *strings.Builder, m rego.NearMiss, indent string) {
	fmt.Fprintf(b, "%s%s  %s  %s\n", indent, m.Where, m.Rule, oneLine(m.Title))
	fmt.Fprintf(b, "%s  %d of %d held; failed at %s: %s\n", indent, m.Held, m.Of, m.Failed.Where, m.Failed.Expr)
	for _, v := range m.Failed.Values {
		fmt.Fprintf(b, "%s    %s = %s\n", indent, v.Name, oneLine(v.Value))
	}
	for _, in := range m.Inside {
		printMiss(b, in, indent+"    ")
	}
}
