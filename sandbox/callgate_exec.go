package sandbox

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/hostfx"
)

// commandHead is the first line of a request to run or start a command. The rest is its
// stdin.
type commandHead struct {
	Path  string   `json:"path"`
	Args  []string `json:"args"`
	Env   []string `json:"env"`
	Ports []int    `json:"ports"`
	Dir   string   `json:"dir"`
}

// parseCommand reads a request to run a command. Nothing in it lies in b afterwards, as
// in [parseRequest].
func parseCommand(b []byte) (hostfx.Command, error) {
	var h commandHead
	body, err := parseHead(b, &h)
	if err != nil {
		return hostfx.Command{}, err
	}
	if h.Path == "" || slices.ContainsFunc(h.Args, hasNUL) || slices.ContainsFunc(h.Env, hasNUL) {
		return hostfx.Command{}, errMalformed
	}
	return hostfx.Command{Path: h.Path, Args: h.Args, Env: h.Env, Ports: h.Ports, Dir: h.Dir, Stdin: body}, nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

// endHead is how a command ended by itself.
type endHead struct {
	Exit   int    `json:"exit"`
	Signal string `json:"signal,omitzero"`
}

// printedHead is how much of what it printed follows, stdout before stderr.
type printedHead struct {
	Stdout int `json:"stdout_bytes"`
	Stderr int `json:"stderr_bytes"`
}

// withOutput is an answer with what a command printed.
func withOutput(head any, stdout, stderr []byte) (*kept, error) {
	b, err := json.Marshal(head)
	return &kept{append(b, '\n'), stdout, stderr}, err
}

func (q *request) exec(req []byte) (*kept, error) {
	c, err := parseCommand(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := q.life()
	defer cancel()
	ran, err := q.fx.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	return withOutput(struct {
		endHead
		printedHead
	}{endHead{ran.Exit, ran.Signal}, printedHead{len(ran.Stdout), len(ran.Stderr)}}, ran.Stdout, ran.Stderr)
}

func (q *request) execStart(req []byte) (*kept, error) {
	c, err := parseCommand(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := q.life()
	defer cancel()
	id, err := q.fx.Start(ctx, c)
	return &kept{body: []byte(id)}, err
}

// idIn is the id of a process or task, of which hostfx looks at less.
func idIn(req []byte) string { return string(req[:min(len(req), maxLine)]) }

func (q *request) execOutput(id []byte) (*kept, error) {
	o, err := q.fx.Output(idIn(id))
	if err != nil {
		return nil, err
	}
	head := struct {
		State string `json:"state"`
		*endHead
		printedHead
	}{State: o.State, printedHead: printedHead{len(o.Stdout), len(o.Stderr)}}
	if o.State == hostfx.ProcessExited {
		head.endHead = &endHead{o.Exit, o.Signal}
	}
	return withOutput(head, o.Stdout, o.Stderr)
}

func (q *request) execKill(id []byte) error { return q.fx.Kill(idIn(id)) }
