package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// algCosignature is the type of Ed25519 keys that cosign, https://c2sp.org/tlog-cosignature.
const algCosignature = 4

// cosigner is the public half of a witness's key. It is a [note.Verifier] of
// cosignature/v1, whose signatures begin with their time.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

// maxTime ends the year 9999: no later time can be written in JSON, or is a time.
const maxTime = 253402300799

var errCosigner = errors.New("audit: not the key of a witness of the form name+hash+key with an Ed25519 key of type 4")

func newCosigner(name string, key ed25519.PublicKey) *cosigner {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%c", name, algCosignature)
	h.Write(key)
	return &cosigner{name, binary.BigEndian.Uint32(h.Sum(nil)), key}
}

// parseCosigner reads a verifier key, https://c2sp.org/signed-note. It takes one form
// of writing it.
func parseCosigner(vkey string) (*cosigner, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	_, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algCosignature || !isKeyName(name) {
		return nil, errCosigner
	}
	c := newCosigner(name, raw[1:])
	if c.String() != vkey {
		return nil, errCosigner
	}
	return c, nil
}

// isKeyName reports whether a note can be signed by that name.
func isKeyName(name string) bool {
	if name == "" || len(name) > 256 || !utf8.ValidString(name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r == '+' || unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

func (c *cosigner) String() string {
	return fmt.Sprintf("%s+%08x+%s", c.name, c.hash, base64.StdEncoding.EncodeToString(append([]byte{algCosignature}, c.key...)))
}

// Name is the name of the key.
func (c *cosigner) Name() string { return c.name }

// KeyHash tells keys of one name apart.
func (c *cosigner) KeyHash() uint32 { return c.hash }

// Verify reports whether sig is a time and the signature over text at that time.
func (c *cosigner) Verify(text, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at <= maxTime && ed25519.Verify(c.key, cosigned(at, string(text)), sig[8:])
}

// cosigned is what is signed.
func cosigned(at uint64, text string) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text)
}

// cosigningKey is the whole key of a witness.
type cosigningKey struct {
	*cosigner
	private ed25519.PrivateKey
}

const privatePrefix = "PRIVATE+KEY+"

func makeCosigningKey(name string) (cosigningKey, error) {
	if !isKeyName(name) {
		return cosigningKey{}, errCosigner
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	return cosigningKey{newCosigner(name, public), private}, err
}

// encode is the key as a file holds it, in the form of [note.GenerateKey].
func (k cosigningKey) encode() []byte {
	return fmt.Appendf(nil, "%s%s+%08x+%s\n", privatePrefix, k.name, k.hash, base64.StdEncoding.EncodeToString(append([]byte{algCosignature}, k.private.Seed()...)))
}

func parseCosigningKey(b []byte) (cosigningKey, error) {
	bad := errors.New("audit: not the private key of a witness")
	rest, ok := strings.CutPrefix(strings.TrimSuffix(string(b), "\n"), privatePrefix)
	name, rest, _ := strings.Cut(rest, "+")
	_, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != 1+ed25519.SeedSize || raw[0] != algCosignature || !isKeyName(name) {
		return cosigningKey{}, bad
	}
	private := ed25519.NewKeyFromSeed(raw[1:])
	k := cosigningKey{newCosigner(name, private.Public().(ed25519.PublicKey)), private}
	if !bytes.Equal(bytes.TrimSuffix(k.encode(), []byte("\n")), bytes.TrimSuffix(b, []byte("\n"))) {
		return cosigningKey{}, bad
	}
	return k, nil
}

// cosign is the signature line, with its break.
func (k cosigningKey) cosign(text string, at time.Time) string {
	t := uint64(at.Unix())
	sig := binary.BigEndian.AppendUint32(nil, k.hash)
	sig = binary.BigEndian.AppendUint64(sig, t)
	sig = append(sig, ed25519.Sign(k.private, cosigned(t, text))...)
	return sigLine(k.name, base64.StdEncoding.EncodeToString(sig))
}

func sigLine(name, encoded string) string { return "\u2014 " + name + " " + encoded + "\n" }

// cosignedCheckpoint is a checkpoint of a log that a witness cosigned.
type cosignedCheckpoint struct {
	checkpoint           // its note has both signatures
	at         time.Time // of the cosignature
}

// openCosigned believes a note only if both the log and the witness signed it; what
// else is in it is left out of what it returns.
func openCosigned(msg []byte, log note.Verifier, by *cosigner) (cosignedCheckpoint, error) {
	n, err := note.Open(msg, note.VerifierList(log, by))
	if err != nil {
		return cosignedCheckpoint{}, errors.New("audit: not a checkpoint that the log and the witness signed")
	}
	own, theirs := "", ""
	var at int64
	for _, s := range n.Sigs {
		switch {
		case s.Name == log.Name() && s.Hash == log.KeyHash():
			own = sigLine(s.Name, s.Base64)
		case s.Name == by.name && s.Hash == by.hash:
			theirs = sigLine(s.Name, s.Base64)
			raw, err := base64.StdEncoding.DecodeString(s.Base64)
			if err != nil || len(raw) < 12 {
				return cosignedCheckpoint{}, errCosigner
			}
			at = int64(binary.BigEndian.Uint64(raw[4:]))
		}
	}
	switch {
	case own == "":
		return cosignedCheckpoint{}, errors.New("audit: the checkpoint is not signed by the log's key")
	case theirs == "":
		return cosignedCheckpoint{}, errors.New("audit: the checkpoint is not cosigned by the witness's key")
	}
	size, root, err := parseCheckpointText(n.Text, log.Name())
	if err != nil {
		return cosignedCheckpoint{}, fmt.Errorf("audit: %w", err)
	}
	if size < 1 || size > maxTree {
		return cosignedCheckpoint{}, errors.New("audit: the checkpoint is of " + strconv.FormatInt(size, 10) + " records")
	}
	c := checkpoint{size: size, root: root, text: n.Text, note: []byte(n.Text + "\n" + own + theirs)}
	return cosignedCheckpoint{c, time.Unix(at, 0).UTC()}, nil
}
