package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/meter"
)

func newToolsInspect() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "inspect FILE.wasm",
		Short: "Say what a module is, what it could ask of the host and what it needs",
		Long: `Inspect looks at a module and says what it imports and exports, which functions of
the host it can ever call, and the least grant under which each of these could do
something. Nothing is compiled and nothing runs.

A function that a module does not import it cannot call. Whether it calls one that it
imports, and with what, cannot be told: hosts, roots and paths in the grant are
places to fill in, and less may do.

Exit code 1 means that the sandbox would refuse the module.`,
		Example: "  callgate tools inspect word-count.wasm\n  callgate tools inspect word-count.wasm -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			module, err := readModule(args[0])
			if err != nil {
				return err
			}
			box, err := sandbox.New(cmd.Context(), sandbox.Options{})
			if err != nil {
				return err
			}
			in := inspectModule(box, module)
			in.File = args[0]
			if err := box.Close(context.WithoutCancel(cmd.Context())); err != nil {
				return err
			}
			if format == "json" {
				err = writeJSON(cmd.OutOrStdout(), in)
			} else {
				err = in.print(cmd.OutOrStdout())
			}
			if err == nil && in.Refused != "" {
				err = exitWith(exitDenied, nil)
			}
			return err
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

// inspection is what is known of a module.
type inspection struct {
	File    string              `json:"file"`
	Bytes   int                 `json:"bytes"`
	Digest  string              `json:"digest"`
	Kind    string              `json:"kind"`             // command, reactor or component; "" for none
	Refused string              `json:"refused,omitzero"` // why the sandbox would not take it
	Init    bool                `json:"initializes"`      // a reactor with something to run first
	Memory  *memoryBounds       `json:"memory,omitzero"`
	Imports map[string][]string `json:"imports"` // names by module: all that it can ever call of the host
	Exports []export            `json:"exports"`
	Effects []string            `json:"effects"` // what it could ask the host for
	Size    []measure           `json:"size"`
	Grant   call.Caps           `json:"grant"` // the least under which all of that could happen, with places to fill in
}

type memoryBounds struct {
	Min int64 `json:"min_bytes"`
	Max int64 `json:"max_bytes"`
}

type export struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type measure struct {
	Of    string `json:"of"`
	Value int64  `json:"value"`
	Limit int64  `json:"limit"`
}

// part is how much of the limit there is.
func (m measure) part() float64 { return float64(m.Value) / float64(m.Limit) }

// maxMemory is what 32 bits can address.
const maxMemory = 1 << 32

// inspectModule looks at a module, whatever is in it.
func inspectModule(box *sandbox.Sandbox, module []byte) inspection {
	d, refused := box.Describe(module)
	in := inspection{
		Bytes: len(module), Digest: call.Digest(module), Kind: d.Kind, Init: d.Initializes,
		Imports: map[string][]string{}, Exports: []export{}, Effects: []string{}, Size: sizes(module),
	}
	if refused != nil {
		in.Refused = firstLines(refused.Error(), 8)
	}
	if d.Module == nil {
		return in
	}
	for _, i := range d.Module.Imports {
		in.Imports[plain(i.Module)] = append(in.Imports[plain(i.Module)], plain(i.Name))
	}
	for module, names := range in.Imports {
		in.Imports[module] = sortedSet(names)
	}
	for _, e := range d.Module.Exports {
		in.Exports = append(in.Exports, export{plain(e.Name), e.Kind.String()})
	}
	if d.Module.HasMemory {
		in.Memory = &memoryBounds{int64(d.Module.MemoryMin) * meter.PageSize, int64(d.Module.MemoryMax) * meter.PageSize}
		in.Grant.Bounds.MemoryBytes = in.Memory.Min
	}
	in.needs()
	return in
}

// print writes one line for each thing that there is to say.
func (in inspection) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, a ...any) {
		// One line, whatever stands in the module: none may look like another.
		fmt.Fprintf(t, "%s\t%s\n", name, visible(fmt.Sprintf(format, a...)))
	}
	line("file", "%s, %d bytes", in.File, in.Bytes)
	line("digest", "%s", in.Digest)
	switch {
	case in.Kind == "" && len(in.Exports) > 0:
		line("kind", "neither command nor reactor")
	case in.Kind == "":
		line("kind", "unknown")
	case in.Init:
		line("kind", "%s, with _initialize", in.Kind)
	default:
		line("kind", "%s", in.Kind)
	}
	if in.Refused != "" {
		for _, why := range strings.Split(in.Refused, "\n") {
			line("refused", "%s", why)
		}
	}
	switch m := in.Memory; {
	case m == nil:
	case m.Max == maxMemory:
		line("memory", "%s to start, no maximum of its own", mib(m.Min))
	default:
		line("memory", "%s to start, at most %s", mib(m.Min), mib(m.Max))
	}
	for _, module := range slices.Sorted(maps.Keys(in.Imports)) {
		line("imports", "%s: %s", module, few(in.Imports[module]))
	}
	var exports []string
	for _, e := range in.Exports {
		name := e.Name
		if e.Kind != "func" {
			name += " (" + e.Kind + ")"
		}
		exports = append(exports, name)
	}
	if len(exports) > 0 {
		line("exports", "%s", few(exports))
	}
	nearest := slices.MaxFunc(in.Size, func(a, b measure) int { return cmp.Compare(a.part(), b.part()) })
	line("limits", "nearest is %d of %d %s", nearest.Value, nearest.Limit, nearest.Of)
	if in.Refused == "" {
		can := "nothing but read its arguments and return a result"
		if len(in.Effects) > 0 {
			can = strings.Join(in.Effects, ", ")
		}
		line("can ask for", "%s", can)
		b, err := json.Marshal(in.Grant, json.Deterministic(true))
		if err != nil {
			return err
		}
		line("least grant", "%s", b)
	}
	return t.Flush()
}

// plain is a name in a module as it can be shown: anything can stand there.
func plain(name string) string {
	if name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == ',' || r > '~' }) {
		return name
	}
	return strconv.QuoteToASCII(strings.ToValidUTF8(name[:min(len(name), 128)], "\uFFFD"))
}

func sortedSet(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// firstLines cuts what a hostile module can make as long as it likes.
func firstLines(s string, most int) string {
	lines := strings.Split(s, "\n")
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	for i, l := range lines {
		if len(l) > 256 {
			lines[i] = l[:256] + "..."
		}
	}
	return strings.ToValidUTF8(strings.Join(lines, "\n"), "\uFFFD")
}

// few are names for one line; a hostile module has thousands.
func few(names []string) string {
	const most = 60
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func mib(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
