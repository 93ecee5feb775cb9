package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/local"
)

func TestStateConfig(t *testing.T) {
	c, err := load(t, "node: one\nstate:\n  address: 10.1.2.3:6379\n  prefix: p\n  key_file: /k\n  tls: true\n  ca: /ca\n  user: u\n  password_file: /pw\n  waive: [appendfsync]\n  timeout: 250ms\n")
	if err != nil {
		t.Fatal(err)
	}
	want := &local.Shared{
		Address: "10.1.2.3:6379", Prefix: "p", KeyFile: "/k", TLS: true, CA: "/ca", User: "u", PasswordFile: "/pw",
		Waive: []string{"appendfsync"}, Timeout: 250 * time.Millisecond,
	}
	if diff := cmp.Diff(want, c.State.local()); diff != "" {
		t.Error(diff)
	}
	c, err = load(t, "node: one\nstate: {address: /run/redis.sock, key_file: state.key, password_env: PW}\n")
	if err != nil || !strings.HasSuffix(c.State.KeyFile, "/state.key") || c.State.PasswordEnv != "PW" || c.State.CA != "" {
		t.Errorf("relative paths: %+v, %v", c.State, err)
	}
	if c, err = load(t, "node: one\n"); err != nil || c.State.local() != nil {
		t.Errorf("without a state: %+v, %v", c.State, err)
	}
	for give, want := range map[string]string{
		"state: {address: a:1, key_file: k}":                                      "node is empty",
		"node: n\nstate: {address: a:1}":                                          "state.key_file is empty",
		"node: n\nstate: {address: redis, key_file: k}":                           "state.address is not",
		"node: n\nstate: {address: 'redis://a:1', key_file: k}":                   "state.address is not",
		"node: n\nstate: {address: a:1, key_file: k, waive: [fsync]}":             `state.waive: "fsync" is not one of`,
		"node: n\nstate: {address: a:1, key_file: k, timeout: -1s}":               "state.timeout is negative",
		"node: n\nstate: {address: a:1, key_file: k, password: canary-4711}":      "password",
		"node: n\nstate: {address: a:1, key_file: k, waive: appendfsync, x: [1]}": "invalid keys",
	} {
		if _, err := load(t, give); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", give, err, want)
		}
	}
}
