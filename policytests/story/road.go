package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	yaml "go.yaml.in/yaml/v3"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// step is one call on the road of an engine, or something that happens between two.
type step struct {
	ask     `yaml:",inline"`
	Client  string        `yaml:"client"`  // the program that calls
	Within  string        `yaml:"within"`  // the name of a session that is opened for it
	Vote    *principal    `yaml:"vote"`    // somebody answers the question asked last
	Deny    bool          `yaml:"deny"`    // the answer is no
	Advance time.Duration `yaml:"advance"` // time goes by
	Revoke  string        `yaml:"revoke"`  // this tool is revoked
}

const stepRan = "ran"

// road is a file NAME.road: steps, each of which begins with what is given.
func (c *scene) road(src []byte, given ask) error {
	var f struct {
		Why   string      `yaml:"why"`
		Ref   string      `yaml:"ref"`
		Kind  string      `yaml:"kind"`
		Lets  string      `yaml:"lets"`
		Steps []yaml.Node `yaml:"steps"`
	}
	if err := strict(src, &f); err != nil {
		return err
	}
	c.Why, c.Ref, c.Kind, c.Lets = f.Why, f.Ref, f.Kind, f.Lets
	if len(f.Steps) == 0 || len(f.Steps) > 64 {
		return errors.New("no steps, or more than 64")
	}
	for i := range f.Steps {
		text, err := yaml.Marshal(&f.Steps[i])
		if err != nil {
			return err
		}
		st := step{ask: given}
		if err := strict(text, &st); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if len(st.As.Name+st.As.Kind+st.As.Server)+len(st.As.Tags)+len(st.As.Findings)+len(st.Session.Labels)+len(st.Tries) > 0 || st.Session.Calls != 0 || !st.At.IsZero() {
			return fmt.Errorf("step %d: as, session, at and tries are for single calls", i+1)
		}
		if st.Advance < 0 || st.Vote != nil && st.Revoke != "" || st.Advance > 0 && (st.Vote != nil || st.Revoke != "") {
			return fmt.Errorf("step %d: does more than one thing, or goes back in time", i+1)
		}
		c.Steps = append(c.Steps, st)
	}
	return nil
}

// walk takes the steps through an engine of their own and says how each ended.
func (s *story) walk(ctx context.Context, layers *rego.Set, c *scene) (want, error) {
	var passed atomic.Int64 // the engine looks at the clock whenever it likes
	var tools []engine.Tool
	for _, m := range s.tools {
		if m.Kind == "external" {
			tools = append(tools, engine.External(m.text))
		}
	}
	e, err := engine.New(engine.Options{
		Policy: layers, Tools: tools, Log: &memory{}, Node: "node-1",
		Now:           func() time.Time { return noon.Add(time.Duration(passed.Load())) },
		DecideTimeout: time.Minute, // what is decided counts here, not when
	})
	if err != nil {
		return want{}, err
	}
	defer e.Close()
	w := walker{story: s, engine: e, sessions: map[string]string{}}
	for _, st := range c.Steps {
		if st.Advance > 0 {
			passed.Add(int64(st.Advance))
			w.ends = append(w.ends, "later")
			continue
		}
		end, err := w.take(ctx, st)
		if err != nil {
			return want{}, err
		}
		w.ends = append(w.ends, end)
	}
	return want{Steps: w.ends}, nil
}

// walker is what one step leaves for the next.
type walker struct {
	*story
	engine   *engine.Engine
	sessions map[string]string // id by principal and name
	approval string            // asked last
	ends     []string
}

func (w *walker) take(ctx context.Context, st step) (string, error) {
	switch {
	case st.Vote != nil:
		return w.vote(ctx, st)
	case st.Revoke != "":
		return "revoked", w.engine.Revoke(ctx, call.Revocation{Tool: st.Revoke})
	}
	who, err := st.Principal.call()
	if err != nil {
		return "", err
	}
	said, err := json.Marshal(map[string]any{"justification": st.Asserted.Justification, "context": st.Asserted.Context})
	if err != nil {
		return "", err
	}
	c := call.Call{Principal: who, Client: st.Client, Tool: st.Tool, Args: []byte(or(string(st.Args), "{}")), Asserted: said}
	if st.Within != "" {
		// Whoever names a session that another opened calls in that one.
		if w.sessions[st.Within] == "" {
			if w.sessions[st.Within], err = w.engine.OpenSession(ctx, who); err != nil {
				return "", err
			}
		}
		c.Session = w.sessions[st.Within]
	}
	permit, err := w.engine.Authorize(ctx, c)
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		if d.ApprovalID != "" {
			w.approval = d.ApprovalID
		}
		return w.denial(d), nil
	}
	if err != nil {
		return "", err
	}
	if _, err := permit.Finish(ctx, engine.Reported{Output: []byte(`{}`)}); err != nil {
		return "", err
	}
	return stepRan, nil
}

// denial is the engine's code, and why or at what limit.
func (w *walker) denial(d *engine.Denial) string {
	var more []string
	for _, r := range d.Reasons {
		more = append(more, w.named(r.Layer, r.Code))
	}
	if d.Limited != nil {
		name := d.Limited.Name
		if len(w.layers) == 1 {
			name = strings.TrimPrefix(name, w.layers[0].Name+"/")
		}
		more = append(more, name)
	}
	slices.Sort(more)
	return strings.Join(append([]string{string(d.Code)}, slices.Compact(more)...), " ")
}

func (w *walker) vote(ctx context.Context, st step) (string, error) {
	by, err := st.Vote.call()
	if err != nil {
		return "", err
	}
	a, err := w.engine.Vote(ctx, engine.Vote{Approval: w.approval, By: by, Deny: st.Deny})
	if err != nil {
		return "vote refused", nil
	}
	return "vote: " + string(a.Standing), nil
}

// memory is a log that lasts as long as its engine.
type memory struct {
	mu      sync.Mutex
	records [][]byte
}

func (m *memory) Append(_ context.Context, rec []byte) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, rec)
	return int64(len(m.records) - 1), nil
}

func (m *memory) Replay(_ context.Context, yield func(int64, []byte) error) error {
	for i, r := range m.records {
		if err := yield(int64(i), r); err != nil {
			return err
		}
	}
	return nil
}
