//go:build !linux

package local_test

import "github.com/callgate/callgate/engine/call"

// There are no commands here.
func (a *arena) execGrants() (map[string]call.Caps, []call.Exec) { return nil, nil }

func (a *arena) execAttacks() []attack { return nil }
