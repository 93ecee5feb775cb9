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
}

type result struct {
	Text    string            `json:"text,omitzero"`
	Status  int               `json:"status,omitzero"`
	Header  map[string]string `json:"headers,omitzero"`
	Entries []guest.Entry     `json:"entries,omitzero"`
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
	case "log":
		var err error
		for _, line := range a.Lines {
			err = errors.Join(err, guest.Log(line))
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
		{"withheld", guest.ErrWithheld}, {"fs.ErrNotExist", fs.ErrNotExist}, {"fs.ErrPermission", fs.ErrPermission},
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
