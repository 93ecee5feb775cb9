package main

import (
	"errors"

	"github.com/callgate/callgate/engine/local"
)

// JournalConfig is about what files were before calls changed them.
type JournalConfig struct {
	Dir   string `mapstructure:"dir"`
	Bytes int64  `mapstructure:"bytes"`
	Days  int    `mapstructure:"days"`
}

func (c JournalConfig) validate() error {
	if c.Bytes < 0 || c.Days < 0 || c.Days > 36500 {
		return errors.New("journal.bytes and journal.days are at least 0, and days at most 36500")
	}
	return nil
}

func (c JournalConfig) local() local.Journal { return local.Journal(c) }
