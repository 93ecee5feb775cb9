package story

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/callgate/callgate/engine/call"
)

// want is what becomes of a scene. Names are those of codes, rules and limits;
// where several layers decide, their own are written layer/name.
type want struct {
	Refused   call.Code         `yaml:"refused,omitempty"` // before or instead of a decision
	Decision  call.Verdict      `yaml:"decision,omitempty"`
	Layers    map[string]string `yaml:"layers,omitempty,flow"` // of several: what each says alone
	Reasons   []string          `yaml:"reasons,omitempty,flow"`
	Approvals []string          `yaml:"approvals,omitempty,flow"`
	Limits    []string          `yaml:"limits,omitempty,flow"`
	Labels    []string          `yaml:"labels,omitempty,flow"`
	Result    []string          `yaml:"result,omitempty,flow"` // what must be done with it
	Caps      []string          `yaml:"caps,omitempty"`        // what of the manifest is granted
	Tries     []string          `yaml:"tries,omitempty,flow"`  // what of the grant each falls under, or refused
	Steps     []string          `yaml:"steps,omitempty"`
}

const triedInVain = "refused"

func (w want) text() []byte {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(w); err != nil {
		panic("story: internal error: " + err.Error()) // texts, lists and maps of texts
	}
	return b.Bytes()
}

// observed puts a decision in the words of a want.
func (s *story) observed(d call.Decision) want {
	w := want{Decision: d.Verdict, Labels: slices.Clone(d.Labels)}
	for _, r := range d.Reasons {
		w.Reasons = append(w.Reasons, s.named(r.Layer, r.Code))
	}
	for _, a := range d.Approvals {
		w.Approvals = append(w.Approvals, s.named(a.Layer, a.Name))
	}
	for _, l := range d.Limits {
		w.Limits = append(w.Limits, s.named(l.Layer, l.Name))
	}
	for _, l := range d.ResultLabels {
		w.Result = append(w.Result, "label "+l)
	}
	for word, list := range map[string]call.Obligation{"redact": d.Redact, "fields": d.Fields, "rows": d.Rows, "frame": d.Frame} {
		for _, v := range list {
			w.Result = append(w.Result, word+" "+string(v))
		}
	}
	for _, list := range []*[]string{&w.Reasons, &w.Approvals, &w.Limits, &w.Labels, &w.Result} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
		if len(*list) == 0 {
			*list = nil
		}
	}
	return w
}

func (s *story) named(layer, name string) string {
	if len(s.layers) == 1 {
		return name
	}
	return call.InLayer(layer, name)
}

// summary writes capabilities as people read them, one line for each entry.
func summary(c call.Caps) []string {
	var out []string
	for _, f := range c.FS {
		out = append(out, fmt.Sprintf("fs %s:%s %s", f.Root, f.Path, strings.Join(f.Modes, ",")))
	}
	for _, h := range c.HTTP {
		line := fmt.Sprintf("http %s %s:%s %s in %s", strings.Join(h.Methods, ","), strings.Join(h.Hosts, ","),
			strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Ports), " ", ","), "[]"), strings.Join(h.Paths, ","), strings.Join(h.Networks, ","))
		if h.Plain {
			line += " plain"
		}
		if h.Secret != nil {
			line += " with " + h.Secret.Name
		}
		out = append(out, line)
	}
	for _, x := range c.Exec {
		line := strings.TrimSpace("exec " + x.Command + " " + strings.Join(x.Args, " "))
		if len(x.Env) > 0 {
			line += " env " + strings.Join(x.Env, " ")
		}
		if len(x.Ports) > 0 {
			line += " ports " + strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Ports), " ", ","), "[]")
		}
		if x.Enforcement != "" {
			line += " " + x.Enforcement
		}
		out = append(out, line)
	}
	for _, name := range c.Secrets {
		out = append(out, "secret "+name)
	}
	for name, there := range map[string]bool{"workspace": c.Workspace, "plan": c.Plan, "log": c.Log, "precise_clock": c.PreciseClock} {
		if there {
			out = append(out, name)
		}
	}
	bounds := map[string]int64{
		"memory_bytes": c.Bounds.MemoryBytes, "fuel": c.Bounds.Fuel, "timeout_ms": c.Bounds.TimeoutMS, "output_bytes": c.Bounds.OutputBytes,
		"open_files": c.Bounds.OpenFiles, "write_bytes": c.Bounds.WriteBytes, "log_bytes": c.Bounds.LogBytes,
		"http_bytes": c.Bounds.HTTPBytes, "calls": c.Bounds.Calls,
	}
	for name, n := range maps.All(bounds) {
		if n != 0 {
			out = append(out, fmt.Sprintf("at most %s %d", name, n))
		}
	}
	slices.Sort(out)
	return out
}
