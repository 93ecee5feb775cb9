package rego_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
)

const signatures = ".signatures.json"

// signed is when the signatures of these tests are made.
var signed = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) func() time.Time { return func() time.Time { return signed.Add(d) } }

func pemOf(t testing.TB, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// pair is a key in PEM form, private and public.
func pair(t testing.TB, key crypto.Signer) (private []byte, public string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = []byte(pemOf(t, "PRIVATE KEY", der, err))
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	return private, pemOf(t, "PUBLIC KEY", der, err)
}

func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecKey(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// policy is a bundle with a file of each kind.
func policy() fstest.MapFS {
	return fstest.MapFS{
		"policy.rego":     {Data: []byte("package callgate\n\ndecision := {\"decision\": \"deny\"}\n")},
		"hosts/data.json": {Data: []byte(`{"allowed": ["a.example"], "max": 3}`)},
		"more/data.yaml":  {Data: []byte("x: 1\n")},
		".manifest":       {Data: []byte(`{"revision": "r1", "metadata": {"callgate": {"epoch": 7}}}`)},
		"README.md":       {Data: []byte("hello\n")},
	}
}

// sign adds a signature by key, for "team/bundle", by the name "k".
func sign(t testing.TB, fsys fstest.MapFS, key crypto.Signer, change ...func(*pack.Signing)) fstest.MapFS {
	t.Helper()
	private, _ := pair(t, key)
	s := pack.Signing{Key: private, KeyID: "k", Scope: "team/bundle", Issued: signed, Expires: signed.Add(24 * time.Hour)}
	for _, c := range change {
		c(&s)
	}
	b, err := pack.SignDir(fsys, s)
	if err != nil {
		t.Fatal(err)
	}
	out := maps.Clone(fsys)
	out[signatures] = &fstest.MapFile{Data: b}
	return out
}

// verification is what takes the signatures of sign.
func verification(t testing.TB, key crypto.Signer) *rego.Verification {
	t.Helper()
	_, public := pair(t, key)
	return &rego.Verification{Keys: map[string]rego.Key{"k": {PEM: public}}, Scope: "team/bundle", Now: at(time.Hour)}
}

// tarGz is the bundle as an archive, with names as opa writes them.
func tarGz(t testing.TB, fsys fstest.MapFS) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(fsys)) {
		b := fsys[name].Data
		if err := w.WriteHeader(&tar.Header{Name: "/" + name, Size: int64(len(b)), Typeflag: tar.TypeReg, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestVerify(t *testing.T) {
	big := rsaKey(t, 2048)
	for _, tt := range []struct {
		name, alg, want string
		key             crypto.Signer
	}{
		{"RSA", "", "RS256", big},
		{"RSA, 512", "RS512", "RS512", big},
		{"RSA-PSS", "PS256", "PS256", big},
		{"P-256", "", "ES256", ecKey(t, elliptic.P256())},
		{"P-384", "", "ES384", ecKey(t, elliptic.P384())},
		{"P-521", "ES512", "ES512", ecKey(t, elliptic.P521())},
		{"Ed25519", "", "EdDSA", edKey(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := sign(t, policy(), tt.key, func(s *pack.Signing) { s.Algorithm = tt.alg })
			v := verification(t, tt.key)
			v.Keys["k"] = rego.Key{PEM: v.Keys["k"].PEM, Algorithm: tt.alg}
			archive, err := rego.Archive(bytes.NewReader(tarGz(t, dir)))
			if err != nil {
				t.Fatal(err)
			}
			for kind, fsys := range map[string]fs.FS{"directory": dir, "archive": archive} {
				got, s, err := rego.Verify(fsys, v)
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				want := rego.Signature{KeyID: "k", Algorithm: tt.want, Scope: "team/bundle", Issued: signed, Expires: signed.Add(24 * time.Hour)}
				if *s != want {
					t.Errorf("%s: %+v, want %+v", kind, *s, want)
				}
				for name, f := range dir {
					if b, err := fs.ReadFile(got, name); err != nil || !bytes.Equal(b, f.Data) {
						t.Errorf("%s: %s reads as %q, %v", kind, name, b, err)
					}
				}
			}
		})
	}
}

// moving is a file system of which each file reads as its second contents from the
// second time on.
type moving struct {
	fstest.MapFS
	second []byte
	opened map[string]int
}

func (m *moving) Open(name string) (fs.File, error) {
	if m.opened[name]++; name == "policy.rego" && m.opened[name] > 1 {
		return fstest.MapFS{name: {Data: m.second}}.Open(name)
	}
	return m.MapFS.Open(name)
}

// The bytes that were checked are the ones that are compiled.
func TestVerifyReadsOnce(t *testing.T) {
	key := edKey(t)
	m := &moving{sign(t, policy(), key), []byte("package callgate\n\ndecision := \"allow\"\n"), map[string]int{}}
	got, _, err := rego.Verify(m, verification(t, key))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := fs.ReadFile(got, "policy.rego"); err != nil || !strings.Contains(string(b), "deny") {
		t.Errorf("compiles %q, %v", b, err)
	}
}

// resign changes what a signature says, and signs that with key.
func resign(t testing.TB, fsys fstest.MapFS, key ed25519.PrivateKey, change func(header, claims map[string]any)) {
	t.Helper()
	var file struct{ Signatures []string }
	if err := json.Unmarshal(fsys[signatures].Data, &file, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(file.Signatures[0], ".")
	var both [2]map[string]any
	for i := range both {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &both[i]); err != nil {
			t.Fatal(err)
		}
	}
	change(both[0], both[1])
	for i := range both {
		b, err := json.Marshal(both[i])
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = base64.RawURLEncoding.EncodeToString(b)
	}
	parts[2] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(parts[0]+"."+parts[1])))
	put(fsys, signatures, `{"signatures": ["`+strings.Join(parts, ".")+`"]}`)
}

func put(fsys fstest.MapFS, name, body string) { fsys[name] = &fstest.MapFile{Data: []byte(body)} }

// Every way in which a bundle is not what was signed has a code of its own.
func TestVerifyRefuses(t *testing.T) {
	key, other := edKey(t), edKey(t)
	claim := func(name string, v any) func(*testing.T, fstest.MapFS) {
		return func(t *testing.T, m fstest.MapFS) {
			resign(t, m, key, func(_, claims map[string]any) { claims[name] = v })
		}
	}
	header := func(name string, v any) func(*testing.T, fstest.MapFS) {
		return func(t *testing.T, m fstest.MapFS) {
			resign(t, m, key, func(h, _ map[string]any) { h[name] = v })
		}
	}
	text := func(name, body string) func(*testing.T, fstest.MapFS) {
		return func(_ *testing.T, m fstest.MapFS) { put(m, name, body) }
	}
	for _, tt := range []struct {
		name   string
		change func(*testing.T, fstest.MapFS)
		want   rego.BundleCode
		file   string // in the first place of the error
	}{
		{"unsigned", func(_ *testing.T, m fstest.MapFS) { delete(m, signatures) }, rego.CodeBundleUnsigned, signatures},
		{"signed by its old name", func(_ *testing.T, m fstest.MapFS) { m["signatures.json"] = m[signatures]; delete(m, signatures) }, rego.CodeBundleUnsigned, signatures},
		{"delta", text("patch.json", `{"data": [{"op": "upsert", "path": "/hosts", "value": {}}]}`), rego.CodeBundleDelta, "patch.json"},
		{"delta below", text("x/patch.json", `{}`), rego.CodeBundleDelta, "x/patch.json"},
		{"second signature", func(_ *testing.T, m fstest.MapFS) { m["x/"+signatures] = m[signatures] }, rego.CodeSignatureSecond, "x/" + signatures},
		{"signature elsewhere", func(_ *testing.T, m fstest.MapFS) { m["x/"+signatures] = m[signatures]; delete(m, signatures) }, rego.CodeSignatureSecond, "x/" + signatures},

		{"no JSON", text(signatures, "x"), rego.CodeSignatureMalformed, signatures},
		{"none in it", text(signatures, `{"signatures": []}`), rego.CodeSignatureMalformed, signatures},
		{"null", text(signatures, `null`), rego.CodeSignatureMalformed, signatures},
		{"two in it", func(_ *testing.T, m fstest.MapFS) {
			put(m, signatures, strings.NewReplacer(`["`, `["a.b.c", "`, "[\n", `["a.b.c",`).Replace(string(m[signatures].Data)))
		}, rego.CodeSignatureMalformed, signatures},
		{"another verifier", func(_ *testing.T, m fstest.MapFS) {
			put(m, signatures, strings.Replace(string(m[signatures].Data), "{", `{"plugin": "none", `, 1))
		}, rego.CodeSignatureMalformed, signatures},
		{"keys twice", func(_ *testing.T, m fstest.MapFS) {
			put(m, signatures, strings.Replace(string(m[signatures].Data), "{", `{"signatures": ["a.b.c"], `, 1))
		}, rego.CodeSignatureMalformed, signatures},
		{"no token", text(signatures, `{"signatures": ["x"]}`), rego.CodeSignatureMalformed, signatures},
		{"no base64", text(signatures, `{"signatures": ["!.!.!"]}`), rego.CodeSignatureMalformed, signatures},
		{"critical extension", header("crit", []string{"b64"}), rego.CodeSignatureMalformed, signatures},
		{"time as text", claim("exp", "tomorrow"), rego.CodeSignatureMalformed, signatures},
		{"time of no calendar", claim("exp", 1e300), rego.CodeSignatureMalformed, signatures},
		{"time below 0", claim("exp", -1), rego.CodeSignatureMalformed, signatures},
		{"weak hash", claim("files", []any{map[string]any{"name": "policy.rego", "hash": "00", "algorithm": "MD5"}}), rego.CodeSignatureMalformed, signatures},
		{"names that go up", claim("files", []any{map[string]any{"name": "../x", "hash": "00", "algorithm": "SHA-256"}}), rego.CodeSignatureMalformed, signatures},

		{"unknown key", header("kid", "k2"), rego.CodeSignatureKeyUnknown, signatures},
		{"wrong key", func(t *testing.T, m fstest.MapFS) { resign(t, m, other, func(_, _ map[string]any) {}) }, rego.CodeSignatureInvalid, signatures},
		{"no algorithm", header("alg", "none"), rego.CodeSignatureInvalid, signatures},
		{"a secret's algorithm", header("alg", "HS256"), rego.CodeSignatureInvalid, signatures},
		{"changed signature", func(_ *testing.T, m fstest.MapFS) {
			s := string(m[signatures].Data)
			i := strings.LastIndex(s, ".") + 10
			c := byte('A')
			if s[i] == c {
				c = 'B'
			}
			put(m, signatures, s[:i]+string(c)+s[i+1:])
		}, rego.CodeSignatureInvalid, signatures},

		{"another scope", claim("scope", "team/other"), rego.CodeSignatureScope, signatures},
		{"no scope", claim("scope", ""), rego.CodeSignatureScope, signatures},
		{"scope in another case", claim("scope", "Team/bundle"), rego.CodeSignatureScope, signatures},
		{"expired", claim("exp", signed.Add(time.Hour).Unix()), rego.CodeSignatureExpired, signatures},
		{"not yet", claim("nbf", signed.Add(2*time.Hour).Unix()), rego.CodeSignatureEarly, signatures},
		{"made tomorrow", claim("iat", signed.Add(24*time.Hour).Unix()), rego.CodeSignatureEarly, signatures},

		{"tampered rule", text("policy.rego", "package callgate\n\ndecision := \"allow\"\n"), rego.CodeBundleTampered, "policy.rego"},
		{"tampered data", text("hosts/data.json", `{"allowed": ["*"], "max": 3}`), rego.CodeBundleTampered, "hosts/data.json"},
		{"tampered number", text("hosts/data.json", `{"allowed": ["a.example"], "max": 3.0}`), rego.CodeBundleTampered, "hosts/data.json"},
		{"data twice", text("hosts/data.json", `{"max": 9, "allowed": ["a.example"], "max": 3}`), rego.CodeBundleTampered, "hosts/data.json"},
		{"data as YAML", text("hosts/data.json", "allowed: [a.example]\nmax: 3\n"), rego.CodeBundleTampered, "hosts/data.json"},
		{"YAML twice", text("more/data.yaml", "x: 1\n---\nx: 2\n"), rego.CodeBundleTampered, "more/data.yaml"},
		{"tampered manifest", text(".manifest", `{"revision": "r2", "metadata": {"callgate": {"epoch": 8}}}`), rego.CodeBundleTampered, ".manifest"},
		{"more after the manifest", func(_ *testing.T, m fstest.MapFS) { put(m, ".manifest", string(m[".manifest"].Data)+"\n{}") }, rego.CodeBundleTampered, ".manifest"},
		{"tampered text", text("README.md", "bye\n"), rego.CodeBundleTampered, "README.md"},
		{"extra rule", text("x.rego", "package x\n"), rego.CodeBundleFileExtra, "x.rego"},
		{"extra data", text("x/data.json", "{}"), rego.CodeBundleFileExtra, "x/data.json"},
		{"extra text", text("NOTES.md", ""), rego.CodeBundleFileExtra, "NOTES.md"},
		{"excluded by itself", claim("exclude_files", []string{"*"}), "", ""},
		{"missing rule", func(_ *testing.T, m fstest.MapFS) { delete(m, "policy.rego") }, rego.CodeBundleFileMissing, "policy.rego"},
		{"missing data", func(_ *testing.T, m fstest.MapFS) { delete(m, "hosts/data.json") }, rego.CodeBundleFileMissing, "hosts/data.json"},
		{"moved data", func(_ *testing.T, m fstest.MapFS) {
			m["data.json"] = m["hosts/data.json"]
			delete(m, "hosts/data.json")
		}, rego.CodeBundleFileExtra, "data.json"},
		{"written otherwise", text("hosts/data.json", "{\n  \"max\": 3, \"allowed\": [\"a.example\"]}"), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := sign(t, policy(), key)
			tt.change(t, m)
			archive, err := rego.Archive(bytes.NewReader(tarGz(t, m)))
			if err != nil {
				t.Fatal(err)
			}
			for kind, fsys := range map[string]fs.FS{"directory": m, "archive": archive} {
				_, _, err := rego.Verify(fsys, verification(t, key))
				if got := rego.BundleCodeOf(err); got != tt.want || (err == nil) != (tt.want == "") {
					t.Errorf("%s: %v, want %s", kind, err, tt.want)
					continue
				}
				if err == nil {
					continue
				}
				if places := rego.Places(err); len(places) == 0 || !strings.HasPrefix(places[0], tt.file+": "+string(tt.want)) {
					t.Errorf("%s: to mend is %q, want %s", kind, places, tt.file)
				}
			}
		})
	}
}

// A signature without a name is by the only key, or by the one that the operator
// says; among several it is by none.
func TestVerifyUnnamedKey(t *testing.T) {
	key, other := edKey(t), edKey(t)
	m := sign(t, policy(), key, func(s *pack.Signing) { s.KeyID = "" })
	v := verification(t, key)
	if _, s, err := rego.Verify(m, v); err != nil || s.KeyID != "k" {
		t.Errorf("the only key: %+v, %v", s, err)
	}
	_, public := pair(t, other)
	v.Keys["other"] = rego.Key{PEM: public}
	if _, _, err := rego.Verify(m, v); rego.BundleCodeOf(err) != rego.CodeSignatureKeyUnknown {
		t.Errorf("one of two: %v", err)
	}
	v.KeyID = "k"
	if _, _, err := rego.Verify(m, v); err != nil {
		t.Errorf("the one that is said: %v", err)
	}
	v.KeyID = "other"
	if _, _, err := rego.Verify(m, v); rego.BundleCodeOf(err) != rego.CodeSignatureInvalid {
		t.Errorf("another: %v", err)
	}
}

// Where opa puts modules below a directory, the signature has those names.
func TestVerifyBelowDirectory(t *testing.T) {
	key := edKey(t)
	m := sign(t, fstest.MapFS{
		"w/b/callgate/lib.rego": {Data: []byte("package callgate.lib\n")},
		"w/b/x.rego":            {Data: []byte("package x\n")},
		"data.json":             {Data: []byte("{}")},
	}, key)
	load := func(m fstest.MapFS) fs.FS {
		fsys, err := rego.Archive(bytes.NewReader(tarGz(t, m)))
		if err != nil {
			t.Fatal(err)
		}
		return fsys
	}
	got, _, err := rego.Verify(load(m), verification(t, key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(got, "callgate/lib.rego"); err != nil {
		t.Error(err)
	}
	extra := maps.Clone(m)
	put(extra, "w/b/y.rego", "package y\n")
	if _, _, err := rego.Verify(load(extra), verification(t, key)); rego.BundleCodeOf(err) != rego.CodeBundleFileExtra {
		t.Errorf("one more: %v", err)
	}
}

func TestVerificationValidate(t *testing.T) {
	private, public := pair(t, edKey(t))
	_, p224 := pair(t, ecKey(t, elliptic.P224()))
	t.Setenv("GODEBUG", "rsa1024min=0")
	_, small := pair(t, rsaKey(t, 1024))
	key := func(k rego.Key) *rego.Verification { return &rego.Verification{Keys: map[string]rego.Key{"k": k}} }
	for name, tt := range map[string]struct {
		give *rego.Verification
		want string
	}{
		"good":          {key(rego.Key{PEM: public}), ""},
		"none":          {&rego.Verification{}, "no key"},
		"secret":        {key(rego.Key{PEM: "s3cret", Algorithm: "HS256"}), "use a key pair"},
		"secret, alone": {key(rego.Key{PEM: "s3cret"}), "PEM form"},
		"private":       {key(rego.Key{PEM: string(private)}), "not a PUBLIC KEY"},
		"two":           {key(rego.Key{PEM: public + public}), "PEM form"},
		"algorithm":     {key(rego.Key{PEM: public, Algorithm: "RS256"}), "EdDSA"},
		"none of ours":  {key(rego.Key{PEM: public, Algorithm: "none"}), "cannot sign"},
		"curve":         {key(rego.Key{PEM: p224}), "kind"},
		"small":         {key(rego.Key{PEM: small}), "2048"},
		"no id":         {&rego.Verification{Keys: map[string]rego.Key{"": {PEM: public}}}, "no id"},
		"default":       {&rego.Verification{Keys: map[string]rego.Key{"k": {PEM: public}}, KeyID: "x"}, `no key "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.give.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error tells the secret: %v", err)
			}
			if _, _, err2 := rego.Verify(policy(), tt.give); err != nil && (err2 == nil || err2.Error() != err.Error()) {
				t.Errorf("Verify goes on with it: %v", err2)
			}
		})
	}
}
