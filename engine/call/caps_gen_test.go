package call

import (
	"slices"

	"pgregory.net/rapid"
)

// Generators over small alphabets, so that entries overlap often.

var (
	someRoots    = []string{"w", "tmp"}
	somePaths    = []string{".", "a", "a/b", "a/b/c", "ab", "b"}
	someHosts    = []string{"*.x.io", "a.x.io", "b.x.io", "x.io", "a.b.x.io", "*.b.x.io"}
	somePorts    = []int{443, 8443}
	someMethods  = []string{"GET", "POST"}
	someURLPaths = []string{"/", "/v1", "/v1/a", "/v2", "/v10"}
	someNetworks = []string{"public", "lan"}
	someNames    = []string{"s", "t"}
	somePatterns = []string{"a", "ab", "-x", "", "*", "a*", "ab*", "-*", "-x*"}
	someEnv      = [][]string{nil, nil, {"A=1"}, {"A=2"}, {"A=1", "B=1"}, {"B=1"}}
	someArgs     = []string{"a", "ab", "abc", "b", "", "-x", "-xy", "-", "*", "a*"}
)

func subset[T any](t *rapid.T, from []T, label string) []T {
	return rapid.SliceOfN(rapid.SampledFrom(from), 1, 3).Draw(t, label)
}

func genCaps(t *rapid.T, label string) Caps {
	n := func(what string) int { return rapid.IntRange(0, 4).Draw(t, label+what) }
	b := func(what string) bool { return rapid.Bool().Draw(t, label+what) }
	var c Caps
	for range n("fs") {
		c.FS = append(c.FS, FS{
			rapid.SampledFrom(someRoots).Draw(t, "root"),
			rapid.SampledFrom(somePaths).Draw(t, "path"),
			subset(t, modes, "modes"),
		})
	}
	for range n("http") {
		c.HTTP = append(c.HTTP, HTTP{
			subset(t, someHosts, "hosts"), subset(t, somePorts, "ports"), subset(t, someMethods, "methods"),
			subset(t, someURLPaths, "paths"), subset(t, someNetworks, "networks"), b("plain"),
			rapid.SampledFrom([]*Secret{nil, nil, {"s", "bearer"}, {"s", "basic"}, {"t", "bearer"}}).Draw(t, "secret"),
		})
	}
	for range n("exec") {
		c.Exec = append(c.Exec, Exec{
			rapid.SampledFrom([]string{"git", "ls"}).Draw(t, "command"),
			rapid.SliceOfN(rapid.SampledFrom(somePatterns), 0, 2).Draw(t, "args"),
			rapid.SampledFrom(someEnv).Draw(t, "env"),
			rapid.SliceOfN(rapid.SampledFrom(somePorts), 0, 2).Draw(t, "ports"),
			rapid.SampledFrom([]string{"", "", "partial", "enforced"}).Draw(t, "enforcement"),
		})
	}
	c.Secrets = rapid.SliceOfN(rapid.SampledFrom(someNames), 0, 2).Draw(t, "secrets")
	c.Workspace, c.Plan, c.Log, c.PreciseClock = b("workspace"), b("plan"), b("log"), b("precise_clock")
	for _, f := range c.Bounds.all() {
		*f.value = rapid.SampledFrom([]int64{0, 0, 1, 2, 3}).Draw(t, f.name)
	}
	return c
}

// allOps is every operation of the alphabets, so a law that holds for it holds
// for all that the generators can tell apart.
func allOps() []Op {
	ops := []Op{
		{}, {Kind: OpWorkspace}, {Kind: OpPlan}, {Kind: OpLog}, {Kind: OpPreciseClock},
		{Kind: OpHTTP, Host: "*.x.io", Port: 443, Method: "GET", Network: "public", Path: "/v1"},
		{Kind: OpHTTP, Host: "a.x.io", Port: 443, Method: "GET", Network: "public", Path: "/v1/"},
		{Kind: OpHTTP, Host: "a.x.io", Port: 443, Method: "GET", Network: "public", Path: "/v1/../v2"},
		{Kind: OpHTTP, Host: "a.x.io", Port: 443, Method: "GET", Network: "public", Path: "/v1", Secret: "u", As: "header"},
	}
	for _, n := range append(someNames, "u", "") {
		ops = append(ops, Op{Kind: OpSecret, Secret: n})
	}
	for _, r := range append(someRoots, "") {
		for _, p := range append(somePaths, "a/b/c/d", "..", "/a", "a/../b", "") {
			for _, m := range append(modes, "", "exec") {
				ops = append(ops, Op{Kind: OpFS, Root: r, Path: p, Mode: m})
			}
		}
	}
	for _, env := range append(someEnv[1:], []string{"A=1", "A=2"}, []string{"A=1", "A=1"}, []string{"LD_PRELOAD=x"}, []string{"A"}) {
		for _, ports := range [][]int{nil, {443}, {8443, 443}, {0}} {
			command := Op{Kind: OpExec, Env: env, Ports: ports, Enforcement: "enforced"}
			command.Command = "git"
			ops = append(ops, command)
			for _, less := range []string{"", "unavailable", "partial"} {
				command.Enforcement = less
				ops = append(ops, command)
			}
			command.Enforcement = []string{"enforced", "partial", ""}[len(ports)%3]
			for _, a := range append(someArgs, "-xyz") {
				command.Command, command.Argv = "ls", []string{a}
				ops = append(ops, command)
				if len(env) > 1 && len(ports) != 1 {
					continue // what differs shows in those with fewer
				}
				for _, b := range someArgs {
					command.Command, command.Argv = "git", []string{a, b}
					ops = append(ops, command)
				}
			}
		}
	}
	for _, h := range []string{"a.x.io", "b.x.io", "c.x.io", "x.io", "a.b.x.io", "z.b.x.io"} {
		for _, p := range append(someURLPaths, "/v1/a/b", "/v3") {
			for i := range 2 * 2 * 2 * 2 * 4 {
				op := Op{
					Kind: OpHTTP, Host: h, Path: p,
					Port: somePorts[i%2], Method: someMethods[i/2%2], Network: someNetworks[i/4%2], Plain: i/8%2 == 1,
				}
				if s := []*Secret{nil, {"s", "bearer"}, {"s", "basic"}, {"t", "bearer"}}[i/16]; s != nil {
					op.Secret, op.As = s.Name, s.As
				}
				ops = append(ops, op)
			}
		}
	}
	return slices.Clip(ops)
}
