package hostfx

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/callgate/callgate/engine/call"
)

// public is the network of all addresses that are reachable from anywhere.
const public = "public"

// Network is address ranges of the operator's, by name. The name "public" is
// reserved: it is every address that no registry sets aside for a special use.
type Network struct {
	Name   string // [a-z][a-z0-9_-]*
	Ranges []netip.Prefix
}

// Name gives a host name fixed addresses, tried in this order, in place of those
// that the resolver knows. They are checked like any other address.
type Name struct {
	Host      string           // exact, as in a grant
	Addresses []netip.AddrPort // a port of 0 is the URL's; with another the connection goes there
}

func (h *Host) addNetwork(n Network) error {
	if !rootName.MatchString(n.Name) {
		return errors.New("the name is not [a-z][a-z0-9_-]*")
	}
	if n.Name == public {
		return errors.New("the name is reserved")
	}
	if h.networks[n.Name] != nil {
		return errors.New("the name is used twice")
	}
	if len(n.Ranges) == 0 {
		return errors.New("there are no ranges")
	}
	for i, r := range n.Ranges {
		switch {
		case !r.IsValid():
			return fmt.Errorf("range %d is malformed", i)
		case r != r.Masked():
			return fmt.Errorf("range %s has bits beyond its length", r)
		case r.Addr().Is4In6():
			return fmt.Errorf("range %s is IPv4 written as IPv6", r)
		}
	}
	h.networks[n.Name] = slices.Clone(n.Ranges)
	return nil
}

func (h *Host) addName(n Name) error {
	if !call.MatchHost(n.Host, n.Host) {
		return errors.New("no grant can name this host")
	}
	if h.names[n.Host] != nil {
		return errors.New("the host is named twice")
	}
	if len(n.Addresses) == 0 {
		return errors.New("there are no addresses")
	}
	for i, a := range n.Addresses {
		if !a.Addr().IsValid() || a.Addr().Zone() != "" {
			return fmt.Errorf("address %d is malformed", i)
		}
	}
	h.names[n.Host] = slices.Clone(n.Addresses)
	return nil
}

// trustAlso adds certificates to those of the system. Without any, the system's
// are used as they are.
func (h *Host) trustAlso(certificates []byte) error {
	if len(certificates) == 0 {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return err
	}
	rest, found := certificates, false
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			return fmt.Errorf("there is a %q among the certificates", b.Type)
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return err
		}
		pool.AddCert(c)
		found = true
	}
	if !found {
		return errors.New("there are no PEM certificates")
	}
	h.trust = pool
	return nil
}

// knows reports whether the operator configured the network.
func (h *Host) knows(network string) bool {
	return h != nil && (network == public || h.networks[network] != nil)
}

// reaches reports whether an address, as a dialer's Control gets it, is in any of
// the networks. Plain requests stay on this machine.
func (h *Host) reaches(networks []string, plain bool, network, address string) bool {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return false
	}
	ip := at.Addr().Unmap()
	// The unspecified address leads to this machine without looking like it.
	if ip.IsUnspecified() || plain && !ip.IsLoopback() {
		return false
	}
	return slices.ContainsFunc(networks, func(n string) bool {
		if n == public {
			return h.guardian.Safe(network, address, nil) == nil
		}
		return slices.ContainsFunc(h.networks[n], func(r netip.Prefix) bool { return r.Contains(ip) })
	})
}
