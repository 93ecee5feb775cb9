// Command plain is a tool without JSON of Go types, built as a command by a test.
package main

import (
	"bytes"
	"errors"

	"github.com/callgate/callgate/sandbox/guest"
)

func init() {
	guest.HandleBytes(func(args []byte) ([]byte, error) {
		if bytes.Equal(args, []byte(`{}`)) {
			return nil, &guest.Error{Status: 20, Err: errors.New("there is nothing to say")}
		}
		if bytes.Equal(args, []byte(`{"panic":true}`)) {
			panic("at the disco")
		}
		return args, nil
	})
}

func main() { guest.Main() }
