package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// fetchTimeout is how long one fetch takes at most by default, beside the time that
// a server is asked to wait.
const fetchTimeout = time.Minute

// maxWait is what servers and proxies between may be expected to hold a request.
const maxWait = 10 * time.Minute

// Access is how a server is reached. The zero value reaches public ones.
type Access struct {
	// CA is a file of PEM certificates that are trusted in place of the system's.
	CA string

	// Secret is a bearer token or, with User, a password. It is read anew for every
	// fetch, so that it can be changed under way. The zero value is none.
	Secret Secret
	User   string

	// ClientCert and ClientKey are PEM files: a certificate, with those between it and
	// an authority, and its private key, which others must not be able to read. They are
	// shown to the server that the operator named and to no other, and read anew for
	// every fetch, so that a renewed certificate is taken up. "" is none.
	ClientCert string
	ClientKey  string

	// Plain permits http to other machines. It is never permitted with a Secret.
	Plain bool

	// Wait is how long a web server is asked to hold a request until there is
	// something newer, in whole seconds up to 10 minutes. Zero means not at all.
	// Registries cannot.
	Wait time.Duration

	// Timeout bounds one fetch, beside Wait. Zero means 1 minute.
	Timeout time.Duration
}

// Secret says where a credential is: in a file or in a variable of the environment.
type Secret struct {
	File string
	Env  string
}

func (s Secret) none() bool { return s == Secret{} }

// maxSecret is more than any token has.
const maxSecret = 64 << 10

// read gets the credential. No error quotes it.
func (s Secret) read() (string, error) {
	var text, from string
	switch {
	case s.none():
		return "", nil
	case s.File != "":
		from = s.File
		b, err := readFile(s.File, 0, maxSecret)
		if err != nil {
			return "", &credentialError{err}
		}
		text = string(b)
	default:
		from = "$" + s.Env
		text = os.Getenv(s.Env)
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", &credentialError{fmt.Errorf("%s holds no credential", from)}
	case len(text) > maxSecret || strings.ContainsFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e }):
		return "", &credentialError{fmt.Errorf("%s holds no credential, but something else", from)}
	}
	return text, nil
}

// credentialError is about what we show the server, before it was asked.
type credentialError struct{ err error }

func (e *credentialError) Error() string { return e.err.Error() }

func (e *credentialError) Unwrap() error { return e.err }

// readFile reads a file of at most so many bytes, of whose permissions none may be
// among those forbidden. It is looked at before it is opened: opening a pipe would wait
// for a writer.
func readFile(path string, forbidden fs.FileMode, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s: is not a file of at most %d bytes", path, most)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if info.Mode().Perm()&forbidden != 0 {
		return nil, fmt.Errorf("%s: mode is %#o, so others may have read it; want 0600 or, for a group, 0640", path, info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// check says whether a host may be spoken to like this.
func (a Access) check(host string, plain bool) error {
	var errs []error
	if plain && !isLoopback(host) {
		switch {
		case !a.Secret.none():
			errs = append(errs, errors.New("a credential would go over the network in the clear; use TLS"))
		case !a.Plain:
			errs = append(errs, errors.New("plain http is only for this machine, unless it is permitted"))
		}
	}
	if a.Secret.File != "" && a.Secret.Env != "" {
		errs = append(errs, errors.New("the credential is in a file or in the environment, not in both"))
	}
	if a.User != "" && a.Secret.none() {
		errs = append(errs, errors.New("there is a user, and no password"))
	}
	if (a.ClientCert == "") != (a.ClientKey == "") {
		errs = append(errs, errors.New("a client certificate and its key are two files, and one is not named"))
	}
	if plain && a.ClientCert != "" {
		errs = append(errs, errors.New("a client certificate is shown over TLS, and this is without"))
	}
	if a.Timeout < 0 {
		errs = append(errs, errors.New("the timeout is negative"))
	}
	if a.Wait < 0 || a.Wait > maxWait || a.Wait%time.Second != 0 {
		errs = append(errs, fmt.Errorf("the time to wait is not whole seconds up to %v", maxWait))
	}
	return errors.Join(errs...)
}

func (a Access) timeout() time.Duration {
	if a.Timeout == 0 {
		return fetchTimeout
	}
	return a.Timeout
}
