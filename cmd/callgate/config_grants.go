package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/token"
)

// GrantsConfig is about calls that are decided in one place and run in another.
type GrantsConfig struct {
	Keys     string              `mapstructure:"keys"`   // directory of the keys to sign with
	Issuer   string              `mapstructure:"issuer"` // our name in what is signed; node when absent
	TTL      time.Duration       `mapstructure:"ttl"`
	Audience string              `mapstructure:"audience"` // our name in what is run; node when absent
	Issuers  []GrantIssuerConfig `mapstructure:"issuers"`  // whose grants are run here
}

// GrantIssuerConfig is one issuer whose grants are run here.
type GrantIssuerConfig struct {
	Name        string `mapstructure:"name"`
	JWKS        string `mapstructure:"jwks"` // path or https:// of its public keys
	CA          string `mapstructure:"ca"`   // for the server of a URL, in place of the system's
	SharesState bool   `mapstructure:"shares_state"`
}

func (g *GrantsConfig) resolve(dir string) {
	absolute(&g.Keys, dir)
	for i := range g.Issuers {
		absolute(&g.Issuers[i].JWKS, dir)
		absolute(&g.Issuers[i].CA, dir)
	}
}

func (g *GrantsConfig) validate(node string) error {
	var errs []error
	if g.Keys != "" && g.Issuer == "" && node == "" {
		errs = append(errs, errors.New("grants.issuer and node are empty, and grants are issued"))
	}
	if len(g.Issuers) > 0 && g.Audience == "" && node == "" {
		errs = append(errs, errors.New("grants.audience and node are empty, and grants are run"))
	}
	if g.TTL != 0 && (g.TTL < time.Second || g.TTL > token.MaxLife) {
		errs = append(errs, fmt.Errorf("grants.ttl is not between 1s and %v", token.MaxLife))
	}
	names := map[string]bool{}
	for _, i := range g.Issuers {
		switch {
		case i.Name == "" || names[i.Name]:
			errs = append(errs, fmt.Errorf("grants.issuers: %q has no name or stands there twice", i.Name))
		case i.JWKS == "" || strings.Contains(i.JWKS, "://") && !strings.HasPrefix(i.JWKS, "https://"):
			errs = append(errs, fmt.Errorf("grants.issuers: %s: jwks is not a path or https://", i.Name))
		case i.CA != "" && !strings.Contains(i.JWKS, "://"):
			errs = append(errs, fmt.Errorf("grants.issuers: %s: ca is for a jwks at a URL", i.Name))
		}
		names[i.Name] = true
	}
	return errors.Join(errs...)
}

func (g *GrantsConfig) local() local.Grants {
	l := local.Grants{Keys: g.Keys, Issuer: g.Issuer, TTL: g.TTL, Audience: g.Audience}
	for _, i := range g.Issuers {
		l.Issuers = append(l.Issuers, local.GrantIssuer(i))
	}
	return l
}
