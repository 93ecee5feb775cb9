package call

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// OpKind says which capability an operation needs.
type OpKind string

// The kinds of operations.
const (
	OpFS        OpKind = "fs"
	OpHTTP      OpKind = "http"
	OpExec      OpKind = "exec"
	OpSecret    OpKind = "secret"
	OpWorkspace OpKind = "workspace"
	OpPlan      OpKind = "plan"
	OpLog       OpKind = "log"

	OpPreciseClock OpKind = "precise_clock"
)

// Op is one thing that a tool wants to do. Only the fields of its kind count.
// The zero value is no operation and nothing allows it.
type Op struct {
	Kind OpKind

	Root string // fs
	Mode string // fs: one of the modes of [FS]
	Path string // fs: below Root, "." for the root itself; http: decoded, begins with /

	Host    string // http
	Port    int
	Method  string
	Network string // the one the address is in
	Plain   bool   // http rather than https

	// Of http: the credential that the request carries and how, both "" for none.
	// Of secret: Secret is the name.
	Secret string
	As     string

	Command string   // exec
	Argv    []string // exec, without the command
	Env     []string // exec: NAME=value, all that it has
	Ports   []int    // exec: all that it may connect to

	Enforcement string // exec: what the kernel does to confine it; zero for nothing
}

// Allows reports whether c permits op. It is the oracle: the algebra of Caps is
// defined by it. Malformed operations and malformed entries permit nothing.
func (c Caps) Allows(op Op) bool { return c.Within(op) != "" }

// Within names the entry that permits op, as in "fs[0]" or "log"; "" when none
// does.
func (c Caps) Within(op Op) string {
	i := -1
	switch op.Kind {
	case OpFS:
		if pathFault(op.Path) == "" {
			i = slices.IndexFunc(c.FS, func(f FS) bool { return f.allows(op) })
		}
	case OpHTTP:
		if URLPathFault(op.Path) == "" {
			i = slices.IndexFunc(c.HTTP, func(h HTTP) bool { return h.allows(op) })
		}
	case OpExec:
		if commandFault(op.Command) == "" && envRepeats(op.Env) == "" && !slices.ContainsFunc(op.Argv, func(a string) bool {
			return !utf8.ValidString(a) || strings.ContainsRune(a, 0)
		}) {
			i = slices.IndexFunc(c.Exec, func(e Exec) bool { return e.allows(op) })
		}
	case OpSecret:
		if nameFault(op.Secret) == "" {
			i = slices.Index(c.Secrets, op.Secret)
		}
	case OpWorkspace:
		return onlyIf(c.Workspace, op.Kind)
	case OpPlan:
		return onlyIf(c.Plan, op.Kind)
	case OpLog:
		return onlyIf(c.Log, op.Kind)
	case OpPreciseClock:
		return onlyIf(c.PreciseClock, op.Kind)
	}
	if i < 0 {
		return ""
	}
	if op.Kind == OpSecret {
		return fmt.Sprintf("secrets[%d]", i)
	}
	return fmt.Sprintf("%s[%d]", op.Kind, i)
}

func onlyIf(ok bool, k OpKind) string {
	if !ok {
		return ""
	}
	return string(k)
}

func (f FS) allows(op Op) bool {
	return f.Root == op.Root && nameFault(op.Root) == "" && pathFault(f.Path) == "" && pathCovers(f.Path, op.Path) &&
		slices.Contains(modes, op.Mode) && slices.Contains(f.Modes, op.Mode)
}

func (h HTTP) allows(op Op) bool {
	var secret Secret
	if h.Secret != nil {
		secret = *h.Secret
	}
	named := h.Secret != nil && nameFault(secret.Name) == "" && slices.Contains(secretForms, secret.As)
	return (secret == Secret{op.Secret, op.As}) && (named || h.Secret == nil) &&
		(h.Plain || !op.Plain) &&
		op.Port > 0 && op.Port <= maxPort && slices.Contains(h.Ports, op.Port) &&
		methodFault(op.Method) == "" && slices.Contains(h.Methods, op.Method) &&
		nameFault(op.Network) == "" && slices.Contains(h.Networks, op.Network) &&
		slices.ContainsFunc(h.Paths, func(p string) bool { return urlPrefixFault(p) == "" && urlPathCovers(p, op.Path) }) &&
		slices.ContainsFunc(h.Hosts, func(p string) bool { return MatchHost(p, op.Host) })
}
