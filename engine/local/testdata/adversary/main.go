// Command adversary is a tool that does what its arguments say, built as a reactor by a
// test: {"grant":"read","steps":"[{\"do\":\"read\",\"path\":\"/docs/a\"},...]"}. Its result says for each step how
// it ended, an error number and a colon, and what came of it.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/sandbox/guest"
)

type step struct {
	Do     string            `json:"do"`
	Path   string            `json:"path"` // or the URL, the command, the id
	To     string            `json:"to"`   // or the method, the directory, the status
	Body   string            `json:"body"`
	Header map[string]string `json:"headers"`
	Secret string            `json:"secret"`
	List   []string          `json:"list"` // arguments, lines
	Env    []string          `json:"env"`
	Ports  []int             `json:"ports"`
	Times  int               `json:"times"` // how often, 0 for once
}

func init() {
	guest.Handle(func(a struct {
		Grant string `json:"grant"` // for the policy alone
		Steps string `json:"steps"` // JSON
	}) ([]string, error) {
		var steps []step
		if err := json.Unmarshal([]byte(a.Steps), &steps); err != nil {
			return nil, err
		}
		var out []string
		for _, s := range steps {
			for range max(s.Times, 1) {
				text, err := s.run()
				out = append(out, number(err)+":"+text)
			}
		}
		return out, nil
	})
}

func main() { guest.Main() }

// number is what the host says of an error, or what WASI does.
func number(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[guest.Errno](err); ok {
		return e.Error()
	}
	for _, known := range []error{fs.ErrPermission, fs.ErrNotExist, fs.ErrExist} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "error"
}

func (s step) run() (string, error) {
	switch s.Do {
	case "read":
		b, err := guest.ReadFile(s.Path)
		return string(b), err
	case "list":
		entries, err := guest.List(s.Path)
		return fmt.Sprint(entries), err
	case "stat":
		i, err := guest.Stat(s.Path)
		return i.Type, err
	case "write":
		return "", guest.WriteFile(s.Path, []byte(s.Body))
	case "append":
		return "", guest.AppendFile(s.Path, []byte(s.Body))
	case "mkdir":
		return "", guest.Mkdir(s.Path)
	case "remove":
		return "", guest.Remove(s.Path)
	case "rename":
		return "", guest.Rename(s.Path, s.To)
	case "os-read":
		b, err := os.ReadFile(s.Path)
		return string(b), err
	case "os-write":
		return "", os.WriteFile(s.Path, []byte(s.Body), 0o600)
	case "os-symlink":
		return "", os.Symlink(s.To, s.Path)
	case "http":
		r, err := guest.HTTP(guest.Request{Method: s.To, URL: s.Path, Header: s.Header, Secret: s.Secret, Body: []byte(s.Body)})
		return string(r.Body), err
	case "log":
		var err error
		for _, line := range s.List {
			err = errors.Join(err, guest.Log(line))
		}
		return "", err
	case "exec":
		ran, err := guest.Run(guest.Command{Path: s.Path, Args: s.List, Env: s.Env, Ports: s.Ports, Dir: s.To, Stdin: []byte(s.Body)})
		return fmt.Sprintf("%d %s%s", ran.Exit, ran.Stdout, strings.TrimSpace(string(ran.Stderr))), err
	case "start":
		_, err := guest.Start(guest.Command{Path: s.Path, Args: s.List})
		return "", err
	case "output":
		p, err := guest.Output(s.Path)
		return p.State, err
	case "kill":
		return "", guest.Kill(s.Path)
	case "follow": // all that a session does with a process
		id, err := guest.Start(guest.Command{Path: s.Path, Args: s.List})
		if err != nil {
			return "", err
		}
		p, err := guest.Output(id)
		return p.State, errors.Join(err, guest.Kill(id))
	case "charge":
		return "", guest.Charge(s.Path, 1)
	case "plan":
		tasks, err := guest.Plan()
		return fmt.Sprint(len(tasks)), err
	case "register":
		return "", guest.RegisterTask(guest.Task{ID: s.Path})
	case "advance":
		return "", guest.AdvanceTask(s.Path, s.To)
	case "replan":
		return "", guest.ReplanTask(s.Path, guest.Task{ID: s.To})
	}
	return "", errors.New("no such step")
}
