package main

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/local"
)

// SandboxConfig bounds what wasm tools take of the machine together.
type SandboxConfig struct {
	MaxMemory         int64    `mapstructure:"max_memory"` // bytes that all that run may hold
	Cache             string   `mapstructure:"cache"`      // directory of compiled modules
	CacheKey          string   `mapstructure:"cache_key"`  // file of the key that authenticates them
	CacheBytes        int64    `mapstructure:"cache_bytes"`
	CompileCPUSeconds int64    `mapstructure:"compile_cpu_seconds"` // for one module
	Compiler          []string `mapstructure:"compiler"`            // another program that compiles
}

func (s SandboxConfig) validate() error {
	if s.MaxMemory < 0 || s.CacheBytes < 0 || s.CompileCPUSeconds < 0 || s.CompileCPUSeconds > math.MaxInt32 {
		return errors.New("sandbox: max_memory, cache_bytes and compile_cpu_seconds are at least 0")
	}
	if s.Cache != "" && s.CacheKey == "" {
		return errors.New("sandbox: a cache of its own has a cache_key of its own")
	}
	return nil
}

func (s *SandboxConfig) resolve(file string) {
	absolute(&s.Cache, file)
	absolute(&s.CacheKey, file)
	if len(s.Compiler) > 0 && strings.Contains(s.Compiler[0], "/") { // else it is looked for in PATH
		absolute(&s.Compiler[0], file)
	}
}

// local is the configuration as package local takes it.
func (s SandboxConfig) local() local.Guests {
	return local.Guests{
		MaxMemory: s.MaxMemory, Cache: s.Cache, CacheKey: s.CacheKey, CacheBytes: s.CacheBytes,
		CompileCPU: time.Duration(s.CompileCPUSeconds) * time.Second, Compiler: s.Compiler,
	}
}
