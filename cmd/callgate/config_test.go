package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/local"
)

// load runs loadConfig as a command with these flags would.
func load(t *testing.T, file string, flags ...string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callgate.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var c Config
	var err error
	cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		c, err = loadConfig(cmd)
		return nil
	}}
	addConfigFlags(cmd)
	cmd.SetArgs(append([]string{"--config", path}, flags...))
	if x := cmd.Execute(); x != nil {
		t.Fatal(x)
	}
	return c, err
}

func TestConfigPrecedence(t *testing.T) {
	tests := []struct {
		name  string
		file  string
		env   string
		flags []string
		want  string
	}{
		{name: "default", want: ""},
		{name: "file", file: "node: file", want: "file"},
		{name: "environment over file", file: "node: file", env: "env", want: "env"},
		{name: "flag over environment", file: "node: file", env: "env", flags: []string{"--node", "flag"}, want: "flag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.env != "" {
				t.Setenv("CALLGATE_NODE", tt.env)
			}
			c, err := load(t, tt.file, tt.flags...)
			if err != nil || c.Node != tt.want {
				t.Errorf("node = %q, %v; want %q", c.Node, err, tt.want)
			}
		})
	}
}

func TestConfigNested(t *testing.T) {
	t.Setenv("CALLGATE_LOG_LEVEL", "debug")
	c, err := load(t, "log: {level: error, format: json}\ndecide_timeout: 75ms\nroots:\n  - {name: Docs.x, path: files}\n  - {name: abs, path: /srv}\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Log != (LogConfig{Level: "debug", Format: "json"}) || c.DecideTimeout != 75*time.Millisecond {
		t.Errorf("log %+v, decide_timeout %v", c.Log, c.DecideTimeout)
	}
	if len(c.Roots) != 2 || c.Roots[0].Name != "Docs.x" || !filepath.IsAbs(c.Roots[0].Path) || c.Roots[1].Path != "/srv" {
		t.Errorf("roots %+v", c.Roots)
	}
	if !filepath.IsAbs(c.Data) || !strings.HasSuffix(c.Bundle, "/bundle") || c.Ceiling != "" {
		t.Errorf("paths %+v", c)
	}
}

func TestConfigPaths(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	c, err := load(t, "data: d\n", "--data", "other")
	if want := filepath.Join(here, "other"); err != nil || c.Data != want {
		t.Errorf("--data is %s, %v; want %s", c.Data, err, want)
	}
	t.Setenv("CALLGATE_BUNDLE", "from-env")
	c, err = load(t, "data: d\n")
	if want := filepath.Join(here, "from-env"); err != nil || c.Bundle != want || c.Data == filepath.Join(here, "d") {
		t.Errorf("bundle %s, data %s, %v; want %s", c.Bundle, c.Data, err, want)
	}
}

func TestConfigLayers(t *testing.T) {
	const file = "layers:\n  - {name: org, role: restrict, bundle: org.tar.gz}\n  - {name: team, mode: shadow, bundle: /srv/team, entrypoint: data.agent.decision}\n"
	c, err := load(t, file)
	if err != nil {
		t.Fatal(err)
	}
	l := c.local(io.Discard)
	if l.Bundle != "" || len(l.Layers) != 2 || !filepath.IsAbs(l.Layers[0].Bundle) || l.Layers[0].Role != "restrict" {
		t.Errorf("%q, %+v", l.Bundle, l.Layers)
	}
	if want := (local.Layer{Name: "team", Mode: "shadow", Bundle: "/srv/team", Entrypoint: "data.agent.decision"}); !reflect.DeepEqual(l.Layers[1], want) {
		t.Errorf("%+v, want %+v", l.Layers[1], want)
	}
	for _, give := range []string{"bundle: x\n" + file, "bundle: ''\n" + file} {
		if _, err := load(t, give); err == nil || !strings.Contains(err.Error(), "bundle and layers") {
			t.Errorf("both: %v", err)
		}
	}
	t.Setenv("CALLGATE_BUNDLE", "x")
	if _, err := load(t, file); err == nil {
		t.Error("a bundle from the environment beside layers")
	}
}

