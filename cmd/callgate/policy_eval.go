package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/rego"
)

// askParams are the call that a policy is asked about.
type askParams struct {
	as, kind, tenant, tool, class, args, justification, at, input string
	roles, labels, findings                                       []string
	calls                                                         int64
}

func (p *askParams) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.as, "as", "alice", "id of who calls")
	f.StringVar(&p.kind, "kind", "user", "what they are: agent, user or service")
	f.StringVar(&p.tenant, "tenant", "", "their tenant")
	f.StringSliceVar(&p.roles, "roles", nil, "their roles, separated by commas")
	f.StringVar(&p.tool, "tool", "", "name of the tool")
	f.StringVar(&p.class, "class", "unclassified", "read, write, destructive or unclassified, of a tool that is not known")
	f.StringVar(&p.args, "args", "{}", "arguments: JSON, @file, or - for stdin")
	f.StringVar(&p.justification, "justification", "", "why, in the caller's own words")
	f.StringSliceVar(&p.labels, "labels", nil, "labels of the session, separated by commas")
	f.StringSliceVar(&p.findings, "findings", nil, "open findings about the tool, separated by commas")
	f.Int64Var(&p.calls, "calls", 0, "calls that the session has made")
	f.StringVar(&p.at, "at", "", "when, such as 2026-05-01T12:00:00Z (default: now)")
	f.StringVar(&p.input, "input", "", "the whole input as JSON, in a file or - for stdin, in place of all of these")
}

// ask makes the input. A call that the engine would refuse before it asks any policy
// is a [*call.Error] with its code.
func (p *askParams) ask(cmd *cobra.Command, d *desk) (*call.Input, error) {
	if p.input != "" {
		return p.whole(cmd.Context(), cmd.InOrStdin())
	}
	if p.tool == "" {
		return nil, errors.New("--tool or --input is missing")
	}
	at := now()
	if p.at != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, p.at); err != nil {
			return nil, errors.New("--at: want a time such as 2026-05-01T12:00:00Z")
		}
	}
	raw, err := readArgs(cmd.Context(), p.args, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	args, err := call.Canonical(raw)
	if err != nil {
		return nil, err
	}
	slices.Sort(p.labels)
	in := &call.Input{
		Tool: call.Tool{Name: p.tool, Kind: "external", Class: p.class, Digest: "sha256:" + hex.EncodeToString(make([]byte, 32))},
		Args: args, Principal: asserted(p.as, p.kind, p.tenant, p.roles),
		Session:  call.Session{ID: "session", Run: "run", Labels: slices.Compact(p.labels), Calls: p.calls},
		Env:      call.Env{NowNS: at.UnixNano(), Node: "node"},
		Asserted: call.Asserted{Justification: p.justification},
	}
	if i := slices.IndexFunc(d.tools, func(m *tool.Manifest) bool { return m.Name == p.tool }); i >= 0 {
		in.Tool = d.tools[i].Tool()
	} else if d.tools != nil {
		return nil, &call.Error{Code: call.CodeToolUnknown}
	}
	in.Tool.Findings = append([]string{}, p.findings...)
	return in, d.complete(in)
}

// maxInputBytes is more than any input the engine makes.
const maxInputBytes = 8 << 20

