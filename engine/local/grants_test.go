package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/token"
)

// twoPlaces are a configuration that issues grants and one that runs them.
func twoPlaces(t *testing.T) (decider, runner local.Config) {
	t.Helper()
	place := func() (string, local.Config) {
		dir := t.TempDir()
		writeSmall(t, dir)
		return dir, small(dir)
	}
	here, decider := place()
	there, runner := place()
	keys, jwks := filepath.Join(here, "keys"), filepath.Join(there, "jwks.json")
	ring, err := token.MakeRing(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := ring.Set()
	if err != nil {
		t.Fatal(err)
	}
	b, err := set.Encode()
	if err := errors.Join(err, os.WriteFile(jwks, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	decider.Node, decider.Grants.Keys = "decider", keys
	runner.Node, runner.Grants.Issuers = "runner", []local.GrantIssuer{{Name: "decider", JWKS: jwks}}
	return decider, runner
}

// A grant of one data directory runs over another one, whoever owns them: what a
// client is told is what the owner would be.
func TestGrantsAcrossDirectories(t *testing.T) {
	decider, runner := twoPlaces(t)
	owner, from := open(t, decider), dial(t, decider)
	executor, to := open(t, runner), dial(t, runner)
	for _, issue := range []local.Gate{owner, from} {
		for _, execute := range []local.Gate{executor, to} {
			c := ask("echo", "hi")
			raw, err := issue.Issue(t.Context(), c, "runner")
			if err != nil {
				t.Fatal(err)
			}
			res, err := execute.Execute(t.Context(), raw, c.Args)
			if err != nil || string(res.Output) != `"hi"` {
				t.Fatalf("Execute = %+v, %v", res, err)
			}
			for _, again := range []local.Gate{executor, to} {
				if res, err := again.Execute(t.Context(), raw, c.Args); res != nil || denied(err) != call.CodeGrantSpent {
					t.Errorf("Execute again = %+v, %v", res, err)
				}
			}
		}
	}
	large := ask("echo", strings.Repeat("x", 3*call.MaxArgsBytes)).Args
	raw, err := from.Issue(t.Context(), ask("echo", "hi"), "runner")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		raw  string
		args []byte
		want call.Code
	}{
		"too many arguments": {raw, large, call.CodeArgsTooLarge},
		"too long":           {strings.Repeat("a", 2*token.MaxBytes), nil, call.CodeGrantInvalid},
		"not UTF-8":          {"\xff", nil, call.CodeGrantInvalid},
		"none":               {"", nil, call.CodeGrantInvalid},
	} {
		for who, g := range map[string]local.Gate{"owner": executor, "client": to} {
			if _, err := g.Execute(t.Context(), tt.raw, tt.args); denied(err) != tt.want {
				t.Errorf("%s, %s: %v", name, who, err)
			}
		}
	}
	if _, err := from.Issue(t.Context(), ask("wipe", ""), "runner"); denied(err) != call.CodeRequiresApproval {
		t.Errorf("Issue of what needs approval = %v", err)
	}
	if _, err := to.Issue(t.Context(), ask("echo", ""), "runner"); denied(err) != call.CodeGrantUnavailable {
		t.Errorf("Issue without keys = %v", err)
	}

	if err := to.Revoke(t.Context(), call.Revocation{Principal: engine.PrincipalDigest(ask("", "").Principal)}); err != nil {
		t.Fatal(err)
	}
	if _, err := executor.Execute(t.Context(), raw, ask("echo", "hi").Args); denied(err) != call.CodeRevoked {
		t.Errorf("Execute of what is revoked = %v", err)
	}
	if err := to.Revoke(t.Context(), call.Revocation{Tool: "a\nb"}); err == nil {
		t.Error("a revocation of nothing that has a name")
	}
}

func TestOpenRefusesGrants(t *testing.T) {
	_, runner := twoPlaces(t)
	jwks := runner.Grants.Issuers[0].JWKS
	shared := filepath.Join(t.TempDir(), "shared.json") // that others can write
	b, err := os.ReadFile(jwks)
	if err := errors.Join(err, os.WriteFile(shared, b, 0o600), os.Chmod(shared, 0o666)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		grants local.Grants
		node   string
		want   string
	}{
		"no keys":           {local.Grants{Keys: filepath.Join(t.TempDir(), "none")}, "n", "grants: keys"},
		"no issuer's name":  {local.Grants{Issuers: []local.GrantIssuer{{JWKS: jwks}}}, "n", "no name"},
		"one issuer twice":  {local.Grants{Issuers: []local.GrantIssuer{{Name: "a", JWKS: jwks}, {Name: "a", JWKS: jwks}}}, "n", "twice"},
		"no set of keys":    {local.Grants{Issuers: []local.GrantIssuer{{Name: "a", JWKS: jwks + ".none"}}}, "n", "grants: issuer"},
		"plain http":        {local.Grants{Issuers: []local.GrantIssuer{{Name: "a", JWKS: "http://127.0.0.1/jwks"}}}, "n", "https"},
		"no certificate":    {local.Grants{Issuers: []local.GrantIssuer{{Name: "a", JWKS: "https://127.0.0.1/jwks", CA: jwks}}}, "n", "no certificate"},
		"anybody's keys":    {local.Grants{Issuers: []local.GrantIssuer{{Name: "a", JWKS: shared}}}, "n", "others may have written it"},
		"anybody's CA":      {local.Grants{Issuers: []local.GrantIssuer{{Name: "a", JWKS: "https://127.0.0.1/jwks", CA: shared}}}, "n", "others may have written it"},
		"no name for us":    {local.Grants{Issuers: []local.GrantIssuer{{Name: "a", JWKS: jwks}}}, "", "Audience"},
		"longer than a day": {local.Grants{Keys: "", Issuers: []local.GrantIssuer{{Name: "a", JWKS: jwks}}, TTL: 1 << 50}, "n", "TTL"},
	} {
		t.Run(name, func(t *testing.T) {
			c := runner
			c.Grants, c.Node = tt.grants, tt.node
			mustNotOpen(t, c, tt.want)
		})
	}
}

// A client with other issuers or keys is not the owner's, and a rotation changes
// nothing of that.
func TestGrantsAreConfiguration(t *testing.T) {
	decider, runner := twoPlaces(t)
	open(t, decider)
	other := decider
	other.Grants.Issuer = "another"
	if _, err := local.Dial(t.Context(), other); !errors.Is(err, local.ErrConfigDiffers) {
		t.Errorf("Dial as another issuer = %v", err)
	}
	ring, err := token.OpenRing(decider.Grants.Keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Rotate(true); err != nil {
		t.Fatal(err)
	}
	raw, err := dial(t, decider).Issue(t.Context(), ask("echo", "hi"), "runner")
	if err != nil {
		t.Fatal(err)
	}
	now, _, err := ring.KeyIDs()
	if p, parseErr := token.Parse(raw); err != nil || parseErr != nil || p.KeyID() != now {
		t.Errorf("signed with another key than that whose turn it is: %v, %v", err, parseErr)
	}
	open(t, runner)
	other = runner
	other.Grants.Issuers = append([]local.GrantIssuer{{Name: "x", JWKS: runner.Grants.Issuers[0].JWKS}}, runner.Grants.Issuers...)
	if _, err := local.Dial(t.Context(), other); !errors.Is(err, local.ErrConfigDiffers) {
		t.Errorf("Dial with another issuer = %v", err)
	}
}

// A key by which bundles are believed is one that nobody else can put there.
func TestOpenRefusesKeysOfOthers(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	c, key := small(dir), filepath.Join(dir, "release.pub")
	if err := errors.Join(os.WriteFile(key, []byte("a key"), 0o600), os.Chmod(key, 0o664)); err != nil {
		t.Fatal(err)
	}
	c.Layers = []local.Layer{{Bundle: c.Bundle, Signing: &local.Signing{Scope: "x", Keys: []local.SigningKey{{ID: "release", File: key}}}}}
	c.Bundle = ""
	mustNotOpen(t, c, "others may have written it")
	c.Layers[0].Signing.Keys[0].File = dir
	mustNotOpen(t, c, "is not a regular file")
}
