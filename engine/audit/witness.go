package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Witness is somebody who remembers the newest checkpoint of the log that it was shown,
// and signs no other that does not go on from it: https://c2sp.org/tlog-witness. With
// one, a log that was cut back, rewritten with its own key, exchanged or deleted does
// not pass for the log. Get one from [FileWitness], [HTTPWitness] or [CommandWitness].
type Witness interface {
	// Name tells the witnesses of a log apart: lower case letters, digits and hyphens,
	// at most 64.
	Name() string

	// Key is the verifier key that cosignatures are checked by, as in
	// https://c2sp.org/tlog-cosignature: name+hash+key of an Ed25519 key of type 4.
	Key() string

	// Update shows the witness a signed checkpoint, and the proof that its tree goes on
	// from the one of old records that the witness saw last; 0 and no proof for none. It
	// returns signature lines. It MUST NOT return nil before the witness will remember
	// the checkpoint whatever happens. A [*RefusedError] is the witness's own no.
	Update(ctx context.Context, old int64, checkpoint []byte, proof [][32]byte) (cosignatures []byte, err error)
}

// A RefusedError is the answer of a witness that does not cosign.
type RefusedError struct {
	Status int   // as of HTTP
	Size   int64 // with 409: the records that the witness saw; -1 if it did not say
}

func (e *RefusedError) Error() string {
	why := map[int]string{
		http.StatusBadRequest:          "it takes the request for malformed",
		http.StatusForbidden:           "it does not trust the log's key",
		http.StatusNotFound:            "it does not know the log, or there is no witness at this address",
		http.StatusUnprocessableEntity: "the log does not go on from what it saw",
		http.StatusTooManyRequests:     "it is asked too often",
	}[e.Status]
	switch {
	case e.Status == http.StatusConflict:
		why = fmt.Sprintf("it saw %d records", e.Size)
	case why == "":
		why = http.StatusText(e.Status)
	}
	return fmt.Sprintf("audit: the witness does not cosign: %d, %s", e.Status, why)
}

// Errors about witnesses, for errors.Is.
var (
	// ErrForked says that a witness remembers another log than this one, or more of it:
	// the log was cut back, rewritten or exchanged, or there are two of it.
	ErrForked = errors.New("a witness remembers another log")

	// ErrUnanchored says that not enough witnesses have cosigned the log far enough.
	ErrUnanchored = errors.New("not cosigned by enough witnesses")
)

// Bounds of the protocol.
const (
	maxProof   = 63       // lines, by the protocol
	maxRequest = 16 << 10 // bytes
	maxAnswer  = 64 << 10 // bytes
	maxTree    = 1 << 62  // records; package tlog cannot count further
)

// sizeType is the content type of an answer that is a size.
const sizeType = "text/x.tlog.size"

var witnessName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// identity is what all witnesses have.
type identity struct{ name, key string }

// Name is the name of the witness.
func (i identity) Name() string { return i.name }

// Key is the witness's verifier key.
func (i identity) Key() string { return i.key }

func newIdentity(name, key string) (identity, error) {
	key = strings.TrimSpace(key)
	if !witnessName.MatchString(name) {
		return identity{}, fmt.Errorf("audit: witness %q: its name is not lower case letters, digits and hyphens", name)
	}
	if _, err := parseCosigner(key); err != nil {
		return identity{}, fmt.Errorf("audit: witness %s: %w", name, err)
	}
	return identity{name, key}, nil
}

// request is the body of add-checkpoint.
func request(old int64, checkpoint []byte, proof [][32]byte) []byte {
	b := fmt.Appendf(nil, "old %d\n", old)
	for _, h := range proof {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	return append(append(b, '\n'), checkpoint...)
}

var errRequest = errors.New("audit: not a request to a witness")

// parseRequest reads what request writes.
func parseRequest(b []byte) (old int64, checkpoint []byte, proof [][32]byte, err error) {
	head, checkpoint, ok := bytes.Cut(b, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	size, ok2 := strings.CutPrefix(lines[0], "old ")
	if !ok || !ok2 || len(b) > maxRequest || len(lines) > 1+maxProof {
		return 0, nil, nil, errRequest
	}
	if old, err = parseSize(size); err != nil {
		return 0, nil, nil, errRequest
	}
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return 0, nil, nil, errRequest
		}
		proof = append(proof, h)
	}
	if !bytes.Equal(request(old, checkpoint, proof), b) { // base64 has spare bits
		return 0, nil, nil, errRequest
	}
	return old, checkpoint, proof, nil
}

// parseSize takes one form of writing it.
func parseSize(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > maxTree || strconv.FormatInt(n, 10) != s {
		return 0, errors.New("audit: not a size")
	}
	return n, nil
}

// answered is what a status and a body say. The size of a conflict counts only when it
// stands there as the protocol says.
func answered(status int, contentType string, body []byte) ([]byte, error) {
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("audit: the witness's answer is larger than %d bytes", maxAnswer)
	}
	if status == http.StatusOK {
		return body, nil
	}
	e := &RefusedError{Status: status, Size: -1}
	if line, ok := strings.CutSuffix(string(body), "\n"); ok && status == http.StatusConflict && contentType == sizeType {
		if n, err := parseSize(line); err == nil {
			e.Size = n
		}
	}
	return nil, e
}

func hashesOf(proof [][32]byte) tlog.TreeProof {
	p := make(tlog.TreeProof, 0, len(proof))
	for _, h := range proof {
		p = append(p, h)
	}
	return p
}
