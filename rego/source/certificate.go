package source

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// maxCertificate is more than a certificate has, with those above it.
const maxCertificate = 1 << 20

// othersMay is what the file of a private key must not permit: anything to others, and
// writing to the group.
const othersMay = 0o027

// certificate reads the client certificate. No error quotes what stands in the files.
func (a Access) certificate() (*tls.Certificate, error) {
	chain, err := readFile(a.ClientCert, 0, maxCertificate)
	if err != nil {
		return nil, err
	}
	key, err := readFile(a.ClientKey, othersMay, maxSecret)
	if err != nil {
		return nil, err
	}
	leaf := block(chain, func(kind string) bool { return kind == "CERTIFICATE" })
	if _, err := x509.ParseCertificate(leaf); err != nil {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", a.ClientCert)
	}
	if !isPrivateKey(block(key, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })) {
		return nil, fmt.Errorf("%s holds no private key in PEM form that is not encrypted", a.ClientKey)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s is not the key of the certificate in %s", a.ClientKey, a.ClientCert)
	}
	return &pair, nil
}

// block is the first PEM block of a kind, or nil.
func block(b []byte, of func(kind string) bool) []byte {
	for {
		p, rest := pem.Decode(b)
		switch {
		case p == nil:
			return nil
		case of(p.Type):
			return p.Bytes
		}
		b = rest
	}
}

func isPrivateKey(der []byte) bool {
	_, err1 := x509.ParsePKCS8PrivateKey(der)
	_, err2 := x509.ParsePKCS1PrivateKey(der)
	_, err3 := x509.ParseECPrivateKey(der)
	return err1 == nil || err2 == nil || err3 == nil
}

// Alerts by which a server refuses a client certificate, or that there is none
// (RFC 8446, section 6.2).
const (
	alertFirst    tls.AlertError = 42 // bad_certificate, and from here unsupported, revoked, expired, unknown
	alertLast     tls.AlertError = 46
	alertUnknown  tls.AlertError = 48 // unknown_ca
	alertDenied   tls.AlertError = 49 // access_denied
	alertRequired tls.AlertError = 116
)

// refused says it when the server would not have our certificate. In TLS 1.3 that is
// heard only with the answer, so it comes in several ways.
func (a Access) refused(err error) error {
	alert, ok := errors.AsType[tls.AlertError](err)
	switch {
	case !ok || (alert < alertFirst || alert > alertLast) && alert != alertUnknown && alert != alertDenied && alert != alertRequired:
		return err
	case a.ClientCert == "":
		return fmt.Errorf("the server wants a client certificate: %w", alert)
	}
	return fmt.Errorf("the server refuses the client certificate in %s: %w", a.ClientCert, alert)
}
