package rego

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/bundle"
)

const (
	signaturesFile = ".signatures.json"
	patchFile      = "patch.json"
	manifestFile   = ".manifest"
)

// clockSkew is by how much the clock of who signs may be ahead of ours.
const clockSkew = 5 * time.Minute

// Verification says whose signature a bundle must have. Signatures are OPA's:
// one JWT in .signatures.json with the hash of every other file, as `opa build
// --signing-key`, `opa sign` and `callgate bundle sign` write it.
//
// The signature's claims exp and nbf (RFC 7519, section 4.1), which OPA itself
// does not look at, bound when it is valid. What a bundle's revision and epoch
// are stands in its manifest, which is signed like every file.
type Verification struct {
	// Keys are the public keys that may sign, by the id that signatures give.
	Keys map[string]Key

	// KeyID is the key of signatures that name none. Empty means the only one of
	// Keys, or, if there are several, that such signatures are refused.
	KeyID string

	// Scope is what the signature must be for, such as the name of the layer: else
	// a bundle that the same key has signed for another place would do. Empty means
	// that the signature must have no scope.
	Scope string

	// Now is the clock. Zero means time.Now.
	Now func() time.Time
}

// Validate says everything that is wrong with the configuration. [Verify] does it too.
func (v *Verification) Validate() error {
	_, err := v.keyConfigs()
	return err
}

// Signature is what a bundle's signature says of itself.
type Signature struct {
	KeyID     string    `json:"key_id,omitzero"`
	Algorithm string    `json:"algorithm"`
	Scope     string    `json:"scope,omitzero"`
	Issuer    string    `json:"issuer,omitzero"`
	Issued    time.Time `json:"issued,omitzero"`
	NotBefore time.Time `json:"not_before,omitzero"`
	Expires   time.Time `json:"expires,omitzero"` // zero: never
}

// Verify checks the signature of the bundle in fsys, and gives back what was
// checked: a copy in memory, so that no other bytes are compiled than those that
// were signed, whatever becomes of fsys.
//
// Names in the signature are those in the archive; where [Archive] drops the
// directory in which `opa build` puts modules, Verify drops it likewise.
//
// # Errors
//
// What is refused is a [*BundleError] with a code of its own for each way in which
// a bundle can fail to be what was signed. Any other error is about v, or fsys could
// not be read.
func Verify(fsys fs.FS, v *Verification) (fs.FS, *Signature, error) {
	keys, err := v.keyConfigs()
	if err != nil {
		return nil, nil, err
	}
	c, err := collect(fsys)
	if err != nil {
		return nil, nil, err
	}
	t, err := c.token()
	if err != nil {
		return nil, nil, err
	}
	signed, err := v.check(t, keys)
	if err != nil {
		return nil, nil, err
	}
	if err := c.match(signed); err != nil {
		return nil, nil, err
	}
	out, err := c.fs()
	return out, &t.Signature, err
}

// collect reads all of a bundle, wherever it is, with the limits of [Load].
func collect(fsys fs.FS) (*collection, error) {
	c := newCollection()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			return c.dir(name)
		case !d.Type().IsRegular():
			return &fault{name, errIrregular}
		}
		f, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return c.file(name, f)
	})
	return c, err
}

// token finds the one signature.
func (c *collection) token() (*token, error) {
	var found []byte
	for _, f := range c.files {
		switch base := path.Base(f.name); {
		case base == patchFile:
			return nil, refuse(CodeBundleDelta, f.name, "delta bundles carry no signature")
		case base == signaturesFile && f.name != signaturesFile:
			return nil, refuse(CodeSignatureSecond, f.name, "the signature is the file .signatures.json at the top, and there is no other")
		case base == signaturesFile:
			found = f.data
		}
	}
	if found == nil {
		return nil, refuse(CodeBundleUnsigned, signaturesFile, "there is no signature")
	}
	return readToken(found)
}

