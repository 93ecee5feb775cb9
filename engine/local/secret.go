package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/keyfile"
	"github.com/callgate/callgate/hostfx"
)

// Secret says where a credential is that policies may name. One that is not listed
// at all is looked for in the environment.
type Secret struct {
	Name string

	// File holds the credential, less one line break at its end. It belongs to the user
	// of this process or to root, and nobody else may read it. Without File and Command
	// it is the variable of the environment CALLGATE_SECRET_ and the name in capitals, a
	// hyphen being an underscore.
	File string

	// Command prints the credential: an absolute path and arguments, which are passed as
	// they are, never through a shell. What it prints is taken as a file would be, and
	// only if its exit status is 0. It has 10 seconds, or until the engine closes, nothing
	// to read, "/" as its directory, and the environment of this process but for its
	// variables with credentials: those of CALLGATE_SECRET_, of layers and of the state.
	// What it leaves of its process group is ended. What it says on stderr nobody sees: it
	// may be the credential.
	Command []string

	// Header is the name of the header that carries it, for grants that say as:
	// header.
	Header string
}

// maxSecretFile is more than any credential has, which hostfx says.
const maxSecretFile = 16 << 10

// variables is how all variables of the environment with credentials begin.
const variables = "CALLGATE_SECRET_"

// variable is the name of the environment's variable for a credential.
func variable(name string) string {
	return variables + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// secrets finds credentials, anew for each call, so that they can be replaced while
// the engine runs. Its errors say why for the operator: they quote names, paths and
// numbers, and nothing of a credential.
func secrets(list []Secret, commands *commands) (func(name string) (hostfx.Secret, error), error) {
	known := map[string]Secret{}
	taken := map[string]string{} // variable -> the name that it is for
	for _, s := range list {
		if _, twice := known[s.Name]; twice || s.Name == "" {
			return nil, fmt.Errorf("secrets: %q has no name or stands there twice", s.Name)
		}
		if s.File == "" && len(s.Command) == 0 {
			if other, twice := taken[variable(s.Name)]; twice {
				return nil, fmt.Errorf("secrets: %s and %s are one variable of the environment", other, s.Name)
			}
			taken[variable(s.Name)] = s.Name
		}
		if !(call.Caps{Secrets: []string{s.Name}}).Allows(call.Op{Kind: call.OpSecret, Secret: s.Name}) {
			return nil, fmt.Errorf("secrets: no grant can name %q: names are of a-z, 0-9, - and _, a letter first", s.Name)
		}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("secrets: %s: %w", s.Name, err)
		}
		known[s.Name] = s
	}
	return func(name string) (hostfx.Secret, error) {
		s, listed := known[name]
		if other, twice := taken[variable(name)]; twice && !listed {
			return hostfx.Secret{}, fmt.Errorf("%s is of %s: %w", variable(name), other, fs.ErrNotExist)
		}
		value, err := s.read(name, commands)
		return hostfx.Secret{Value: value, Header: s.Header}, err
	}, nil
}

func (s Secret) check() error {
	switch {
	case len(s.Command) == 0:
		return nil
	case s.File != "":
		return errors.New("a file and a command")
	case !filepath.IsAbs(s.Command[0]) || filepath.Clean(s.Command[0]) != s.Command[0]:
		return errors.New("the command is not an absolute path")
	case slices.ContainsFunc(s.Command, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return errors.New("the command has a zero byte")
	}
	return nil
}

func (s Secret) read(name string, c *commands) (string, error) {
	switch {
	case len(s.Command) > 0:
		return c.read(c.ctx, s.Command)
	case s.File != "":
		b, err := keyfile.Read(s.File, maxSecretFile)
		return line(b), err
	}
	if value := os.Getenv(variable(name)); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("%s is not set: %w", variable(name), fs.ErrNotExist)
}

// line is b less one line break at its end. Nothing stays in b.
func line(b []byte) string {
	s := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	clear(b)
	return s
}
