package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// moved says what an effect moved, "" for nothing.
func moved(fx call.Effect) string {
	var parts []string
	for _, m := range []struct {
		n   int64
		way string
	}{{fx.BytesIn, "in"}, {fx.BytesOut, "out"}} {
		if m.n > 0 {
			parts = append(parts, fmt.Sprintf("%d bytes %s", m.n, m.way))
		}
	}
	return strings.Join(parts, ", ")
}

// effectLine says in one line what a tool did, and what came of it.
func effectLine(fx call.Effect) string {
	what := strings.TrimSpace(fx.Kind + " " + visible(fx.Target))
	if what == "" {
		what = "others"
	}
	parts := []string{what + ": " + fx.Code}
	if m := moved(fx); m != "" {
		parts = append(parts, m)
	}
	if fx.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d of them", fx.Count))
	}
	if took := time.Duration(fx.TookUS) * time.Microsecond; took >= 50*time.Microsecond { // or it is none
		parts = append(parts, ms(took))
	}
	if fx.Address != "" {
		parts = append(parts, "at "+fx.Address)
	}
	if fx.Enforcement != "" && fx.Enforcement != hostfx.Structural {
		parts = append(parts, "confinement "+fx.Enforcement)
	}
	return strings.Join(parts, ", ")
}
