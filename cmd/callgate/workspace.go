package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/tool"
)

// pastCommand is a command about what one call changed.
type pastCommand struct {
	callParams
	shows func(id string, res *engine.Result) ([]byte, error) // what is printed of a result
}

func newUndo() *cobra.Command {
	p := &pastCommand{shows: func(id string, res *engine.Result) ([]byte, error) {
		return fmt.Appendf(nil, "undid %s; to take that back, undo %s", id, res.CallID), nil
	}}
	return p.command(engine.UndoTool, &cobra.Command{
		Use:   "undo CALL",
		Short: "Put back what one call changed in its workspace",
		Long: `Undo puts back the files, directories and links that one call changed in its
workspace, all of them or nothing. It refuses when anything is not as that call left it,
and for a call of another caller.

It is itself a call, of the tool workspace_undo: policy decides about it, it is recorded,
and it can be undone. -o json of callgate call says the id of a call. Who undoes is only
asserted by --as, and recorded as such.`,
		Example: "  callgate undo --as alice --roles analyst SUGUQ2PKVVNGRO3TCTLFQHRNZE",
	})
}

func newDiff() *cobra.Command {
	p := &pastCommand{shows: func(_ string, res *engine.Result) ([]byte, error) {
		var shown struct {
			Diff string `json:"diff"`
		}
		err := json.Unmarshal(res.Output, &shown, json.RejectUnknownMembers(true))
		return []byte(shown.Diff), err
	}}
	return p.command(engine.DiffTool, &cobra.Command{
		Use:   "diff CALL",
		Short: "Show what one call changed in its workspace",
		Long: `Diff shows what one call changed in its workspace: each name, and lines of text in the
unified format; other contents by their SHA-256 and size.

It is itself a call, of the tool workspace_diff: policy decides about it, and it is
recorded. -o json of callgate call says the id of a call.`,
		Example: "  callgate diff --as alice --roles analyst SUGUQ2PKVVNGRO3TCTLFQHRNZE",
	})
}

func (p *pastCommand) command(tool string, cmd *cobra.Command) *cobra.Command {
	p.tool = tool
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0]) }
	p.who(cmd)
	return cmd
}

func (p *pastCommand) run(cmd *cobra.Command, id string) error {
	conf, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	args, err := json.Marshal(map[string]string{"call": id})
	if err != nil {
		return errors.New("CALL is not text")
	}
	p.args = string(args)
	c, err := p.call(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return err
	}
	g, err := local.Join(cmd.Context(), conf.local(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	res, callErr := g.Do(cmd.Context(), c)
	if callErr == nil && p.output == "text" {
		if res.Output, err = p.shows(id, res); err != nil {
			return errors.Join(err, g.Close())
		}
	}
	return ended(cmd, g, p.output, p.tool, res, callErr)
}

// builtIn adds the tools that an engine of this configuration has by itself.
func (d *desk) builtIn() error {
	if d.conf == nil {
		return nil
	}
	var ceiling *call.Caps
	var err error
	if d.conf.Ceiling != "" {
		if ceiling, err = tool.LoadCeiling(d.conf.Ceiling); err != nil {
			return err
		}
	}
	var roots []string
	for _, r := range d.conf.Roots {
		roots = append(roots, r.Name)
	}
	slices.Sort(roots)
	for _, text := range engine.WorkspaceManifests(roots, ceiling) {
		m, err := tool.Parse([]byte(text))
		if err != nil {
			return err
		}
		d.tools = append(d.tools, m)
	}
	return nil
}
