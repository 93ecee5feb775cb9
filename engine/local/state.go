package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/keyfile"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
)

// Shared says where the state is that several nodes have together, each with a data
// directory and a log of its own. Address and KeyFile are required, and so is
// [Config.Node], which no other node may have.
type Shared struct {
	Address string // host:port of a Redis or Valkey server, or the absolute path of its Unix socket
	Prefix  string // of all keys: who has the same one shares the state; "" means "callgate"

	// KeyFile holds 32 random bytes, the same on all nodes, which the server never
	// sees. Nobody else may read it.
	KeyFile string

	TLS bool
	CA  string // PEM file of authorities in place of the system's, with TLS

	User         string // "" means the default one
	PasswordFile string // less one line break at its end; nobody else may read it; read on each connection
	PasswordEnv  string // or the variable of the environment that holds it

	// Waive names what is not insisted on of the server: see [redis.Waivers].
	Waive []string

	Timeout time.Duration // of one operation; zero: the store's default
}

// share makes the engine keep its state with other nodes, if it is to.
func (e *Engine) share(ctx context.Context, c Config, o *engine.Options) error {
	if c.State == nil {
		return nil
	}
	if err := e.openShared(ctx, c, o); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

func (e *Engine) openShared(ctx context.Context, c Config, o *engine.Options) error {
	s := *c.State
	if c.Node == "" {
		return errors.New("nodes that share it have names, and this one has none")
	}
	if s.KeyFile == "" {
		return errors.New("there is no key file")
	}
	key, err := state.ReadKey(s.KeyFile)
	if err != nil {
		return err
	}
	ro, err := s.options(c)
	if err != nil {
		return err
	}
	store, err := redis.Open(ctx, ro)
	if err != nil {
		return err
	}
	e.close = append(e.close, store.Close)
	e.waived = store.Waived()
	if err := store.CheckKey(ctx, key); err != nil {
		return err
	}
	salts, err := redis.NewSalts(key)
	if err != nil {
		return err
	}
	pending, err := redis.NewPending(store, key)
	if err != nil {
		return err
	}
	o.State, o.StateSalts, o.Pending = store, salts, pending
	return nil
}

func (s Shared) options(c Config) (redis.Options, error) {
	o := redis.Options{
		Address: s.Address, Prefix: s.Prefix, Node: c.Node, Waive: s.Waive, Timeout: s.Timeout, Logger: c.Logger,
	}
	if o.Prefix == "" {
		o.Prefix = "callgate"
	}
	if s.CA != "" && !s.TLS {
		return o, errors.New("ca is for tls, which is off")
	}
	if s.PasswordFile != "" && s.PasswordEnv != "" {
		return o, errors.New("there is a password file and a variable for the password")
	}
	if s.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if host, _, err := net.SplitHostPort(s.Address); err == nil {
			o.TLS.ServerName = host
		}
	}
	if s.CA != "" {
		pem, err := keyfile.ReadTrusted(s.CA, maxKey)
		if err != nil {
			return o, err
		}
		if o.TLS.RootCAs = x509.NewCertPool(); !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return o, fmt.Errorf("%s holds no certificate", s.CA)
		}
	}
	if s.User != "" || s.PasswordFile != "" || s.PasswordEnv != "" {
		if _, err := s.password(); err != nil {
			return o, err
		}
		o.Login = func() (string, string, error) {
			password, err := s.password()
			return s.User, password, err
		}
	}
	return o, nil
}

// password gets the password. No error quotes it.
func (s Shared) password() (string, error) {
	if s.PasswordFile == "" {
		if s.PasswordEnv == "" {
			return "", nil
		}
		if value := os.Getenv(s.PasswordEnv); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("$%s is not set", s.PasswordEnv)
	}
	b, err := keyfile.Read(s.PasswordFile, maxSecretFile)
	if err != nil {
		return "", err
	}
	value := line(b)
	if value == "" {
		return "", fmt.Errorf("%s is empty", s.PasswordFile)
	}
	return value, nil
}

// Waived is what the shared state's server does not keep to, of what [Shared.Waive]
// names.
func (e *Engine) Waived() []string { return slices.Clone(e.waived) }

// Waivers are what [Shared.Waive] may name.
func Waivers() []string { return slices.Clone(redis.Waivers) }
