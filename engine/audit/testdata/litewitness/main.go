// Litewitness runs torchwood's witness for one log, for tests: it makes a key and
// serves it as ssh-agent would, tells the database of the log, and runs the witness
// until its standard input ends.
//
// Usage: litewitness PROGRAM DIR ADDRESS LOGKEY
//
// The first line that it prints is the witness's verifier key.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const name = "witness.example/lite"

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "litewitness:", err)
		os.Exit(1)
	}
}

func run(program, dir, address, logKey string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := torchwood.NewCosignatureSigner(name, private)
	if err != nil {
		return err
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		return err
	}
	if err := addLog(filepath.Join(dir, "witness.db"), logKey); err != nil {
		return err
	}
	socket := filepath.Join(dir, "agent.sock")
	if err := serveAgent(socket, private); err != nil {
		return err
	}
	cmd := exec.Command(program, "-name", name, "-db", filepath.Join(dir, "witness.db"), "-ssh-agent", socket,
		"-listen", address, "-key", ssh.FingerprintSHA256(public))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := listens(address, ended); err != nil {
		return err
	}
	fmt.Println(signer.Verifier().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return cmd.Process.Kill()
}

// listens waits until the witness does.
func listens(address string, ended <-chan error) error {
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the witness ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// addLog does what torchwood's witnessctl does, which needs a module that not every
// proxy serves.
func addLog(path, logKey string) error {
	origin, rest, _ := strings.Cut(logKey, "+")
	if _, key, ok := strings.Cut(rest, "+"); !ok || len(key) == 0 {
		return fmt.Errorf("%q is no verifier key", logKey)
	}
	db, err := sqlite.OpenConn(path)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlitex.ExecuteScript(db, `
		CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL);
		CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin));
	`, nil); err != nil {
		return err
	}
	empty := base64.StdEncoding.EncodeToString(make([]byte, 32))
	if err := sqlitex.Execute(db, `INSERT INTO log VALUES (?, 0, ?)`, &sqlitex.ExecOptions{Args: []any{origin, empty}}); err != nil {
		return err
	}
	return sqlitex.Execute(db, `INSERT INTO key VALUES (?, ?)`, &sqlitex.ExecOptions{Args: []any{origin, logKey}})
}

func serveAgent(socket string, key ed25519.PrivateKey) error {
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }()
		}
	}()
	return nil
}
