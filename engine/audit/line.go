package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Bounds of the format. A reader refuses what is over one, so hostile files
// cannot make it hold more than about maxBatchBytes + MaxRecordBytes.
const (
	// MaxRecordBytes is the size of the largest record, without its line break.
	MaxRecordBytes = 2 << 20

	maxBatch      = 512     // records under one checkpoint
	maxBatchBytes = 8 << 20 // a batch that holds this much takes no further record
)

// checkpointStart is how a checkpoint line begins and no record may.
var checkpointStart = []byte(`{"checkpoint":`)

// checkRecord is nil when rec can be a line of the log: one canonical JSON object
// with a type.
func checkRecord(rec []byte) error {
	switch {
	case len(rec) > MaxRecordBytes:
		return fmt.Errorf("audit: %w: %d bytes", ErrNotRecord, len(rec))
	case len(rec) == 0 || rec[0] != '{':
		return fmt.Errorf("audit: %w: not an object", ErrNotRecord)
	case bytes.HasPrefix(rec, checkpointStart):
		return fmt.Errorf("audit: %w: looks like a checkpoint", ErrNotRecord)
	// Enough to tell a record from a checkpoint line that was damaged, in which
	// every quote within the note is escaped.
	case !bytes.Contains(rec, []byte(`"type":"`)):
		return fmt.Errorf("audit: %w: has no type", ErrNotRecord)
	}
	v := jsontext.Value(bytes.Clone(rec))
	if v.Canonicalize() != nil || !bytes.Equal(v, rec) {
		return fmt.Errorf("audit: %w: not canonical JSON", ErrNotRecord)
	}
	return nil
}

// checkpoint is what a checkpoint line says. It is not yet believed.
type checkpoint struct {
	size int64
	root tlog.Hash
	text string // what is signed
	note []byte // text and signature
}

func checkpointText(origin string, size int64, root tlog.Hash) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, size, root)
}

// signCheckpoint returns the checkpoint line, without its break.
func signCheckpoint(s note.Signer, size int64, root tlog.Hash) ([]byte, error) {
	msg, err := note.Sign(&note.Note{Text: checkpointText(s.Name(), size, root)}, s)
	if err != nil {
		return nil, err
	}
	line, err := jsontext.AppendQuote(bytes.Clone(checkpointStart), msg)
	return append(line, '}'), err
}

var errCheckpointForm = errors.New("checkpoint is malformed")

// parseCheckpoint reads a line in the one form that signCheckpoint writes: the
// line is not under the tree, so there must be no second way to write it.
func parseCheckpoint(line []byte, origin string) (checkpoint, error) {
	quoted, ok := bytes.CutPrefix(line, checkpointStart)
	quoted, ok2 := bytes.CutSuffix(quoted, []byte("}"))
	if !ok || !ok2 {
		return checkpoint{}, errCheckpointForm
	}
	msg, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return checkpoint{}, errCheckpointForm
	}
	if again, err := jsontext.AppendQuote(nil, msg); err != nil || !bytes.Equal(again, quoted) {
		return checkpoint{}, errCheckpointForm
	}
	text, _, ok := strings.Cut(string(msg), "\n\n")
	if !ok {
		return checkpoint{}, errCheckpointForm
	}
	text += "\n"
	size, root, err := parseCheckpointText(text, origin)
	if err != nil {
		return checkpoint{}, err
	}
	return checkpoint{size: size, root: root, text: text, note: msg}, nil
}

// parseCheckpointText reads what checkpointText writes, and no other form of it.
func parseCheckpointText(text, origin string) (size int64, root tlog.Hash, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return 0, root, errCheckpointForm
	}
	if lines[0] != origin {
		return 0, root, errors.New("checkpoint is of another log")
	}
	if size, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return 0, root, errCheckpointForm
	}
	if root, err = tlog.ParseHash(lines[2]); err != nil || checkpointText(origin, size, root) != text {
		return 0, root, errCheckpointForm
	}
	return size, root, nil
}

// checkSignature is nil when v, and nobody else, signed c.
func (c checkpoint) checkSignature(v note.Verifier) error {
	n, err := note.Open(c.note, note.VerifierList(v))
	if err != nil { // else there is at least one signature, by v
		return errors.New("checkpoint is not signed by the log's key")
	}
	// Base64 has spare bits and note.Open passes over signatures it does not
	// know: only the one way to write it will do.
	sig := n.Sigs[0]
	raw, err := base64.StdEncoding.DecodeString(sig.Base64)
	want := fmt.Sprintf("%s\n\u2014 %s %s\n", c.text, sig.Name, base64.StdEncoding.EncodeToString(raw))
	if err != nil || want != string(c.note) {
		return errCheckpointForm
	}
	return nil
}
