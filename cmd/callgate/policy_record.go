package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
)

// explainedRecord is a decision of the log beside what would be decided now.
type explainedRecord struct {
	Index   int64           `json:"index"`
	Time    time.Time       `json:"time"`
	Verdict call.Verdict    `json:"verdict"` // as recorded
	Code    call.Code       `json:"code,omitzero"`
	Policy  []call.Revision `json:"policy"`
	Kept    bool            `json:"kept,omitzero"`    // the explanation is of the bundles that decided, which are not those of now
	Missing []call.Revision `json:"missing,omitzero"` // that decided, and are neither kept nor those of now
	Differs []string        `json:"differs,omitzero"` // where it is decided otherwise
	Changed []string        `json:"changed,omitzero"` // what else is no longer as it was
}

func (r *explainedRecord) print(b *strings.Builder) {
	fmt.Fprintf(b, "record %d of %s: %s", r.Index, r.Time.Format(time.RFC3339), r.Verdict)
	if r.Code != "" {
		fmt.Fprintf(b, ", %s", r.Code)
	}
	fmt.Fprintln(b)
	if r.Kept {
		fmt.Fprintln(b, "*** THE POLICY IS ANOTHER ONE NOW. What follows is about the one that decided.")
	}
	for _, m := range r.Missing {
		fmt.Fprintf(b, "*** THE POLICY THAT DECIDED IS NOT HERE: %s. What follows is about another one.\n", oneLine(revisionText(m)))
	}
	for _, c := range r.Changed {
		fmt.Fprintf(b, "*** CHANGED SINCE: %s\n", c)
	}
	for _, d := range r.Differs {
		fmt.Fprintf(b, "*** IT IS DECIDED OTHERWISE NOW: %s\n", d)
	}
}

// recorded explains a decision of the log.
func (e *explaining) recorded(cmd *cobra.Command, index int64, a *askParams) (*explainedCall, error) {
	if e.conf == nil {
		return nil, errors.New("--record: there is no configuration that says where the log is")
	}
	for _, name := range []string{"as", "kind", "tenant", "roles", "tool", "class", "labels", "at", "input"} {
		if cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--record and --%s: the record says that", name)
		}
	}
	h, err := e.history(cmd, index)
	if err != nil {
		return nil, err
	}
	in, err := e.replay(cmd, h, a)
	if err != nil {
		return nil, err
	}
	r := h.record
	x := &explainedCall{Verdict: call.Allow, Record: &explainedRecord{
		Index: index, Time: r.Time, Verdict: r.Verdict, Code: r.Code, Policy: r.Policy,
	}}
	now := *e
	then, err := e.then(cmd.Context(), x.Record)
	if err != nil {
		return nil, err
	}
	if err := then.explainAll(cmd.Context(), r, in, x); err != nil {
		return nil, err
	}
	if err := e.compare(x, r, in); err != nil || !x.Record.Kept {
		return x, err
	}
	is := &explainedCall{Verdict: call.Allow}
	if err := now.explainAll(cmd.Context(), r, in, is); err != nil {
		return nil, err
	}
	if is.Verdict != x.Verdict {
		x.Record.Differs = append(x.Record.Differs, fmt.Sprintf("%s, and the policy said %s", is.Verdict, x.Verdict))
	}
	return x, nil
}

func (e *explaining) explainAll(ctx context.Context, r call.Record, in *call.Input, x *explainedCall) error {
	for _, who := range chain(*r.Principal) {
		one := *in
		one.Principal = who
		if err := e.explain(ctx, &one, x); err != nil {
			return err
		}
	}
	return nil
}

// history is a decision of the log, and what its session was by then.
type history struct {
	record  call.Record
	session call.SessionChange
}

func (e *explaining) history(cmd *cobra.Command, index int64) (*history, error) {
	h := &history{}
	sessions := map[string]call.SessionChange{}
	err := audit.ReadUpTo(cmd.Context(), e.conf.Data, index, func(i int64, line []byte) error {
		r, err := call.DecodeRecord(line)
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if i == index {
			h.record = r
		} else if r.Change != nil && r.Change.Session != nil {
			s := sessions[r.Change.Session.ID]
			s.Merge(*r.Change.Session)
			sessions[r.Change.Session.ID] = s
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("--record %d: %w", index, err)
	}
	switch r := h.record; {
	case r.Type != call.TypeDecision:
		return nil, fmt.Errorf("--record %d: is no decision, but of type %s", index, r.Type)
	case r.Principal == nil || r.Tool == nil || r.Tool.Name == "" || r.Args == "" || len(r.Policy) == 0:
		return nil, fmt.Errorf("--record %d: the call was refused before any policy was asked: %s", index, r.Code)
	}
	h.session = sessions[h.record.Session]
	return h, nil
}

// replay makes the input anew. The arguments must be those that were decided on.
func (e *explaining) replay(cmd *cobra.Command, h *history, a *askParams) (*call.Input, error) {
	r := h.record
	raw, err := readArgs(cmd.Context(), a.args, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	args, err := call.Canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("--args: %w", err)
	}
	in := &call.Input{
		Tool: call.Tool{Name: r.Tool.Name, Kind: r.Tool.Kind, Class: "unclassified", Digest: r.Tool.Digest}, Args: args,
		Session:  call.Session{ID: r.Session, Labels: []string{}, Calls: a.calls},
		Env:      call.Env{NowNS: r.Time.UnixNano(), Node: r.Node},
		Asserted: call.Asserted{Justification: a.justification},
	}
	for label, end := range sorted(h.session.Labels) {
		if end > in.Env.NowNS {
			in.Session.Labels = append(in.Session.Labels, label)
		}
	}
	if h.session.PlanUntil > in.Env.NowNS {
		in.Session.Plan = h.session.Plan
	}
	if m := e.manifest(r.Tool.Name); m != nil {
		in.Tool = m.Tool()
		if err := e.complete(in); err != nil {
			return nil, fmt.Errorf("--args: the tool no longer takes them: %w", err)
		}
	}
	if r.Enforcement == "convention" { // which no manifest says
		in.Tool.Digest, in.Tool.Findings = r.Tool.Digest, []string{"raw"}
	}
	key, err := audit.FindSalt(e.conf.Data, r.Principal.Tenant, r.Time)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("--record: the key of that day is erased, and nobody can tell what the arguments were")
	}
	if err != nil {
		return nil, err
	}
	if call.Keyed(key, r.Call, "args", in.Args.Bytes()) != r.Args && call.Keyed(key, r.Call, "args", args.Bytes()) != r.Args {
		return nil, errors.New("--args: THESE ARE NOT THE ARGUMENTS OF THE RECORD: their keyed digest is another one")
	}
	return in, nil
}

func (d *desk) manifest(name string) *tool.Manifest {
	if i := slices.IndexFunc(d.tools, func(m *tool.Manifest) bool { return m.Name == name }); i >= 0 {
		return d.tools[i]
	}
	return nil
}

// chain is the principal of a record and everybody it acts for.
func chain(r call.RecordPrincipal) []call.Principal {
	out := []call.Principal{{ID: r.ID, Kind: r.Kind, Roles: r.Roles, Tenant: r.Tenant, Auth: r.Auth}}
	for _, o := range r.OnBehalfOf {
		out = append(out, chain(o)...)
	}
	return out
}
