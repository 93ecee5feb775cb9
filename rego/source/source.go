// Package source brings bundles from where they are published: a directory, an
// archive file, a web server or an OCI registry.
//
// A [Source] fetches. A [Follower] asks it again and again, hands what is new to the
// caller to check and put into force, keeps the bytes of what decides for a start
// without network, and says when the policy has not been brought up to date for too
// long. Nothing here trusts what is fetched: the caller's Activate verifies and
// compiles it.
//
// The requests are those of OPA's v1/download, whose code is not used. It unpacks while
// it downloads, bounds only single files, and no time but that for the head of an
// answer; it follows redirects to any host, takes over the ETag before the bundle is
// activated, and imports the plugin manager.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/callgate/callgate/engine/call"
)

// MaxBytes is how large an archive may be, the same as for [rego.Archive].
const MaxBytes = 64 << 20

// ErrUnchanged is what [Source.Fetch] answers when there is nothing newer.
var ErrUnchanged = errors.New("the bundle is unchanged")

var errTooLarge = fmt.Errorf("the bundle is larger than %d bytes", int64(MaxBytes))

// Source is a place where a bundle is published.
type Source interface {
	// Fetch gets the bundle, or [ErrUnchanged] if its version still is last. It
	// MUST ask anew when last is empty, MUST bound what it reads, and no error may
	// hold a credential.
	Fetch(ctx context.Context, last string) (*Snapshot, error)

	// String is the place, for people and logs, without credentials.
	String() string
}

// Snapshot is one version of a bundle, not yet looked into.
type Snapshot struct {
	Bytes   []byte // the archive as it was fetched; a directory is packed
	Digest  string // of Bytes, sha256:<hex>
	Version string // ETag, digest of a manifest, or what else a source compares; "" for none
	FS      fs.FS  // the files, where the source has them already

	// Wait says that the next Fetch will itself wait for something newer.
	Wait bool
}

func newSnapshot(b []byte, version string) *Snapshot {
	return &Snapshot{Bytes: b, Digest: call.Digest(b), Version: version}
}

// At is the source that an operator names: an https:// or http:// URL, an image in
// a registry as oci://HOST/NAME:TAG or oci://HOST/NAME@DIGEST (oci+http:// for a
// registry without TLS), or the path of a directory or archive.
func At(place string, a Access) (Source, error) {
	scheme, rest, ok := strings.Cut(place, "://")
	switch {
	case !ok:
		return Files(place), nil
	case scheme == "https" || scheme == "http":
		return NewHTTP(HTTP{URL: place, Access: a})
	case scheme == "oci" || scheme == "oci+http":
		return NewOCI(OCI{Reference: rest, PlainHTTP: scheme == "oci+http", Access: a})
	}
	return nil, fmt.Errorf("bundles do not come from %s://, but from https://, http://, oci://, oci+http:// or a path", scheme)
}

// readAll reads a body of at most MaxBytes.
func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return nil, bare(err)
	case len(b) > MaxBytes:
		return nil, errTooLarge
	case len(b) == 0:
		return nil, errors.New("the answer is empty")
	}
	return b, nil
}

// Redacted is a place for people and logs: a URL without what may be a credential,
// which are its user, query and fragment.
func Redacted(place string) string {
	scheme, _, ok := strings.Cut(place, "://")
	if !ok {
		return place
	}
	u, err := url.Parse(place)
	if err != nil {
		return scheme + "://..."
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|https?://[^\s"]+`)

// bare is what went wrong, without URLs, which may hold a credential, and without what
// the server said: it may have said what we sent.
func bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return bare(e.Err)
	}
	if text := quoted.ReplaceAllString(err.Error(), "..."); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// isLoopback reports whether a host, with or without port, is this machine.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
