package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/local"
)

// StateConfig is about the state that several nodes have together.
type StateConfig struct {
	Address      string        `mapstructure:"address"` // host:port, or the absolute path of a Unix socket
	Prefix       string        `mapstructure:"prefix"`
	KeyFile      string        `mapstructure:"key_file"`
	TLS          bool          `mapstructure:"tls"`
	CA           string        `mapstructure:"ca"` // with tls, in place of the system's
	User         string        `mapstructure:"user"`
	PasswordFile string        `mapstructure:"password_file"`
	PasswordEnv  string        `mapstructure:"password_env"`
	Waive        []string      `mapstructure:"waive"`
	Timeout      time.Duration `mapstructure:"timeout"`
}

func (s *StateConfig) resolve(dir string) {
	if s == nil {
		return
	}
	absolute(&s.KeyFile, dir)
	absolute(&s.CA, dir)
	absolute(&s.PasswordFile, dir)
}

func (s *StateConfig) validate(node string) error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.Address == "" || !strings.HasPrefix(s.Address, "/") && !strings.Contains(s.Address, ":") || strings.Contains(s.Address, "://") {
		errs = append(errs, errors.New("state.address is not host:port or the absolute path of a socket"))
	}
	if s.KeyFile == "" {
		errs = append(errs, errors.New("state.key_file is empty"))
	}
	if node == "" {
		errs = append(errs, errors.New("node is empty, and nodes that share a state have names"))
	}
	if s.Timeout < 0 {
		errs = append(errs, errors.New("state.timeout is negative"))
	}
	for _, w := range s.Waive {
		if !slices.Contains(local.Waivers(), w) {
			errs = append(errs, fmt.Errorf("state.waive: %q is not one of %s", w, strings.Join(local.Waivers(), ", ")))
		}
	}
	return errors.Join(errs...)
}

func (s *StateConfig) local() *local.Shared {
	if s == nil {
		return nil
	}
	return &local.Shared{
		Address: s.Address, Prefix: s.Prefix, KeyFile: s.KeyFile, TLS: s.TLS, CA: s.CA, User: s.User,
		PasswordFile: s.PasswordFile, PasswordEnv: s.PasswordEnv, Waive: s.Waive, Timeout: s.Timeout,
	}
}