func (p *askParams) whole(ctx context.Context, stdin io.Reader) (*call.Input, error) {
	from := stdin
	if p.input != "-" {
		f, err := os.Open(p.input)
		if err != nil {
			return nil, fmt.Errorf("--input: %w", err)
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxInputBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	if len(b) > maxInputBytes {
		return nil, errors.New("--input: is too large")
	}
	in, err := rego.ParseInput(b)
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	return in, ctx.Err()
}

func newPolicyEval() *cobra.Command {
	var p policyParams
	var a askParams
	cmd := &cobra.Command{
		Use:   "eval [DIR|ARCHIVE]",
		Short: "Say what a policy decides about one call",
		Long: `Eval prints the decision of a policy about one call: of all layers together, if it
is that of callgate.yaml. The call is made of flags, with facts as the tool's manifest
declares them, or it is a whole input as rego/schema/input.json describes it.

Only policy is asked: no limit is taken, no approval looked at.

Exit codes: 0 allowed, 1 denied or waiting for approval, 2 could not tell.`,
		Example: `  callgate policy eval bundle --tool read-file --roles analyst --args '{"path": "/docs/a.txt"}'
  callgate policy eval bundle --input input.json -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := p.desk(cmd, oneArg(args))
			if err != nil {
				return err
			}
			policy, _, err := d.decider(cmd.Context())
			if err != nil {
				return err
			}
			e, err := evaluate(cmd, policy, d, &a)
			if err != nil {
				return err
			}
			return e.report(cmd, p.output)
		},
	}
	p.flags(cmd)
	a.flags(cmd)
	return cmd
}

// evaluated is what -o json prints.
type evaluated struct {
	Verdict  call.Verdict    `json:"verdict"`
	Code     call.Code       `json:"code,omitzero"` // why there is no decision
	Meaning  string          `json:"meaning,omitzero"`
	Detail   string          `json:"detail,omitzero"`
	Where    string          `json:"where,omitzero"`
	Decision *call.Decision  `json:"decision,omitzero"`
	Policy   []call.Revision `json:"policy,omitzero"`
}

func evaluate(cmd *cobra.Command, policy rego.Decider, d *desk, a *askParams) (*evaluated, error) {
	in, err := a.ask(cmd, d)
	var dec call.Decision
	if err == nil {
		dec, err = policy.Decide(cmd.Context(), in)
	}
	if cmd.Context().Err() != nil {
		return nil, cmd.Context().Err()
	}
	if refused, ok := errors.AsType[*call.Error](err); ok {
		return &evaluated{Verdict: call.Deny, Code: refused.Code, Meaning: refused.Code.Info().Meaning, Detail: refused.Detail, Where: refused.Where}, nil
	}
	if err != nil {
		return nil, err
	}
	shown, err := rego.Redacted(in, dec)
	if err != nil {
		return nil, err
	}
	return &evaluated{Verdict: dec.Verdict, Decision: shown, Policy: dec.Revisions}, nil
}

func (e *evaluated) report(cmd *cobra.Command, format string) error {
	var err error
	if format == "json" {
		err = writeJSON(cmd.OutOrStdout(), e)
	} else {
		err = e.print(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	return exitWith(exitOfVerdict(e.Verdict), nil)
}

func exitOfVerdict(v call.Verdict) int {
	if v == call.Allow || v == call.Pass {
		return exitOK
	}
	return exitDenied
}

func (e *evaluated) print(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, a ...any) {
		text := strings.NewReplacer("\n", " ", "\t", " ").Replace(fmt.Sprintf(format, a...))
		fmt.Fprintf(&b, "%-10s %s\n", name, text)
	}
	line("verdict", "%s", e.Verdict)
	if e.Code != "" {
		line("code", "%s: %s", e.Code, e.Meaning)
		line("detail", "%s", strings.TrimSpace(e.Detail+" "+e.Where))
	}
	if d := e.Decision; d != nil {
		if err := printDecision(line, d); err != nil {
			return err
		}
	}
	for _, r := range e.Policy {
		line("policy", "%s", revisionText(r))
	}
	_, err := io.WriteString(w, clean(b.String()))
	return err
}

func revisionText(r call.Revision) string {
	return strings.Join(strings.Fields(r.Name+" "+r.Revision+" "+r.Digest), " ")
}

// takes is what a limit takes of its budget.
func takes(l call.Limit) string {
	switch {
	case l.Charge == "":
		return strconv.FormatInt(max(1, l.Cost), 10)
	case l.Cost == 0:
		return "its " + l.Charge
	default:
		return fmt.Sprintf("at most %d %s", l.Cost, l.Charge)
	}
}

// spanText is a span as people write it: 24h for 86400000000000ns.
func spanText(per string) string {
	d, err := time.ParseDuration(per)
	if err != nil {
		return "a " + per // day or month
	}
	text := d.String()
	for _, nothing := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, nothing) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func printDecision(line func(name, format string, a ...any), d *call.Decision) error {
	for _, r := range d.Reasons {
		line("reason", "%s", strings.TrimSuffix(call.InLayer(r.Layer, r.Code)+": "+r.Message, ": "))
		if r.Remedy != "" {
			line("remedy", "%s", r.Remedy)
		}
	}
	if len(d.Approvals) > 0 {
		line("needs", "%s", needs(d.Approvals))
	}
	for _, g := range d.Grants {
		b, err := json.Marshal(g)
		if err != nil {
			return err
		}
		line("grant", "%s", b)
	}
	for _, l := range d.Limits {
		line("limit", "%s: %s of %d within %s", call.InLayer(l.Layer, l.Name), takes(l), l.Burst, spanText(l.Per))
	}
	for name, list := range sorted(map[string][]string{"label": d.Labels, "on result": d.ResultLabels}) {
		if len(list) > 0 {
			line(name, "%s", strings.Join(list, ", "))
		}
	}
	for name, o := range sorted(map[string]call.Obligation{"redact": d.Redact, "fields": d.Fields, "rows": d.Rows, "frame": d.Frame}) {
		for _, v := range o {
			line(name, "%s", bytes.TrimSpace([]byte(v)))
		}
	}
	if d.Cap != nil {
		b, err := json.Marshal(d.Cap, jsontext.Multiline(false))
		if err != nil {
			return err
		}
		line("cap", "%s", b)
	}
	return nil
}
