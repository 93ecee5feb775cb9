// Command tool is an ordinary tool with effects, built as a reactor by a test.
package main

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/callgate/callgate/sandbox/guest"
)

type args struct {
	Do     string            `json:"do"`
	Path   string            `json:"path"`
	URL    string            `json:"url"`
	Method string            `json:"method"`
	Header map[string]string `json:"headers"`
	Secret string            `json:"secret"`
	Body   string            `json:"body"`
	Lines  []string          `json:"lines"`
	To     string            `json:"to"`
	Units  int64             `json:"units"`
}

type result struct {
	Text    string            `json:"text,omitzero"`
	Status  int               `json:"status,omitzero"`
	Header  map[string]string `json:"headers,omitzero"`
	Entries []guest.Entry     `json:"entries,omitzero"`
	Tasks   []guest.Task      `json:"tasks,omitzero"`
	Is      []string          `json:"is,omitzero"` // what an error is
	Unfit   func()            `json:"unfit,omitzero"`
}

// calls counts the calls of one instance.
var calls int

func init() { guest.Handle(run) }

func main() { guest.Main() }

func run(a args) (result, error) {
	calls++
	switch a.Do {
	case "http":
		res, err := guest.HTTP(guest.Request{Method: a.Method, URL: a.URL, Header: a.Header, Secret: a.Secret, Body: []byte(a.Body)})
		return result{Text: string(res.Body), Status: res.Status, Header: res.Header, Is: what(err)}, nil
	case "read":
		b, err := guest.ReadFile(a.Path)
		return result{Text: string(b), Is: what(err)}, nil
	case "list":
		entries, err := guest.List(a.Path)
		return result{Entries: entries, Is: what(err)}, nil
	case "os":
		b, err := os.ReadFile(a.Path)
		return result{Text: string(b), Is: what(err)}, nil
	case "write":
		err := os.WriteFile(a.Path, []byte(a.Body), 0o600)
		return result{Is: what(err)}, nil
	case "stat":
		i, err := guest.Stat(a.Path)
		return result{Text: i.Type, Status: int(i.Size), Is: what(err)}, nil
	case "write-file":
		return result{Is: what(guest.WriteFile(a.Path, []byte(a.Body)))}, nil
	case "append":
		return result{Is: what(guest.AppendFile(a.Path, []byte(a.Body)))}, nil
	case "mkdir":
		return result{Is: what(guest.Mkdir(a.Path))}, nil
	case "remove":
		return result{Is: what(guest.Remove(a.Path))}, nil
	case "rename":
		return result{Is: what(guest.Rename(a.Path, a.To))}, nil
	case "run":
		ran, err := guest.Run(command(a))
		return result{Text: string(ran.Stdout) + "|" + string(ran.Stderr) + "|" + ran.Signal, Status: ran.Exit, Is: what(err)}, nil
	case "start":
		id, err := guest.Start(command(a))
		return result{Text: id, Is: what(err)}, nil
	case "output":
		p, err := guest.Output(a.Path)
		return result{Text: p.State + "|" + string(p.Stdout), Status: p.Exit, Is: what(err)}, nil
	case "kill":
		return result{Is: what(guest.Kill(a.Path))}, nil
	case "plan":
		tasks, err := guest.Plan()
		return result{Tasks: tasks, Is: what(err)}, nil
	case "register":
		return result{Is: what(guest.RegisterTask(guest.Task{ID: a.Path, After: a.Lines}))}, nil
	case "advance":
		return result{Is: what(guest.AdvanceTask(a.Path, a.To))}, nil
	case "replan":
		return result{Is: what(guest.ReplanTask(a.Path, guest.Task{ID: a.To, Tools: a.Lines}, guest.Task{ID: a.To + "2"}))}, nil
	case "charge":
		return result{Is: what(guest.Charge(a.Path, a.Units))}, nil
	case "log":
		var err error
		for _, line := range a.Lines {
			err = errors.Join(err, guest.LogAt(a.Path, line))
		}
		return result{Is: what(err)}, nil
	case "together":
		return together(a.Path)
	case "random":
		return result{Text: rand.Text()}, nil
	case "count":
		return result{Status: calls}, nil
	case "fail":
		return result{}, errors.New("it does not work")
	case "coded":
		return result{}, &guest.Error{Status: 77, Err: errors.New("it has a status")}
	case "silent":
		return result{}, &guest.Error{Status: 78}
	case "panic":
		panic("at the disco")
	case "unfit":
		return result{Unfit: func() {}}, nil
	}
	return result{Text: a.Do}, nil
}

func command(a args) guest.Command {
	return guest.Command{Path: a.Path, Args: a.Lines, Dir: a.To, Stdin: []byte(a.Body)}
}

// together asks from many goroutines at once.
func together(path string) (result, error) {
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() {
			b, err := guest.ReadFile(path)
			if err == nil && string(b) != "alpha" {
				err = errors.New("read something else")
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return result{}, errors.Join(errs...)
}

func what(err error) (is []string) {
	for _, e := range []struct {
		name string
		err  error
	}{
		{"malformed", guest.ErrMalformed}, {"not granted", guest.ErrNotGranted}, {"not found", guest.ErrNotFound},
		{"too large", guest.ErrTooLarge}, {"failed", guest.ErrFailed}, {"redirect", guest.ErrRedirect},
		{"withheld", guest.ErrWithheld}, {"quota", guest.ErrQuota}, {"exists", guest.ErrExists}, {"status", guest.ErrStatus},
		{"fs.ErrExist", fs.ErrExist}, {"fs.ErrNotExist", fs.ErrNotExist}, {"fs.ErrPermission", fs.ErrPermission},
	} {
		if errors.Is(err, e.err) {
			is = append(is, e.name)
		}
	}
	if err != nil && is == nil {
		is = []string{err.Error()}
	}
	return is
}
