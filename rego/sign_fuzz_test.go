package rego_test

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/open-policy-agent/opa/v1/bundle"

	"github.com/callgate/callgate/rego"
)

// Whatever we take, OPA's own reader takes with the same key, and it is what was
// signed: nobody else has the key.
func FuzzVerify(f *testing.F) {
	key := edKey(f)
	good := sign(f, policy(), key)
	rule, data, manifest, sig := good["policy.rego"].Data, good["hosts/data.json"].Data, good[".manifest"].Data, good[signatures].Data
	f.Add(rule, data, manifest, sig)
	f.Add([]byte("package callgate\n"), data, manifest, sig)
	f.Add(rule, []byte(`{"max": 3, "allowed": ["a.example"]}`), manifest, sig)
	f.Add(rule, []byte("{allowed: [a.example], max: 3}"), manifest, sig)
	f.Add(rule, data, append(bytes.Clone(manifest), "{}"...), sig)
	f.Add(rule, data, manifest, []byte(`{"signatures": ["e30.e30.e30"]}`))
	f.Add(rule, data, manifest, bytes.Replace(sig, []byte(`"signatures"`), []byte(`"Signatures"`), 1))
	v := verification(f, key)
	config := bundle.NewVerificationConfig(map[string]*bundle.KeyConfig{"k": {Key: v.Keys["k"].PEM, Algorithm: "EdDSA"}}, "", v.Scope, nil)
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		m := policy()
		for name, body := range map[string][]byte{"policy.rego": a, "hosts/data.json": b, ".manifest": c, signatures: d} {
			put(m, name, string(body))
		}
		got, _, err := rego.Verify(m, v)
		if err != nil {
			_ = rego.Places(err) // does not panic
			return
		}
		if x, err := fs.ReadFile(got, "policy.rego"); err != nil || !bytes.Equal(x, rule) {
			t.Fatalf("takes another rule: %q, %v", x, err)
		}
		b2, err := bundle.NewCustomReader(bundle.NewFSLoaderWithRoot(got, ".").WithPathFormat(bundle.Passthrough)).
			WithBundleVerificationConfig(config).Read()
		if err != nil {
			t.Fatalf("OPA refuses it: %v", err)
		}
		if b2.Manifest.Revision != "r1" || len(b2.Data["hosts"].(map[string]any)) != 2 {
			t.Fatalf("takes another bundle: %v %v", b2.Manifest, b2.Data)
		}
	})
}
