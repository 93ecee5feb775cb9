package local

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/audit"
)

// Witness is somebody who remembers checkpoints of the log: see package audit.
type Witness struct {
	Name string
	Kind string // WitnessFile, WitnessHTTP or WitnessCommand
	Key  string // verifier key of its cosignatures

	Path    string   // of a file witness: its directory
	URL     string   // of an HTTP witness: https, or http to this machine
	CA      string   // of an HTTP witness: PEM file of the authorities that vouch for it, in place of the system's
	Command []string // of a command witness
}

// The kinds of witnesses.
const (
	WitnessFile    = "file"
	WitnessHTTP    = "http"
	WitnessCommand = "command"
)

// Witnessing says how the witnesses are asked: see the fields of [audit.Options].
type Witnessing struct {
	Strict bool          // a grant waits until its record is cosigned
	Quorum int           // by how many; zero: all
	Every  time.Duration // zero: a second
}

// Open is the witness as package audit takes it. Now is the clock of one that is a
// directory; nil means time.Now.
func (w Witness) Open(now func() time.Time) (audit.Witness, error) {
	switch w.Kind {
	case WitnessFile:
		return audit.FileWitness(w.Name, w.Path, w.Key, now)
	case WitnessCommand:
		return audit.CommandWitness(w.Name, w.Command, w.Key)
	case WitnessHTTP:
		var roots *x509.CertPool
		if w.CA != "" {
			pem, err := os.ReadFile(w.CA)
			if err != nil {
				return nil, fmt.Errorf("witness %s: ca: %w", w.Name, err)
			}
			roots = x509.NewCertPool()
			if !roots.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("witness %s: ca: %s holds no certificate", w.Name, w.CA)
			}
		}
		return audit.HTTPWitness(w.Name, w.URL, w.Key, roots)
	}
	return nil, fmt.Errorf("witness %s: kind %q is not %s, %s or %s", w.Name, w.Kind, WitnessFile, WitnessHTTP, WitnessCommand)
}

// log opens the log with its witnesses.
func (c Config) log() (*audit.Log, error) {
	o := audit.Options{
		Node: c.Node, Now: c.Now, Logger: c.Logger, Strict: c.Witnessing.Strict, Quorum: c.Witnessing.Quorum, Every: c.Witnessing.Every,
	}
	for _, w := range c.Witnesses {
		if w.Kind == WitnessFile {
			if err := outside(c.Data, w.Path); err != nil {
				return nil, fmt.Errorf("witness %s: %w", w.Name, err)
			}
		}
		witness, err := w.Open(c.Now)
		if err != nil {
			return nil, err
		}
		o.Witnesses = append(o.Witnesses, witness)
	}
	return audit.Open(c.Data, o)
}

// outside refuses a witness that goes wherever the log goes.
func outside(data, path string) error {
	data, err := oneName(data)
	if err != nil {
		return err
	}
	if path, err = oneName(path); err != nil {
		return err
	}
	if rel, err := filepath.Rel(data, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return fmt.Errorf("%s is in the data directory, and would be lost or changed with it", path)
	}
	return nil
}
