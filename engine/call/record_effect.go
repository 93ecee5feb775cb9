package call

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what a record has in the clear of effects, in bytes. Together with how many
// there are they keep it a record that the log takes, however long names are.
const (
	maxClearWithin = 300
	maxClearPath   = 1024
	maxClearPaths  = 128 << 10 // of all paths of one record
)

// RecordEffect is an [Effect] with a keyed digest in place of its target. In the clear
// it has of that only what the grant bounds, or what is really there.
type RecordEffect struct {
	Kind    string `json:"kind"`
	Within  string `json:"within,omitzero"`
	Target  string `json:"target,omitzero"`  // keyed digest
	Host    string `json:"host,omitzero"`    // of requests to a host of the grant: host:port
	Path    string `json:"path,omitzero"`    // of what was done to files: relative to Within
	Address string `json:"address,omitzero"` // as in [Effect], like all below
	Code    string `json:"code"`

	BytesIn  int64 `json:"bytes_in,omitzero"`
	BytesOut int64 `json:"bytes_out,omitzero"`
	TookUS   int64 `json:"took_us,omitzero"`
	Count    int64 `json:"count,omitzero"`

	Enforcement string `json:"enforcement,omitzero"`
}

// RecordEffects is what a record holds of the effects of a call that had these
// capabilities. Digest makes a keyed digest of a target.
//
// What was refused, or is not there, can be any text: a tool that may read and not
// write could leave it in the log. So a request has its host in the clear only when an
// entry of the grant covers it, and a file its path only when the effect happened.
func RecordEffects(effects []Effect, granted Caps, digest func(target string) string) []RecordEffect {
	var out []RecordEffect
	room := maxClearPaths
	for _, e := range effects {
		r := RecordEffect{
			Kind: e.Kind, Target: digest(e.Target), Address: e.Address, Code: e.Code,
			BytesIn: e.BytesIn, BytesOut: e.BytesOut, TookUS: e.TookUS, Count: e.Count, Enforcement: e.Enforcement,
		}
		if len(e.Within) <= maxClearWithin {
			r.Within = e.Within
		}
		if strings.HasPrefix(e.Kind, "http.") {
			r.Host = granted.clearHost(e.Target)
		}
		if (strings.HasPrefix(e.Kind, "fs.") || e.Kind == "workspace.record") && e.Code == "ok" {
			if p := clearPath(e.Within, e.Target); len(p) <= room {
				r.Path, room = p, room-len(p)
			}
		}
		out = append(out, r)
	}
	return out
}

// clearHost is host:port of a URL in canonical form, "" unless an entry covers the host.
func (c Caps) clearHost(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	covered := slices.ContainsFunc(c.HTTP, func(h HTTP) bool {
		return slices.ContainsFunc(h.Hosts, func(p string) bool { return MatchHost(p, u.Hostname()) })
	})
	if !covered {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// clearPath is target relative to within, "." for within itself, and "" if it is too
// long or has what does not print.
func clearPath(within, target string) string {
	if target == within && within != "" {
		return "."
	}
	p, below := strings.CutPrefix(target, within+"/")
	if !below || within == "" || len(p) > maxClearPath || !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return p
}