func TestConfigOfASignedLayer(t *testing.T) {
	c, err := load(t, `
profile: production
layers:
  - name: org
    bundle: https://policy.example/org.tar.gz
    every: 20s
    long_poll: 1m
    max_age: 1h
    ca: ca.pem
    token_file: token
    user: me
    client_cert: client.pem
    client_key: client.key
    signing: {scope: acme/org, keys: [{id: release, file: release.pub, algorithm: ES256}]}
    allow_revisions: [r7]
`)
	if err != nil {
		t.Fatal(err)
	}
	l := c.local(io.Discard)
	got := l.Layers[0]
	for _, p := range []string{got.CA, got.TokenFile, got.ClientCert, got.ClientKey, got.Signing.Keys[0].File} {
		if !filepath.IsAbs(p) {
			t.Errorf("%s is relative", p)
		}
	}
	if filepath.Base(got.ClientCert) != "client.pem" || filepath.Base(got.ClientKey) != "client.key" {
		t.Errorf("client certificate %s, key %s", got.ClientCert, got.ClientKey)
	}
	got.CA, got.TokenFile, got.ClientCert, got.ClientKey, got.Signing.Keys[0].File = "", "", "", "", ""
	want := local.Layer{
		Name: "org", Bundle: "https://policy.example/org.tar.gz", Every: 20 * time.Second, LongPoll: time.Minute, MaxAge: time.Hour, User: "me",
		Signing: &local.Signing{Scope: "acme/org", Keys: []local.SigningKey{{ID: "release", Algorithm: "ES256"}}}, AllowRevisions: []string{"r7"},
	}
	if !reflect.DeepEqual(got, want) || !l.Production || l.AssertedApprovers {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestConfigRefuses(t *testing.T) {
	for name, file := range map[string]string{
		"bundel":      "bundel: x",
		"verbose":     "log: {verbose: true}",
		"readonly":    "roots:\n  - {name: a, path: b, readonly: true}",
		"log.level":   "log: {level: loud}",
		"log.format":  "log: {format: xml}",
		"data":        "data: ''",
		"duration":    "decide_timeout: soon",
		"at least 0":  "decide_timeout: -1s",
		"max_guests":  "max_guests: many",
		"profile":     "profile: relaxed",
		"yaml":        "a: [",
		"roots":       "roots: 7",
		"layers":      "layers: {org: x}",
		"rol":         "layers: [{name: a, rol: restrict, bundle: b}]",
		"sining":      "layers: [{name: a, bundle: b, sining: {}}]",
		"key":         "layers: [{name: a, bundle: b, signing: {key: x}}]",
		"secret":      "layers: [{name: a, bundle: b, signing: {keys: [{id: a, secret: x}]}}]",
		"mapping key": "node: a\nnode: b",
	} {
		if _, err := load(t, file); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want it to say %q", file, err, name)
		}
	}
}

func TestConfigOfTheWeb(t *testing.T) {
	c, err := load(t, `
ca: ca.pem
networks: [{name: office, ranges: [10.1.0.0/16, "fd00::/8"]}]
hosts: [{name: api.example.com, addresses: ["10.1.0.7", "10.1.0.7:8443", "::1", "[::1]:8443"]}]
secrets: [{name: one, file: one.key}, {name: two, header: X-Key}, {name: three, command: [/usr/bin/pass, show, "a b"]}]
`)
	if err != nil {
		t.Fatal(err)
	}
	l := c.local(io.Discard)
	if !filepath.IsAbs(l.CA) || !filepath.IsAbs(l.Secrets[0].File) || !reflect.DeepEqual(l.Secrets[1:], []local.Secret{{Name: "two", Header: "X-Key"}, {Name: "three", Command: []string{"/usr/bin/pass", "show", "a b"}}}) {
		t.Errorf("%+v", l)
	}
	if got := fmt.Sprint(l.Networks, l.Names); got != "[{office [10.1.0.0/16 fd00::/8]}] [{api.example.com [10.1.0.7:0 10.1.0.7:8443 [::1]:0 [::1]:8443]}]" {
		t.Error(got)
	}
	for _, bad := range []string{
		"networks: [{name: n, ranges: [10.1.0.0]}]", "networks: [{name: n, range: 10.1.0.0/16}]",
		"hosts: [{name: a.example.com, addresses: [b.example.com]}]", "hosts: {a.example.com: 10.1.0.1}",
		"secrets: [{name: s, value: canary}]",
	} {
		if _, err := load(t, bad); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// What stands in a layer's URL for the server's eyes is not for those of a terminal.
func TestQueriesOfLayersAreNotShown(t *testing.T) {
	d := &desk{conf: &Config{Data: t.TempDir()}}
	_, err := d.load(local.Layer{Name: "org", Bundle: "https://policy.example/org.tar.gz?sig=c4nary"})
	if err == nil || !strings.Contains(err.Error(), "no bundle of https://policy.example/org.tar.gz has") {
		t.Errorf("%v", err)
	}
}
