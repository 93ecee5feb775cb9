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

func ExampleErrno() {
	var err error = &fs.PathError{Op: "read", Path: "/docs/a.txt", Err: guest.ErrNotFound}
	fmt.Println(err)
	fmt.Println(errors.Is(err, guest.ErrNotFound), errors.Is(err, fs.ErrNotExist))
	// Output:
	// read /docs/a.txt: not found
	// true true
}
