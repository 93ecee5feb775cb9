package guest_test

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/callgate/callgate/sandbox/guest"
)

// A tool that forwards a note to a server, with a credential that it never sees.
func ExampleHandle() {
	type note struct {
		Text string `json:"text"`
	}
	type result struct {
		Status int `json:"status"`
	}
	guest.Handle(func(n note) (result, error) {
		res, err := guest.HTTP(guest.Request{
			Method: "POST", URL: "https://api.example.com/v1/notes", Secret: "notes",
			Header: map[string]string{"Content-Type": "text/plain"}, Body: []byte(n.Text),
		})
		if errors.Is(err, guest.ErrNotGranted) {
			return result{}, &guest.Error{Status: 10, Err: err}
		}
		return result{res.Status}, err
	})
}

// A tool that sorts a file in place, by way of a command, so that nobody reads half of it.
func ExampleRun() {
	type args struct {
		Path string `json:"path"`
	}
	guest.Handle(func(a args) (struct{}, error) {
		text, err := guest.ReadFile(a.Path)
		if err != nil {
			return struct{}{}, err
		}
		ran, err := guest.Run(guest.Command{Path: "/usr/bin/sort", Stdin: text})
		if err == nil && ran.Exit != 0 {
			err = fmt.Errorf("sort: %s", ran.Stderr)
		}
		if err == nil {
			err = guest.WriteFile(a.Path+".new", ran.Stdout)
		}
		if err == nil {
			err = guest.Rename(a.Path+".new", a.Path)
		}
		return struct{}{}, err
	})
}

func ExampleErrno() {
	var err error = &fs.PathError{Op: "read", Path: "/docs/a.txt", Err: guest.ErrNotFound}
	fmt.Println(err)
	fmt.Println(errors.Is(err, guest.ErrNotFound), errors.Is(err, fs.ErrNotExist))
	// Output:
	// read /docs/a.txt: not found
	// true true
}
