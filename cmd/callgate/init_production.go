package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"

	"github.com/callgate/callgate/engine/local/project"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
)

// produce makes a new project one of the production profile: with a key pair of its
// own, and the first release of its policy.
func produce(ctx context.Context, dir string) error {
	if err := project.Produce(dir); err != nil {
		return err
	}
	private, err := newKeys(filepath.Join(dir, "keys"))
	if err != nil {
		return err
	}
	fsys, err := rego.Load(filepath.Join(dir, "bundle"))
	if err != nil {
		return err
	}
	epoch := int64(1)
	b, err := pack.Build(ctx, fsys, pack.Options{Revision: "1", Epoch: &epoch})
	if err != nil {
		return err
	}
	signed, err := pack.SignArchive(b.Archive, pack.Signing{Key: private, KeyID: "release", Scope: "policy", Issued: now()})
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, "policy"+rego.ArchiveSuffix), signed)
}

// newKeys writes a new key pair, release.pem and release.pub, and gives the private
// key. It is of ECDSA, which OPA verifies too.
func newKeys(dir string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	p8, err1 := x509.MarshalPKCS8PrivateKey(key)
	pub, err2 := x509.MarshalPKIXPublicKey(key.Public())
	if err := errors.Join(err1, err2, os.Mkdir(dir, 0o700)); err != nil {
		return nil, err
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p8})
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
	return private, errors.Join(
		os.WriteFile(filepath.Join(dir, "release.pem"), private, 0o600),
		os.WriteFile(filepath.Join(dir, "release.pub"), public, 0o644),
	)
}
