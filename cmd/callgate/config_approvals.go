package main

import (
	"errors"
	"fmt"

	"github.com/callgate/callgate/engine/local"
)

// ApprovalsConfig is about questions to people.
type ApprovalsConfig struct {
	Webhooks []WebhookConfig `mapstructure:"webhooks"`
}

// WebhookConfig is one receiver that is told of new questions.
type WebhookConfig struct {
	Name   string `mapstructure:"name"`
	URL    string `mapstructure:"url"`    // https, or http to this machine
	Secret string `mapstructure:"secret"` // name of the credential that signs
}

func (a *ApprovalsConfig) validate() error {
	var errs []error
	names := map[string]bool{}
	for _, w := range a.Webhooks {
		if w.Name == "" || names[w.Name] {
			errs = append(errs, fmt.Errorf("approvals.webhooks: %q has no name or stands there twice", w.Name))
		} else if w.URL == "" || w.Secret == "" {
			errs = append(errs, fmt.Errorf("approvals.webhooks: %s: url or secret is empty", w.Name))
		}
		names[w.Name] = true
	}
	return errors.Join(errs...)
}

func (a *ApprovalsConfig) local() (out []local.Webhook) {
	for _, w := range a.Webhooks {
		out = append(out, local.Webhook(w))
	}
	return out
}
