package rego

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
)

var update = flag.Bool("update", false, "rewrite rego/schema")

// refused are the builtins of OPA that no policy may call, and why.
var refused = map[string][]string{
	"reads or reaches something outside": {
		"http.send", "net.lookup_ip_addr", "opa.runtime", "rand.intn", "uuid.rfc4122",
		"json.match_schema", "json.verify_schema", // may fetch schemas
		"rego.parse_module", "trace",
		"time.parse_ns", // asks the machine about abbreviated time zones
	},
	"checks against the machine's clock or roots": {
		"io.jwt.decode_verify", "crypto.x509.parse_and_verify_certificates",
		"crypto.x509.parse_and_verify_certificates_with_options",
	},
	"authentication is the ingress's": {
		"io.jwt.decode", "io.jwt.verify_eddsa",
		"io.jwt.verify_es256", "io.jwt.verify_es384", "io.jwt.verify_es512",
		"io.jwt.verify_hs256", "io.jwt.verify_hs384", "io.jwt.verify_hs512",
		"io.jwt.verify_ps256", "io.jwt.verify_ps384", "io.jwt.verify_ps512",
		"io.jwt.verify_rs256", "io.jwt.verify_rs384", "io.jwt.verify_rs512",
		"crypto.x509.parse_certificate_request", "crypto.x509.parse_certificates",
	},
	"keys have no place in policies": {
		"io.jwt.encode_sign", "io.jwt.encode_sign_raw", "providers.aws.sign_req",
		"crypto.parse_private_keys", "crypto.x509.parse_keypair", "crypto.x509.parse_rsa_private_key",
	},
	"an argument can make them run for minutes, and no deadline ends them": {"bits.lsh", "strings.render_template"},
	"OPA keeps what it compiles, however large an argument makes that":     {"regex.template_match"},
	"of a family that is out as a whole": {
		"net.cidr_contains", "net.cidr_contains_matches", "net.cidr_expand", "net.cidr_intersects",
		"net.cidr_is_valid", "net.cidr_merge", "uuid.parse",
	},
	"deprecated": {
		"all", "any", "cast_array", "cast_boolean", "cast_null", "cast_object", "cast_set", "cast_string",
		"net.cidr_overlap", "re_match", "set_diff",
	},
	"only for OPA's own test runner": {"internal.test_case"},
}

func isRefused(name string) bool {
	for _, names := range refused {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// A new OPA brings builtins and changes others; somebody has to look at them.
func TestEveryBuiltinIsDecidedOn(t *testing.T) {
	allowed := map[string]bool{}
	for _, b := range Capabilities().Builtins {
		allowed[b.Name] = true
	}
	known := map[string]bool{}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		known[b.Name] = true
		if allowed[b.Name] == isRefused(b.Name) {
			t.Errorf("%s must be in exactly one of schema/capabilities.json and the refused list", b.Name)
		}
		if b.IsNondeterministic() && allowed[b.Name] && b.Name != "time.now_ns" {
			t.Errorf("%s is allowed and OPA calls it nondeterministic", b.Name)
		}
	}
	for name := range allowed {
		if !known[name] {
			t.Errorf("%s is allowed and OPA has no such builtin", name)
		}
	}
	for _, names := range refused {
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s is refused and OPA has no such builtin", name)
			}
		}
	}
}

// The file says of each builtin what OPA says; -update takes that over but
// never adds a name.
func TestCapabilitiesFile(t *testing.T) {
	want := ast.CapabilitiesForThisVersion()
	allowed := Capabilities().Builtins
	want.Builtins = slices.DeleteFunc(slices.Clone(want.Builtins), func(b *ast.Builtin) bool {
		return !slices.ContainsFunc(allowed, func(a *ast.Builtin) bool { return a.Name == b.Name })
	})
	want.WasmABIVersions = nil
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	doc["allow_net"] = []string{} // OPA leaves an empty list out, and reads none as any host
	if b, err = json.MarshalIndent(doc, "", " "); err != nil {
		t.Fatal(err)
	}
	same(t, "schema/capabilities.json", append(b, '\n'))
	if got := Capabilities().AllowNet; got == nil || len(got) != 0 {
		t.Errorf("allow_net = %v, want [], since nil means any host", got)
	}
}

func same(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date; run go test ./rego -update and read the difference", file)
	}
}

func TestRefusedBuiltinsDoNotLoad(t *testing.T) {
	builtins := map[string]*ast.Builtin{}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		builtins[b.Name] = b
	}
	for _, names := range refused {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				args := make([]string, builtins[name].Decl.Arity())
				for i := range args {
					args[i] = "input.args.x"
				}
				src := "package callgate\n\ndecision := false if _x\n\n_x := " + name + "(" + strings.Join(args, ", ") + ")\n"
				_, err := Open(context.Background(), fstest.MapFS{"p.rego": {Data: []byte(src)}}, Options{})
				if err == nil || !strings.Contains(err.Error(), "p.rego:") || !strings.Contains(err.Error(), name) {
					t.Errorf("Open() = %v, want an error that names the builtin and its place", err)
				}
			})
		}
	}
}
