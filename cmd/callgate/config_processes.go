package main

import (
	"errors"
	"time"

	"github.com/callgate/callgate/engine/local"
)

// ProcessesConfig is about the commands that tools start and leave running.
type ProcessesConfig struct {
	Life    time.Duration `mapstructure:"life"`
	Session int           `mapstructure:"session"`
	All     int           `mapstructure:"all"`
}

func (c ProcessesConfig) validate() error {
	if c.Life < 0 || c.Session < 0 || c.All < 0 {
		return errors.New("processes.life, processes.session and processes.all are at least 0")
	}
	return nil
}

func (c ProcessesConfig) local() local.Processes { return local.Processes(c) }
