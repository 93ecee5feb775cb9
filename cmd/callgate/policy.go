package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Test, check, explain and compare policies",
		Long: `Policy has the tools of those who write policies. A policy is the directory or
archive that is named, or else the layers of callgate.yaml; the tools that calls are
about are those of callgate.yaml, if there is one.

Nothing of this makes a call, and nothing is recorded.

Exit codes: 0 all is well, 1 something was found, failed, or is newly allowed, 2
could not tell.`,
		Example: `  callgate policy check bundle && callgate policy test bundle --threshold 100
  callgate policy explain --as alice --roles analyst --tool read-file --args '{"path": "/docs/a.txt"}'
  callgate policy diff main/bundle bundle`,
		Args: cobra.NoArgs,
		RunE: needSubcommand,
	}
	cmd.AddCommand(
		newPolicyTest(), newPolicyCheck(), newPolicyLint(), newPolicyEval(), newPolicyExplain(),
		newPolicyDiff(), newPolicyWhoCan(), newPolicyWhatCan(), newPolicyVendor(),
	)
	return cmd
}

// policyParams say which policy is meant, and where it would decide.
type policyParams struct {
	tools, role, entrypoint, output string
	roles                           []string
}

func (p *policyParams) flags(cmd *cobra.Command) {
	p.plainFlags(cmd)
	cmd.Flags().String(flagName(decideTimeoutKey), "", configFlags[decideTimeoutKey])
}

// plainFlags are for commands that do not ask for decisions.
func (p *policyParams) plainFlags(cmd *cobra.Command) {
	addConfigFlags(cmd, decideTimeoutKey)
	outputFlag(cmd, &p.output)
	f := cmd.Flags()
	f.StringVar(&p.tools, "tools", "", "directory with the tools (default: that of callgate.yaml)")
	f.StringVar(&p.role, "role", "", "permit or restrict, of a policy that is named (default: that of callgate.yaml, else permit)")
	f.StringVar(&p.entrypoint, "entrypoint", "", "the rule that answers, of a policy written for something else")
}

// desk is a policy and what is known of where it decides.
type desk struct {
	layers []local.Layer
	tools  []*tool.Manifest // nil: not known
	conf   *Config          // nil: there is none
	most   time.Duration    // for a decision
}

// desk finds the policy at path, or that of the configuration for "".
func (p *policyParams) desk(cmd *cobra.Command, path string) (*desk, error) {
	d := &desk{}
	conf, err := loadConfig(cmd)
	switch {
	case err == nil:
		d.conf = &conf
	case path == "" || cmd.Flags().Changed("config") || !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if d.most, err = decideTimeoutOf(cmd, d.conf); err != nil {
		return nil, err
	}
	dir := p.tools
	if dir == "" && d.conf != nil {
		dir = d.conf.Tools
	}
	if dir != "" {
		if d.tools, err = loadTools(dir); err == nil {
			err = d.builtIn()
		}
		if err != nil {
			return nil, err
		}
	}
	if d.layers, err = p.layers(d.conf, path); err != nil {
		return nil, err
	}
	return d, nil
}

func (p *policyParams) layers(conf *Config, path string) ([]local.Layer, error) {
	var known []local.Layer
	if conf != nil {
		if len(conf.Layers) == 0 {
			known = []local.Layer{{Bundle: conf.Bundle}}
		}
		for _, l := range conf.Layers {
			known = append(known, local.Layer{Name: l.Name, Role: l.Role, Mode: l.Mode, Bundle: l.Bundle, Entrypoint: l.Entrypoint})
		}
	}
	if path == "" {
		if p.role != "" || p.entrypoint != "" {
			return nil, errors.New("--role and --entrypoint are for a policy that is named")
		}
		return slices.DeleteFunc(known, func(l local.Layer) bool { return l.Mode == local.InShadow }), nil
	}
	one := local.Layer{Bundle: path, Role: p.role, Entrypoint: p.entrypoint}
	for _, l := range known {
		if samePlace(l.Bundle, path) {
			one.Name = l.Name
			if p.role == "" {
				one.Role = l.Role
			}
			if p.entrypoint == "" {
				one.Entrypoint = l.Entrypoint
			}
		}
	}
	return []local.Layer{one}, nil
}

func samePlace(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

func optionsOf(l local.Layer) rego.Options {
	return rego.Options{Name: l.Name, Role: rego.Role(l.Role), Entrypoint: l.Entrypoint}
}

// load reads a layer. Of one that is published elsewhere it is the bundle that
// decides now, as the data directory keeps it.
func (d *desk) load(l local.Layer) (fs.FS, error) {
	if !strings.Contains(l.Bundle, "://") || d.conf == nil {
		return rego.Load(l.Bundle)
	}
	store := keptBundles(d.conf)
	kept, err := store.List()
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		if slices.Contains(k.Layers, cmp.Or(l.Name, call.DefaultLayer)) {
			return keptFiles(store, k)
		}
	}
	return nil, fmt.Errorf("layer %s: no bundle of %s has decided here yet; name an archive of it", cmp.Or(l.Name, call.DefaultLayer), source.Redacted(l.Bundle))
}

// keptBundles are the bundles that have decided.
func keptBundles(c *Config) *source.Store { return source.NewStore(filepath.Join(c.Data, "bundles")) }

func keptFiles(s *source.Store, k source.Kept) (fs.FS, error) {
	b, err := s.Read(k.Archive)
	if err != nil {
		return nil, err
	}
	return rego.Archive(bytes.NewReader(b))
}

func (d *desk) open(ctx context.Context) ([]*rego.Policy, error) {
	var all []*rego.Policy
	for _, l := range d.layers {
		fsys, err := d.load(l)
		if err != nil {
			return nil, err
		}
		p, err := rego.Open(ctx, fsys, optionsOf(l))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// decider compiles the policy. One layer alone may be a restrict layer, which is no
// set. It has the engine's time for each answer.
func (d *desk) decider(ctx context.Context) (rego.Decider, []*rego.Policy, error) {
	all, err := d.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, err := d.together(all)
	return p, all, err
}

func (d *desk) together(all []*rego.Policy) (rego.Decider, error) {
	if len(all) == 1 {
		return timed{all[0], d.most}, nil
	}
	set, err := rego.NewSet(all...)
	return timed{set, d.most}, err
}

func loadTools(dir string) ([]*tool.Manifest, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	out := []*tool.Manifest{}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if _, err := os.Stat(filepath.Join(at, tool.FileName)); err != nil {
			continue
		}
		m, _, err := tool.Load(at)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// infos is what policies are checked against; nil if the tools are not known.
func (d *desk) infos() []rego.ToolInfo {
	if d.tools == nil {
		return nil
	}
	out := []rego.ToolInfo{}
	for _, m := range d.tools {
		out = append(out, rego.ToolInfo{Name: m.Name, Tool: m.Tool(), Caps: m.Caps, Args: m.Input()})
	}
	return out
}

// complete walks the first station of the road, as the engine does: the arguments'
// schema, facts, and canonical arguments.
func (d *desk) complete(in *call.Input) error {
	i := slices.IndexFunc(d.tools, func(m *tool.Manifest) bool { return m.Name == in.Tool.Name })
	if i < 0 {
		return nil // nobody knows it
	}
	m := d.tools[i]
	if err := m.Check(in.Args); err != nil {
		return err
	}
	facts, args, err := m.Derive(in.Args)
	if err != nil {
		return err
	}
	in.Facts, in.Args = facts, args
	return nil
}

func oneArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
