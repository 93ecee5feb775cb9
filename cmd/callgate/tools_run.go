package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

type toolRun struct {
	grant, args, ca, output         string
	journal                         string // of a grant of a workspace
	roots, networks, hosts, secrets []string
}

func newToolsRun() *cobra.Command {
	var p toolRun
	cmd := &cobra.Command{
		Use:   "run FILE.wasm --grant grant.json",
		Short: "Try a tool alone, with a grant of your own",
		Long: `Run runs the module in a file once, in the sandbox, with the capabilities that are
in a file: a grant as policies write it. It is for whoever writes the tool. No policy is
asked, nothing is recorded, and no data directory is needed; what the tool may do is what
you give it here, of what you can do yourself.

The result goes to stdout. What the tool logged, every effect, and what it used go to
stderr; with -o json all of it goes to stdout.

Roots, networks, hosts and credentials are named as in callgate.yaml. A tool that calls a
server of your own on this machine, say, needs --ca for its certificate, --host for its
name, and --network for its address.`,
		Example: `  callgate tools run word-count.wasm --grant grant.json --root files=files --args @args.json
  callgate tools run fetch.wasm --grant grant.json --args '{"url": "https://localhost.example/"}' \
    --ca ca.pem --host localhost.example=127.0.0.1:8443 --network here=127.0.0.0/8`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0]) },
	}
	outputFlag(cmd, &p.output)
	f := cmd.Flags()
	f.StringVar(&p.grant, "grant", "", "file of the capabilities that it has, in JSON, or - for stdin")
	f.StringVar(&p.args, "args", "{}", "arguments: JSON, @file, or - for stdin")
	f.StringArrayVar(&p.roots, "root", nil, "NAME=DIR, a directory that the grant gives parts of")
	f.StringArrayVar(&p.networks, "network", nil, "NAME=RANGE, addresses that the grant gives, such as here=127.0.0.0/8")
	f.StringArrayVar(&p.hosts, "host", nil, "NAME=ADDRESS, with or without a port, of a host")
	f.StringArrayVar(&p.secrets, "secret", nil, "NAME=FILE, a credential that the grant names")
	f.StringVar(&p.ca, "ca", "", "PEM file of authorities that are trusted beside the system's")
	if err := cmd.MarkFlagRequired("grant"); err != nil {
		panic(err) // the flag was defined above
	}
	return cmd
}

func (p *toolRun) run(cmd *cobra.Command, file string) error {
	module, err := readModule(file)
	if err != nil {
		return err
	}
	granted, err := readGrant(cmd.Context(), p.grant, cmd.InOrStdin())
	if err != nil {
		return err
	}
	args, err := readArgs(cmd.Context(), p.args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if granted.Workspace { // what it would be undone from, for as long as it runs
		if p.journal, err = os.MkdirTemp("", "callgate-journal-"); err != nil {
			return err
		}
		defer os.RemoveAll(p.journal)
	}
	host, err := p.host()
	if err != nil {
		return err
	}
	res, err := try(cmd.Context(), module, granted, host, args)
	err = errors.Join(err, host.Close())
	return p.report(cmd, file, res, err)
}

// readGrant reads a grant as strictly as policies' are read.
func readGrant(ctx context.Context, name string, in io.Reader) (call.RuleGrant, error) {
	var g call.RuleGrant
	b, err := readFrom(ctx, "--grant", name, in, tool.MaxManifestBytes+1)
	if err != nil {
		return g, err
	}
	if len(b) > tool.MaxManifestBytes {
		return g, fmt.Errorf("--grant %s: is larger than %d bytes", name, tool.MaxManifestBytes)
	}
	if err := json.Unmarshal(b, &g, json.RejectUnknownMembers(true)); err != nil {
		return g, fmt.Errorf("--grant %s: %w", name, err)
	}
	if err := g.Caps.Validate(); err != nil {
		return g, fmt.Errorf("--grant %s: %w", name, err)
	}
	return g, nil
}

// host is what there is to grant.
func (p *toolRun) host() (*hostfx.Host, error) {
	c := Config{CA: p.ca, Journal: JournalConfig{Dir: p.journal}}
	for _, x := range []struct {
		flag string
		list []string
		add  func(name, value string)
	}{
		{"--root", p.roots, func(n, v string) { c.Roots = append(c.Roots, RootConfig{n, v}) }},
		{"--network", p.networks, func(n, v string) { c.Networks = append(c.Networks, NetworkConfig{n, strings.Split(v, ",")}) }},
		{"--host", p.hosts, func(n, v string) { c.Hosts = append(c.Hosts, HostConfig{n, strings.Split(v, ",")}) }},
		{"--secret", p.secrets, func(n, v string) { c.Secrets = append(c.Secrets, SecretConfig{Name: n, File: v}) }},
	} {
		for _, s := range x.list {
			name, value, ok := strings.Cut(s, "=")
			if !ok || name == "" || value == "" {
				return nil, fmt.Errorf("%s %s: want NAME=VALUE", x.flag, s)
			}
			x.add(name, value)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for i := range c.Roots {
		absolute(&c.Roots[i].Path, here)
	}
	_, networks := c.networks()
	_, hosts := c.hosts()
	if err := errors.Join(networks, hosts); err != nil {
		return nil, err
	}
	return c.local(io.Discard).Host()
}

// alone is the policy of a tool that is tried alone.
type alone struct{ granted call.RuleGrant }

func (a alone) Decide(context.Context, *call.Input) (call.Decision, error) {
	return call.Decision{Verdict: call.Allow, Grants: []call.RuleGrant{a.granted}}, nil
}

// forgets is the log of a tool that is tried alone.
type forgets struct{}

func (forgets) Append(context.Context, []byte) (int64, error)           { return 0, nil }
func (forgets) Replay(context.Context, func(int64, []byte) error) error { return nil }

// anyArguments is the schema of a tool that nobody has described: closed, as all are,
// around whatever JSON holds.
const anyArguments = `{"type":"object","additionalProperties":{"$ref":"#/$defs/any"},"$defs":{"any":{"anyOf":[
{"type":["string","number","boolean","null"]},{"type":"array","items":{"$ref":"#/$defs/any"}},
{"type":"object","additionalProperties":{"$ref":"#/$defs/any"}}]}}}`

// try takes one call down the whole road, in an engine made for it alone.
func try(ctx context.Context, module []byte, granted call.RuleGrant, host *hostfx.Host, args []byte) (_ *engine.Result, err error) {
	dir, err := os.MkdirTemp("", "callgate-run-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "tool.wasm"), module, 0o600); err != nil {
		return nil, err
	}
	caps, err := json.Marshal(granted.Caps)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(module)
	manifest := fmt.Sprintf(`{"name":"tool","description":"A tool that is tried alone.","kind":"wasm","class":"unclassified",`+
		`"module":"tool.wasm","sha256":%q,"facts":"none","input":%s,"caps":%s}`, hex.EncodeToString(sum[:]), anyArguments, caps)
	box, err := sandbox.New(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close(context.WithoutCancel(ctx))) }()
	e, err := engine.New(engine.Options{
		Policy: alone{granted}, Log: forgets{}, Guests: box, Host: host, Tools: []engine.Tool{engine.Manifested(manifest, dir)},
		DecideTimeout: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return e.Do(ctx, call.Call{Principal: asserted("developer", "user", "", nil), Tool: "tool", Args: args})
}
