package local

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// Secret says where a credential is that policies may name. One that is not listed
// at all is looked for in the environment.
type Secret struct {
	Name string

	// File holds the credential, less one line break at its end. "" means the
	// variable of the environment CALLGATE_SECRET_ and the name in capitals, a
	// hyphen being an underscore.
	File string

	// Header is the name of the header that carries it, for grants that say as:
	// header.
	Header string
}

// maxSecretFile is more than any credential has, which hostfx says.
const maxSecretFile = 16 << 10

// variable is the name of the environment's variable for a credential.
func variable(name string) string {
	return "CALLGATE_SECRET_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// secrets finds credentials, anew for each call, so that a file can be replaced
// while the engine runs.
func secrets(list []Secret) (func(name string) (hostfx.Secret, error), error) {
	known := map[string]Secret{}
	variables := map[string]string{} // variable -> the name that it is for
	for _, s := range list {
		if _, twice := known[s.Name]; twice || s.Name == "" {
			return nil, fmt.Errorf("secrets: %q has no name or stands there twice", s.Name)
		}
		if s.File == "" {
			if other, taken := variables[variable(s.Name)]; taken {
				return nil, fmt.Errorf("secrets: %s and %s are one variable of the environment", other, s.Name)
			}
			variables[variable(s.Name)] = s.Name
		}
		if !(call.Caps{Secrets: []string{s.Name}}).Allows(call.Op{Kind: call.OpSecret, Secret: s.Name}) {
			return nil, fmt.Errorf("secrets: no grant can name %q: names are of a-z, 0-9, - and _, a letter first", s.Name)
		}
		known[s.Name] = s
	}
	return func(name string) (hostfx.Secret, error) {
		s, listed := known[name]
		if other, taken := variables[variable(name)]; taken && !listed {
			return hostfx.Secret{}, fmt.Errorf("%s is of %s: %w", variable(name), other, fs.ErrNotExist)
		}
		value, err := s.read(name)
		return hostfx.Secret{Value: value, Header: s.Header}, err
	}, nil
}

func (s Secret) read(name string) (string, error) {
	if s.File == "" {
		if value := os.Getenv(variable(name)); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("%s is not set: %w", variable(name), fs.ErrNotExist)
	}
	// Looked at before it is opened: opening a pipe would wait for a writer.
	info, err := os.Stat(s.File)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", s.File)
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
