package project

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/callgate/callgate/bundles"
)

//go:embed web
var web embed.FS

// Web is a web service that a project's tools may be given.
type Web struct {
	CA      []byte // PEM of the authority that vouches for it
	Address string // host:port of api.demo.test
	Private string // address of intranet.demo.test
	Range   string // the network that policy calls demo
	Token   string // what the service wants to see
}

// AddWeb adds to the project in dir, which [Write] wrote, the tool fetch, the rules
// for it, and what the configuration has to say of the service.
func AddWeb(dir string, w Web) error {
	own, err := fs.Sub(web, "web")
	if err != nil {
		return err
	}
	if err := copyTree(dir, own); err != nil {
		return err
	}
	if err := copyTree(filepath.Join(dir, "bundle"), bundles.Web()); err != nil {
		return err
	}
	if err := pinModules(filepath.Join(dir, "tools")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), w.CA, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "demo-api.key"), []byte(w.Token+"\n"), 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "callgate.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, webConfig, w.Range, w.Address, w.Private)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

const webConfig = `
# Certificates that are trusted beside the system's.
ca: ca.pem

# Networks that policies may grant, beside "public".
networks:
  - name: demo
    ranges: [%q]

# Names whose addresses are fixed; all others are looked up.
hosts:
  - name: api.demo.test
    addresses: [%q]
  - name: intranet.demo.test
    addresses: [%q]

# Credentials that policies may name. Without a file: CALLGATE_SECRET_DEMO_API.
secrets:
  - name: demo-api
    file: demo-api.key
`