// check has OPA verify the signature, and looks at what it is for. It returns the
// files that are signed.
func (v *Verification) check(t *token, keys map[string]*bundle.KeyConfig) (map[string]bundle.FileInfo, error) {
	id := t.KeyID
	if id == "" {
		if id = v.KeyID; id == "" && len(keys) == 1 {
			for id = range keys {
			}
		}
		if id == "" {
			return nil, refuse(CodeSignatureKeyUnknown, signaturesFile, "it names no key, and there are several")
		}
	}
	key, ok := keys[id]
	if !ok {
		return nil, refuse(CodeSignatureKeyUnknown, signaturesFile, fmt.Sprintf("its key %q is none of ours", shown(id)))
	}
	t.KeyID = id
	if t.Algorithm != key.Algorithm {
		return nil, refuse(CodeSignatureInvalid, signaturesFile, fmt.Sprintf("its algorithm %q is not that of the key, %s", shown(t.Algorithm), key.Algorithm))
	}
	// With the scope that it claims: another one is no wrong signature, and has a
	// code of its own.
	signed, err := bundle.VerifyBundleSignature(
		bundle.SignaturesConfig{Signatures: []string{t.raw}},
		bundle.NewVerificationConfig(keys, id, t.Scope, nil),
	)
	if err != nil {
		return nil, refuse(CodeSignatureInvalid, signaturesFile, fmt.Sprintf("it is not by the key %q", id))
	}
	return signed, v.checkClaims(&t.Signature)
}

func (v *Verification) checkClaims(s *Signature) error {
	now := v.Now
	if now == nil {
		now = time.Now
	}
	at := now()
	switch {
	case s.Scope != v.Scope:
		return refuse(CodeSignatureScope, signaturesFile, fmt.Sprintf("it is for %q, not for %q", shown(s.Scope), v.Scope))
	case !s.Expires.IsZero() && !at.Before(s.Expires):
		return refuse(CodeSignatureExpired, signaturesFile, "it was valid until "+s.Expires.Format(time.RFC3339))
	case at.Add(clockSkew).Before(s.Issued), at.Add(clockSkew).Before(s.NotBefore):
		return refuse(CodeSignatureEarly, signaturesFile, "it is valid only later, or the clock is wrong")
	}
	return nil
}

// strongHashes are the hash algorithms, as OPA names them, that nobody can find
// two files of one hash for.
var strongHashes = []string{"SHA-256", "SHA-384", "SHA-512", "SHA-512-256"}

// maxTold is how many files an error tells of.
const maxTold = 8

// match compares the files with those that are signed: each of them, unchanged,
// and no other.
func (c *collection) match(signed map[string]bundle.FileInfo) error {
	signed, err := rebasedNames(signed)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range c.files {
		if f.name == signaturesFile {
			continue
		}
		info, ok := signed[f.name]
		switch {
		case !ok:
			errs = append(errs, refuse(CodeBundleFileExtra, f.name, "is not among the files that are signed"))
			continue
		case !slices.Contains(strongHashes, info.Algorithm):
			return refuse(CodeSignatureMalformed, signaturesFile, fmt.Sprintf("hashes files with %q", shown(info.Algorithm)))
		case !hashable(f):
			errs = append(errs, refuse(CodeBundleTampered, f.name, "is not what is signed"))
		default:
			if err := bundle.VerifyBundleFile(f.name, *bytes.NewBuffer(f.data), map[string]bundle.FileInfo{f.name: info}); err != nil {
				errs = append(errs, refuse(CodeBundleTampered, f.name, "is not what is signed"))
			}
		}
		delete(signed, f.name)
	}
	for name := range signed {
		errs = append(errs, refuse(CodeBundleFileMissing, name, "is signed, and is not there"))
	}
	// The order of a map is none.
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs[:min(len(errs), maxTold)]...)
}

// hashable reports whether a file means one thing. OPA hashes what the files of
// data and the manifest say, not their bytes, and reads what is no JSON as YAML.
func hashable(f memFile) bool {
	switch base := path.Base(f.name); {
	case base == "data.json", base == manifestFile:
		_, err := jsontext.AppendFormat(nil, f.data)
		return err == nil
	case bundle.IsStructuredDoc(f.name):
		return wholeYAML(f.data) == nil
	}
	return true
}

// rebasedNames are the names that [Archive] gives to the files of these.
func rebasedNames(signed map[string]bundle.FileInfo) (map[string]bundle.FileInfo, error) {
	c := newCollection()
	for _, name := range slices.Sorted(mapKeys(signed)) {
		if err := c.file(strings.TrimPrefix(name, "/"), strings.NewReader("")); err != nil {
			return nil, &BundleError{CodeSignatureMalformed, signaturesFile, "names files as an archive cannot", err}
		}
	}
	to, err := c.rebased()
	if err != nil {
		return nil, &BundleError{CodeSignatureMalformed, signaturesFile, "names files as an archive cannot", err}
	}
	out := make(map[string]bundle.FileInfo, len(signed))
	for i, name := range slices.Sorted(mapKeys(signed)) {
		out[to.files[i].name] = signed[name]
	}
	return out, nil
}
