package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/keyfile"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// The modes of a [Layer].
const (
	Enforce  = "enforce" // it decides, with all others of this mode
	InShadow = "shadow"  // it is asked after the answer, and only counted; it is brought in when the others decide
)

// Layer is one layer of the policy.
type Layer struct {
	Name       string // in records; "" means "policy"
	Role       string // permit or restrict, as in package rego; "" means permit
	Mode       string // [Enforce] or [InShadow]; "" means Enforce
	Entrypoint string // the rule that answers, as in [rego.Options]; "" means the role's

	// Bundle is where the layer is published: a directory, an archive NAME.tar.gz, or
	// a URL as [source.At] has it, such as https://HOST/PATH or oci://HOST/NAME:TAG.
	Bundle string

	// How a URL is asked. The fields are those of [source.Access].
	Every     time.Duration // zero: 30 s
	LongPoll  time.Duration // zero: the server is not asked to wait
	CA        string        // PEM file of the authorities that vouch for the server, in place of the system's
	TokenFile string        // file of a bearer token or, with User, of a password
	TokenEnv  string        // or the variable of the environment that holds it
	User      string

	// ClientCert and ClientKey are PEM files: the certificate that the server is shown,
	// and its private key, which others must not be able to read. "" is none.
	ClientCert string
	ClientKey  string

	// MaxAge is for how long calls are decided without word from where the layer is
	// published that nothing newer is there; then they are refused, with
	// [call.CodePolicyStale]. Zero: for ever.
	MaxAge time.Duration

	// Signing says whose signature the bundle must have. Nil: none. A signed bundle
	// needs an epoch, and an older one than has decided before is refused.
	Signing *Signing

	// AllowRevisions are older bundles that may decide all the same, by the revision
	// in their manifest or by their digest.
	AllowRevisions []string
}

// Signing says whose signature a bundle must have, as [rego.Verification] does.
type Signing struct {
	Scope string // in production not ""
	Keys  []SigningKey
}

// SigningKey is one public key.
type SigningKey struct {
	ID        string // by which signatures name it
	File      string // with the key, in PEM form
	Algorithm string // as in [rego.Key]
}

// remote says that the layer is at a URL.
func (l Layer) remote() bool { return strings.Contains(l.Bundle, "://") }

// place is where the layer is, whatever becomes the working directory.
func (l Layer) place() (string, error) {
	if l.remote() {
		return l.Bundle, nil
	}
	return filepath.Abs(l.Bundle)
}

// source is where the layer is published.
func (l Layer) source() (source.Source, error) {
	return source.At(l.Bundle, source.Access{
		CA: l.CA, ClientCert: l.ClientCert, ClientKey: l.ClientKey, Secret: source.Secret{File: l.TokenFile, Env: l.TokenEnv}, User: l.User, Wait: l.LongPoll,
	})
}

// verification reads the keys; nil without any.
func (l Layer) verification(now func() time.Time) (*rego.Verification, error) {
	if l.Signing == nil {
		return nil, nil
	}
	v := &rego.Verification{Keys: map[string]rego.Key{}, Scope: l.Signing.Scope, Now: now}
	for _, k := range l.Signing.Keys {
		if _, twice := v.Keys[k.ID]; twice {
			return nil, fmt.Errorf("layers: %s: two keys are called %q", l.Name, k.ID)
		}
		pem, err := keyfile.ReadTrusted(k.File, maxKey)
		if err != nil {
			return nil, fmt.Errorf("layers: %s: key %q: %w", l.Name, k.ID, err)
		}
		v.Keys[k.ID] = rego.Key{PEM: string(pem), Algorithm: k.Algorithm}
	}
	if err := v.Validate(); err != nil {
		return nil, fmt.Errorf("layers: %s: %w", l.Name, err)
	}
	return v, nil
}

// maxKey is more than any public key or file of authorities has, in bytes.
const maxKey = 1 << 20

// check says what the settings of one layer say against each other.
func (l Layer) check(c Config) error {
	var errs []error
	say := func(bad bool, text string) {
		if bad {
			errs = append(errs, fmt.Errorf("layers: %s: %s", l.Name, text))
		}
	}
	asked := l.Every != 0 || l.LongPoll != 0 || l.CA != "" || l.TokenFile != "" || l.TokenEnv != "" || l.User != "" ||
		l.ClientCert != "" || l.ClientKey != ""
	say(asked && !l.remote(), "every, long_poll, ca, tokens, user and client certificates are for a bundle at a URL")
	say(l.MaxAge != 0 && c.Watch < 0, "max_age is for bundles that are followed")
	say(l.Signing == nil && len(l.AllowRevisions) > 0, "allow_revisions is for signed bundles")
	// Those in shadow too: whatever is compiled can take all memory.
	say(l.Signing == nil && c.Production, "in production its bundle is signed; say by which keys")
	say(l.Signing != nil && l.Signing.Scope == "" && c.Production,
		"in production its signature has a scope; without, what the key has signed for another place would do")
	return errors.Join(errs...)
}

// layers are the layers of c, with nothing left open.
func (c Config) layers() ([]Layer, error) {
	if len(c.Layers) == 0 {
		l := Layer{Name: call.DefaultLayer, Role: string(rego.Permit), Mode: Enforce, Bundle: c.Bundle}
		if err := l.check(c); err != nil {
			return nil, err
		}
		return []Layer{l}, nil
	}
	if c.Bundle != "" {
		return nil, errors.New("layers: there is a bundle beside them; make it one of the layers")
	}
	type identity struct{ mode, name string }
	seen := map[identity]bool{}
	roles := map[string]string{} // by name: a candidate has the role of what it stands for
	out := make([]Layer, len(c.Layers))
	var errs []error
	for i, l := range c.Layers {
		if l.Name == "" {
			l.Name = call.DefaultLayer
		}
		if l.Role == "" {
			l.Role = string(rego.Permit)
		}
		if l.Mode == "" {
			l.Mode = Enforce
		}
		id, role := identity{l.Mode, l.Name}, roles[l.Name]
		err := rego.Options{Name: l.Name, Role: rego.Role(l.Role), Entrypoint: l.Entrypoint}.Validate()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("layers: %w", err))
		case l.Mode != Enforce && l.Mode != InShadow:
			errs = append(errs, fmt.Errorf("layers: %s: the mode is not %s or %s", l.Name, Enforce, InShadow))
		case seen[id]:
			errs = append(errs, fmt.Errorf("layers: two of mode %s are named %s", l.Mode, l.Name))
		case role != "" && role != l.Role:
			errs = append(errs, fmt.Errorf("layers: %s has two roles", l.Name))
		}
		if l.Bundle == "" {
			errs = append(errs, fmt.Errorf("layers: %s: there is no bundle", l.Name))
		}
		errs = append(errs, l.check(c))
		seen[id], roles[l.Name] = true, l.Role
		out[i] = l
	}
	return out, errors.Join(errs...)
}
