package main

import (
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/local"
)

func TestConfigOfTheSandbox(t *testing.T) {
	for _, bad := range []string{"max_memory: -1", "cache_bytes: -1", "compile_cpu_seconds: -1", "compile_cpu_seconds: 9999999999", "cache: c", "max_memori: 1"} {
		if _, err := load(t, "sandbox: {"+bad+"}\n"); err == nil || !strings.Contains(err.Error(), "sandbox") && !strings.Contains(err.Error(), "max_memori") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	t.Setenv("CALLGATE_SANDBOX_MAX_MEMORY", "1073741824")
	c, err := load(t, "sandbox: {max_memory: 7, cache: c, cache_key: /k, cache_bytes: 9, compile_cpu_seconds: 20, compiler: [bin/callgate, -x]}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := c.local(io.Discard).Guests
	if !filepath.IsAbs(got.Cache) || !filepath.IsAbs(got.Compiler[0]) || !strings.HasSuffix(got.Compiler[0], "/bin/callgate") {
		t.Errorf("paths: %+v", got)
	}
	want := local.Guests{
		MaxMemory: 1 << 30, Cache: got.Cache, CacheKey: "/k", CacheBytes: 9, CompileCPU: 20 * time.Second, Compiler: []string{got.Compiler[0], "-x"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if c, err := load(t, "sandbox: {compiler: [callgate]}\n"); err != nil || c.Sandbox.Compiler[0] != "callgate" {
		t.Errorf("%+v, %v: what is looked for in PATH", c.Sandbox, err)
	}
}
