package local

import (
	"crypto/x509"
	"fmt"

	"github.com/callgate/callgate/engine/keyfile"
	"github.com/callgate/callgate/engine/notify"
)

// Webhook is a receiver that is told of new questions to people: see package notify.
type Webhook struct {
	Name   string
	URL    string // https, or http to this machine
	Secret string // name of the credential that signs, as in [Config.Secrets]
}

// announcer is nil when nobody is to be told.
func (c Config) announcer(commands *commands) (*notify.Notifier, error) {
	if len(c.Webhooks) == 0 {
		return nil, nil
	}
	read, err := secrets(c.Secrets, commands)
	if err != nil {
		return nil, err
	}
	o := notify.Options{Logger: c.Logger, Now: c.Now}
	if c.CA != "" {
		if o.Roots, err = x509.SystemCertPool(); err != nil {
			return nil, err
		}
		pem, err := keyfile.ReadTrusted(c.CA, maxKey)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		o.Roots.AppendCertsFromPEM(pem) // hostfx refuses what is malformed
	}
	for _, w := range c.Webhooks {
		if w.Secret == "" {
			return nil, fmt.Errorf("webhook %q: its secret has no name", w.Name)
		}
		o.Hooks = append(o.Hooks, notify.Hook{Name: w.Name, URL: w.URL, Secret: func() (string, error) {
			s, err := read(w.Secret)
			return s.Value, err
		}})
	}
	return notify.New(o)
}
