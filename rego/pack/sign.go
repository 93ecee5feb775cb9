package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/internal/tarball"
)

// SignaturesFile is where a bundle has its signature.
const SignaturesFile = ".signatures.json"

// Signing says what a signature is to say.
type Signing struct {
	// Key is the private key in PEM form: PRIVATE KEY, RSA PRIVATE KEY or EC
	// PRIVATE KEY.
	Key []byte

	// Algorithm is as in [rego.Key]; empty means the key's own.
	Algorithm string

	// KeyID is what verifiers call the key. Empty names none.
	KeyID string

	// Scope is what the bundle is for; see [rego.Verification].
	Scope string

	// Issued is the time of signing.
	Issued time.Time

	// Expires is from when on the bundle is no longer activated. Zero means never.
	Expires time.Time
}

// SignArchive gives the archive with a signature in place of any that it had. All
// files stay as they are, byte for byte.
func SignArchive(archive []byte, s Signing) ([]byte, error) {
	if _, err := rego.Archive(bytes.NewReader(archive)); err != nil {
		return nil, err
	}
	files, err := untar(archive)
	if err != nil {
		return nil, err
	}
	files = withoutSignature(files)
	signature, err := s.sign(files)
	if err != nil {
		return nil, err
	}
	return tarball.Write(append(files, tarball.File{Name: SignaturesFile, Data: signature}))
}

// SignDir makes the signature of the bundle in fsys: what belongs into its
// .signatures.json.
func SignDir(fsys fs.FS, s Signing) ([]byte, error) {
	files, err := tarball.Of(fsys)
	if err != nil {
		return nil, err
	}
	return s.sign(withoutSignature(files))
}

// untar reads an archive that [rego.Archive] has taken, with the names that it has.
func untar(archive []byte) (files []tarball.File, err error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		files = append(files, tarball.File{Name: strings.TrimPrefix(strings.TrimPrefix(h.Name, "/"), "./"), Data: b})
	}
}

// sign makes .signatures.json of the other files.
func (s Signing) sign(files []tarball.File) ([]byte, error) {
	key, alg, err := s.key()
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	hasher, err := bundle.NewSignatureHasher(bundle.SHA256)
	if err != nil {
		return nil, err
	}
	var infos []bundle.FileInfo
	for _, f := range files {
		if path.Base(f.Name) == SignaturesFile {
			return nil, fmt.Errorf("%s: a signature belongs at the top", f.Name)
		}
		// As `opa sign` does: what data says is signed, not how it is written.
		var v any = f.Data
		if bundle.IsStructuredDoc(f.Name) {
			if err := util.Unmarshal(f.Data, &v); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		sum, err := hasher.HashFile(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		infos = append(infos, bundle.NewFile(f.Name, hex.EncodeToString(sum), bundle.SHA256.String()))
	}
	claims, remove, err := s.claims()
	if err != nil {
		return nil, err
	}
	defer remove()
	token, err := bundle.GenerateSignedToken(infos, bundle.NewSigningConfig(key, alg, claims), s.KeyID)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(map[string]any{"signatures": []string{token}}, jsontext.WithIndent(" "))
	return append(b, '\n'), err
}

// claims writes what the signature says beside the files to a file, for OPA takes
// them from one.
func (s Signing) claims() (path string, remove func(), err error) {
	claims := map[string]any{}
	for name, t := range map[string]time.Time{"iat": s.Issued, "exp": s.Expires} {
		if !t.IsZero() {
			claims[name] = t.Unix()
		}
	}
	if !s.Expires.IsZero() && !s.Expires.After(s.Issued) {
		return "", nil, errors.New("the signature would expire before it is made")
	}
	if s.Scope != "" {
		claims["scope"] = s.Scope
	}
	b, err := json.Marshal(claims)
	if err != nil {
		return "", nil, err
	}
	f, err := os.CreateTemp("", "callgate-claims-*.json")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.Remove(f.Name()) }
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		remove()
		return "", nil, err
	}
	return f.Name(), remove, nil
}

// key is the key as OPA takes it, and how it signs. No error quotes it.
func (s Signing) key() (text, alg string, err error) {
	block, rest := pem.Decode(s.Key)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return "", "", errors.New("it is not one key in PEM form")
	}
	var private any
	switch block.Type {
	case "PRIVATE KEY":
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		private, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return "", "", fmt.Errorf("it is a %s, not a PRIVATE KEY", block.Type)
	}
	if err != nil {
		return "", "", errors.New("it is not one key in PEM form")
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return "", "", errors.New("bundles are not signed with keys of its kind")
	}
	if alg, err = rego.Algorithm(signer.Public(), s.Algorithm); err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})), alg, nil
}

// withoutSignature are the files that a signature is about.
func withoutSignature(files []tarball.File) []tarball.File {
	return slices.DeleteFunc(files, func(f tarball.File) bool { return f.Name == SignaturesFile })
}

// Dir packs a bundle as it is, signature included, to the same bytes every time.
func Dir(fsys fs.FS) ([]byte, error) {
	files, err := tarball.Of(fsys)
	if err != nil {
		return nil, err
	}
	return tarball.Write(files)
}
