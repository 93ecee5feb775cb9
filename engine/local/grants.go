package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/keyfile"
	"github.com/callgate/callgate/engine/token"
)

// Grants say which calls may be decided here and run elsewhere, or the other way
// round. The zero value is neither.
type Grants struct {
	// Keys is the directory of the keys to sign with, which token.MakeRing makes. ""
	// issues nothing.
	Keys   string
	Issuer string        // names this engine in what it issues; "" means Node
	TTL    time.Duration // how long a grant can be started; zero: a minute, the longest there is

	// Issuers are those whose grants are run here, by the name Audience; "" means
	// Node.
	Issuers  []GrantIssuer
	Audience string
}

// GrantIssuer is one issuer whose grants are run here.
type GrantIssuer struct {
	Name        string
	JWKS        string // file or https URL of its public keys
	CA          string // PEM file of the authorities that vouch for the server, in place of the system's
	SharesState bool   // see [token.Issuer]
}

func (i GrantIssuer) remote() bool { return strings.Contains(i.JWKS, "://") }

// grants is what the engine takes; nil for neither issuing nor running.
func (c Config) grants(origin string) (*engine.Grants, error) {
	g := c.Grants
	if g.Keys == "" && len(g.Issuers) == 0 {
		return nil, nil
	}
	out := &engine.Grants{TTL: g.TTL, Origin: origin}
	if g.Keys != "" {
		ring, err := token.OpenRing(g.Keys, c.Now)
		if err != nil {
			return nil, fmt.Errorf("grants: keys: %w", err)
		}
		out.Signer, out.Issuer = ring, orNode(g.Issuer, c.Node)
	}
	if len(g.Issuers) == 0 {
		return out, nil
	}
	var issuers []token.Issuer
	for _, i := range g.Issuers {
		keys, err := i.keys(c.Now)
		if err != nil {
			return nil, fmt.Errorf("grants: issuer %q: %w", i.Name, err)
		}
		issuers = append(issuers, token.Issuer{Name: i.Name, Keys: keys, SharesState: i.SharesState})
	}
	var err error
	if out.Issuers, err = token.NewVerifier(issuers...); err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	out.Audience = orNode(g.Audience, c.Node)
	return out, nil
}

func orNode(name, node string) string {
	if name == "" {
		return node
	}
	return name
}

func (i GrantIssuer) keys(now func() time.Time) (token.Keys, error) {
	if !i.remote() {
		_, err := token.ReadSet(i.JWKS) // what is wrong with it is known now and not at the first grant
		return token.FileKeys(i.JWKS), err
	}
	u := token.URLKeys{URL: i.JWKS, Now: now}
	if i.CA != "" {
		pem, err := keyfile.ReadTrusted(i.CA, maxKey)
		if err != nil {
			return nil, err
		}
		u.CA = pem
	}
	return u.Keys()
}
