package hostfx

import (
	"slices"
	"strconv"

	"github.com/callgate/callgate/engine/call"
)

// way is how a granted request may go.
type way struct {
	within   string   // host pattern and port
	networks []string // that the host knows
	as       string   // the form of the credential, "" for none
}

// way asks each entry of the grant, since only an entry that allows the whole
// request may lend it a network.
func (fx *Effects) way(u call.URL, method, secret string) (w way, granted bool) {
	// They would make a tunnel of the connection, or send the credential back.
	if method == "CONNECT" || method == "TRACE" || method == "TRACK" {
		return way{}, false
	}
	for _, e := range fx.caps.HTTP {
		op := call.Op{
			Kind: call.OpHTTP, Host: u.Host, Port: u.Port, Path: u.Path, Method: method,
			Plain: u.Scheme != "https", Secret: secret,
		}
		if e.Secret != nil {
			op.As = e.Secret.As
		}
		if granted && op.As != w.as {
			continue
		}
		for _, op.Network = range e.Networks {
			if !fx.host.knows(op.Network) || !(call.Caps{HTTP: []call.HTTP{e}}).Allows(op) {
				continue
			}
			if !granted {
				i := slices.IndexFunc(e.Hosts, func(p string) bool { return call.MatchHost(p, u.Host) })
				w, granted = way{within: e.Hosts[i] + ":" + strconv.Itoa(u.Port), as: op.As}, true
			}
			w.networks = append(w.networks, op.Network)
		}
	}
	return w, granted
}
