package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
)

type callParams struct {
	as, kind, tenant, tool, args, justification, output string
	roles                                               []string
	dryRun                                              bool
}

func newCall() *cobra.Command {
	var p callParams
	cmd := &cobra.Command{
		Use:   "call",
		Short: "Make one tool call through the gate",
		Long: `Call takes one tool call down the whole road: policy decides, the decision is
recorded, the tool runs within its grant, and what it did is recorded.

The tool's output goes to stdout. With -o json the whole result does. Who calls is
only asserted by --as, and recorded as such.

With --dry-run nothing runs, nothing is used up, nobody is asked and nothing is
recorded: it says what would become of the call now, and why. It exits with 0 if
the call would run, 1 if it would be refused or had to wait, 2 if it cannot tell.`,
		Example: `  callgate call --as alice --roles analyst --tool read-file --args '{"path": "/docs/welcome.txt"}'
  callgate call --as alice --roles analyst --tool read-file --args @args.json -o json
  callgate call --as alice --roles analyst --tool read-file --args @args.json --dry-run
  echo '{"path": "/docs/welcome.txt"}' | callgate call --as alice --roles analyst --tool read-file --args -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "only say what would become of the call")
	return cmd
}

// flags are those that say what is called, and by whom.
func (p *callParams) flags(cmd *cobra.Command) {
	p.who(cmd)
	f := cmd.Flags()
	f.StringVar(&p.tool, "tool", "", "name of the tool")
	f.StringVar(&p.args, "args", "{}", "arguments: JSON, @file, or - for stdin")
	required(cmd, "tool")
}

// who are those that say who calls, and why.
func (p *callParams) who(cmd *cobra.Command) {
	addConfigFlags(cmd)
	outputFlag(cmd, &p.output)
	f := cmd.Flags()
	f.StringVar(&p.as, "as", "", "id of who calls")
	f.StringVar(&p.kind, "kind", "user", "what they are: agent, user or service")
	f.StringVar(&p.tenant, "tenant", "", "their tenant")
	f.StringSliceVar(&p.roles, "roles", nil, "their roles, separated by commas")
	f.StringVar(&p.justification, "justification", "", "why, in the caller's own words")
	required(cmd, "as")
}

func required(cmd *cobra.Command, name string) {
	if err := cmd.MarkFlagRequired(name); err != nil {
		panic(err) // the flag was defined above
	}
}

func (p *callParams) run(cmd *cobra.Command) error {
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
	if p.dryRun {
		x, err := g.Explain(cmd.Context(), c)
		return p.explained(cmd, x, errors.Join(err, g.Close()))
	}
	res, callErr := g.Do(cmd.Context(), c)
	return ended(cmd, g, p.output, p.tool, res, callErr)
}

// ended closes the gate and prints what became of the call.
func ended(cmd *cobra.Command, g local.Gate, format, tool string, res *engine.Result, callErr error) error {
	// For an owner, the outcome is durable once the gate is closed.
	if err := g.Close(); err != nil {
		return fmt.Errorf("closing the log: %w", err)
	}
	_, denied := errors.AsType[*engine.Denial](callErr)
	_, failed := errors.AsType[*engine.ToolError](callErr)
	if callErr != nil && !denied && !failed {
		return callErr // nobody knows what became of it, such as local.ErrUnknown
	}
	return report(cmd, format, tool, res, callErr)
}

// call builds the call from the flags.
func (p *callParams) call(ctx context.Context, in io.Reader) (call.Call, error) {
	args, err := readArgs(ctx, p.args, in)
	if err != nil {
		return call.Call{}, err
	}
	c := call.Call{
		Principal: asserted(p.as, p.kind, p.tenant, p.roles),
		Tool:      p.tool,
		Args:      args,
	}
	if p.justification != "" {
		q, err := jsontext.AppendQuote(nil, p.justification)
		if err != nil {
			return call.Call{}, fmt.Errorf("--justification: %w", err)
		}
		c.Asserted = fmt.Appendf(nil, `{"justification":%s,"context":{}}`, q)
	}
	return c, nil
}

// asserted is a principal for whom there is nothing but the caller's word.
func asserted(id, kind, tenant string, roles []string) call.Principal {
	return call.Principal{ID: id, Kind: kind, Tenant: tenant, Roles: roles, Auth: local.Asserted()}
}

// readArgs reads at most a byte more than the engine takes, so that what is too
// large is refused and recorded by the engine like any other call.
func readArgs(ctx context.Context, arg string, in io.Reader) ([]byte, error) {
	if arg != "-" && !strings.HasPrefix(arg, "@") {
		return []byte(arg), nil
	}
	from := strings.TrimPrefix(arg, "@")
	if arg == "@-" {
		from = "./-" // a file of that name
	}
	return readFrom(ctx, "--args", from, in, call.MaxArgsBytes+1)
}

// readFrom reads so many bytes at most from a file, or from in for -.
func readFrom(ctx context.Context, flag, from string, in io.Reader, most int64) ([]byte, error) {
	type answer struct {
		b   []byte
		err error
	}
	done := make(chan answer, 1)
	go func() { // a pipe that nobody writes to must not keep a signal from ending this
		if from != "-" {
			f, err := os.Open(from)
			if err != nil {
				done <- answer{nil, fmt.Errorf("%s: %w", flag, err)}
				return
			}
			defer f.Close()
			in = f
		}
		b, err := io.ReadAll(io.LimitReader(in, most))
		done <- answer{b, err}
	}()
	select {
	case a := <-done:
		return a.b, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: interrupted", flag)
	}
}

// callResult is what -o json prints of a call.
type callResult struct {
	Call       string         `json:"call"`
	Tool       string         `json:"tool"`
	Verdict    call.Verdict   `json:"verdict"` // allow only if the tool ran
	Code       call.Code      `json:"code"`
	Meaning    string         `json:"meaning"`
	Detail     string         `json:"detail,omitzero"`
	Reasons    []call.Reason  `json:"reasons,omitzero"`
	ApprovalID string         `json:"approval,omitzero"`
	Limit      *limitResult   `json:"limit,omitzero"`
	RetryMS    int64          `json:"retry_after_ms,omitzero"`
	Output     jsontext.Value `json:"output,omitzero"`      // when it is JSON
	OutputText string         `json:"output_text,omitzero"` // when it is other text
	OutputRaw  []byte         `json:"output_base64,omitzero"`
	Stderr     string         `json:"stderr,omitzero"`
	Outcome    *call.Outcome  `json:"outcome,omitzero"`
	TookUS     int64          `json:"took_us,omitzero"` // of the tool's run
	Record     int64          `json:"record"`           // index in the log; -1 for none
}

// limitResult is the limit that refused a call.
type limitResult struct {
	Name      string `json:"name"`
	Limit     int64  `json:"limit"`     // units when nothing is used
	Remaining int64  `json:"remaining"` // units left
}

// report prints what became of a call and returns its exit code.
func report(cmd *cobra.Command, format, tool string, res *engine.Result, err error) error {
	r := describe(tool, res, err)
	code := exitOf(r.Code.Info().Class)
	if r.Outcome == nil && code == exitFailed {
		code = exitUnsure // a code of runs, yet nothing ran
	}
	if format == "json" {
		if err := writeJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
		return exitWith(code, nil)
	}
	if res != nil {
		if err := writeOutput(cmd.OutOrStdout(), res.Output); err != nil {
			return err
		}
	}
	errOut := cmd.ErrOrStderr()
	said(errOut, tool, r.Stderr)
	if err != nil {
		err = fmt.Errorf("%w [call %s, record %d]", err, r.Call, r.Record)
	}
	return exitWith(code, err)
}

// explained prints what would become of the call and returns the exit code that it
// would have, as far as that is known.
func (p *callParams) explained(cmd *cobra.Command, x *engine.Explanation, err error) error {
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		return exitWith(exitOf(d.Code.Info().Class), err)
	}
	if err != nil {
		return err
	}
	if p.output == "json" {
		err = writeJSON(cmd.OutOrStdout(), x)
	} else {
		err = printExplanation(cmd.OutOrStdout(), p.tool, x)
	}
	if err != nil {
		return err
	}
	return exitWith(exitOf(x.Code.Info().Class), nil)
}

func printExplanation(w io.Writer, tool string, x *engine.Explanation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, a ...any) {
		// One line, whatever a policy wrote: none may look like another.
		fmt.Fprintf(t, "%s\t%s\n", name, strings.NewReplacer("\n", " ", "\t", " ").Replace(clean(fmt.Sprintf(format, a...))))
	}
	switch x.Verdict {
	case call.Allow:
		line("verdict", "%s would run", tool)
	case call.Ask:
		line("verdict", "%s would have to wait", tool)
	default:
		line("verdict", "%s would be refused", tool)
	}
	if x.Code != call.CodeOK {
		line("code", "%s: %s", x.Code, x.Code.Info().Meaning)
	}
	if x.Detail != "" {
		line("detail", "%s", x.Detail)
	}
	for _, r := range x.Reasons {
		line("reason", "%s", strings.TrimSpace(call.InLayer(r.Layer, r.Code)+" "+r.Message))
		if r.Remedy != "" {
			line("remedy", "%s", r.Remedy)
		}
	}
	if x.Tool.Name != "" {
		line("tool", "%s (%s, %s) %s", x.Tool.Name, x.Tool.Kind, x.Tool.Class, x.Tool.Digest)
	}
	if x.Args != nil {
		line("arguments", "%s", x.Args)
	}
	facts, factsErr := json.Marshal(x.Facts)
	caps, capsErr := json.Marshal(x.Caps)
	if err := errors.Join(factsErr, capsErr); err != nil {
		return err
	}
	if string(facts) != "{}" {
		line("facts", "%s", facts)
	}
	if x.Caps != nil {
		line("could do", "%s", caps)
	}
	for _, l := range x.Limits {
		line("limit", "%s", left(l))
	}
	if len(x.Approvals) > 0 {
		line("needs", "%s", needs(x.Approvals))
	}
	if x.ApprovalID != "" {
		line("approval", "%s is %s", x.ApprovalID, x.Standing)
	} else if len(x.Approvals) > 0 {
		line("approval", "nobody is asked yet")
	}
	if len(x.Labels) > 0 {
		line("labels", "%s", strings.Join(x.Labels, ", "))
	}
	if x.Session != "" {
		line("session", "%s", x.Session)
	}
	for _, k := range x.Plan {
		line("task", "%s", strings.TrimSpace(fmt.Sprintf("%s is %s %s", k.ID, k.Status, strings.Join(k.Tools, " "))))
	}
	for _, r := range x.Policy {
		line("policy", "%s %s %s", r.Name, cmp.Or(r.Revision, "-"), r.Digest)
	}
	return t.Flush()
}

// left says what one limit has to say.
func left(l engine.ExplainedLimit) string {
	wait := time.Duration(l.RetryMS) * time.Millisecond
	switch {
	case l.RetryMS == 0:
		return fmt.Sprintf("%s: %d of %d left after this call", l.Name, l.Remaining, l.Limit)
	case l.RetryMS >= 1<<62/int64(time.Millisecond):
		return fmt.Sprintf("%s: %d of %d left, which is never enough", l.Name, l.Remaining, l.Limit)
	default:
		return fmt.Sprintf("%s: %d of %d left, try again in %v", l.Name, l.Remaining, l.Limit, max(wait.Round(time.Second), time.Second))
	}
}

func exitWith(code int, err error) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code, err: err}
}

func describe(tool string, res *engine.Result, err error) callResult {
	r := callResult{Tool: tool, Verdict: call.Allow, Code: call.CodeInternal, Record: -1}
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		d.Tool = tool // the engine does not repeat a name that it does not know
		r.Call, r.Code, r.Detail, r.Reasons, r.ApprovalID = d.CallID, d.Code, d.Detail, d.Reasons, d.ApprovalID
		if l := d.Limited; l != nil {
			r.Limit = &limitResult{l.Name, l.Limit, l.Remaining}
		}
		r.RetryMS, r.Record, r.Verdict = d.RetryAfter.Milliseconds(), d.Receipt.Index, call.Deny
		if errors.Is(err, engine.ErrPending) {
			r.Verdict = call.Ask
		}
	}
	if te, ok := errors.AsType[*engine.ToolError](err); ok {
		res = te.Result
	}
	if res != nil {
		r.Call, r.Record, r.Code = res.CallID, res.Receipt.Index, res.Outcome.Code
		r.Outcome, r.TookUS = &res.Outcome, res.Outcome.Took.Microseconds()
		r.Stderr = strings.ToValidUTF8(string(res.Outcome.Stderr), "\uFFFD")
		switch v := jsontext.Value(res.Output); {
		case len(v) == 0:
		case v.IsValid():
			r.Output = v
		case utf8.Valid(res.Output):
			r.OutputText = string(res.Output)
		default:
			r.OutputRaw = res.Output
		}
	}
	r.Meaning = r.Code.Info().Meaning
	return r
}
