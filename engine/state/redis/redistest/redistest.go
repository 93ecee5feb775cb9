// Package redistest starts real Redis servers for tests, as durable as package redis
// wants them.
package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Server is one redis-server.
type Server struct {
	Address string // path of its Unix socket
	Dir     string // with its files, below dir; the socket and the log are beside it

	config []string
	cmd    *exec.Cmd
	out    bytes.Buffer
	ended  chan struct{}
}

// Start starts a server that ends with the test. Config are settings like
// "maxmemory 1mb" beside the usual ones, or in their place.
func Start(tb testing.TB, config ...string) *Server {
	tb.Helper()
	s, err := Launch(config...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Remove)
	return s
}

// Launch starts a server that ends with [Server.Remove].
func Launch(config ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redis") // short: the path of a socket has 107 bytes at most
	if err != nil {
		return nil, err
	}
	s := &Server{Address: filepath.Join(dir, "s"), Dir: filepath.Join(dir, "files"), config: config}
	if err := errors.Join(os.Mkdir(s.Dir, 0o700), s.launch()); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// Run starts a server that was killed, on what is in its directory now.
func (s *Server) Run(tb testing.TB) {
	tb.Helper()
	if err := s.launch(); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) launch() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is missing: apt-get install -y redis-server")
	}
	lines := []string{
		"port 0", "unixsocket " + s.Address, "dir " + s.Dir, "daemonize no", "appendonly yes", "appendfsync always",
		"maxmemory-policy noeviction", `save ""`, "maxclients 1000",
	}
	lines = append(lines, s.config...)
	name := filepath.Join(filepath.Dir(s.Dir), "conf")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.RemoveAll(s.Address); err != nil {
		return err
	}
	s.out.Reset()
	s.cmd, s.ended = exec.Command(path, name), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := s.cmd, s.ended
	go func() {
		_ = cmd.Wait() // killed
		close(ended)
	}()
	for range 6000 {
		if _, err := s.Do("PING"); err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("redis-server ended: %s", s.out.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return errors.New("redis-server does not answer")
}

// Do sends one inline command and returns the first line of the answer.
func (s *Server) Do(command string) (string, error) {
	c, err := net.Dial("unix", s.Address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	line = strings.TrimSpace(line)
	if err == nil && strings.HasPrefix(line, "-") {
		err = errors.New(line)
	}
	return line, err
}

// Kill ends the server as a crash does.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.ended
	}
}

// Process is the one that runs now.
func (s *Server) Process() *os.Process { return s.cmd.Process }

// Remove ends the server and removes its files.
func (s *Server) Remove() {
	s.Kill()
	_ = os.RemoveAll(filepath.Dir(s.Dir)) // of a test
}
