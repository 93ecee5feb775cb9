package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

func leafOf(rec []byte) tlog.Hash { return tlog.RecordHash(rec) }

// The tree is tlog's.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr tree
		var stored []tlog.Hash
		reader := tlog.HashReaderFunc(func(ix []int64) ([]tlog.Hash, error) {
			var out []tlog.Hash
			for _, i := range ix {
				out = append(out, stored[i])
			}
			return out, nil
		})
		for i := range rapid.IntRange(0, 200).Draw(t, "n") {
			rec := fmt.Appendf(nil, "%d", i)
			want, err := tlog.StoredHashes(int64(i), rec, reader)
			if err != nil {
				t.Fatal(err)
			}
			got := tr.add(tlog.RecordHash(rec))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("add(%d) = %v, want %v", i, got, want)
			}
			stored = append(stored, got...)
		}
		want, err := tlog.TreeHash(tr.n, reader)
		if err != nil || tr.root() != want {
			t.Fatalf("root of %d = %v, want %v, %v", tr.n, tr.root(), want, err)
		}
	})
}

// mth is the tree hash exactly as RFC 6962 section 2.1 writes it.
func mth(d [][]byte) []byte {
	switch len(d) {
	case 0:
		h := sha256.Sum256(nil)
		return h[:]
	case 1:
		h := sha256.Sum256(append([]byte{0}, d[0]...))
		return h[:]
	}
	k := 1
	for k*2 < len(d) {
		k *= 2
	}
	h := sha256.Sum256(append(append([]byte{1}, mth(d[:k])...), mth(d[k:])...))
	return h[:]
}

// What docs/record-format.md says about verifying is enough to do it: this
// shares no code with the package.
func TestIndependently(t *testing.T) {
	dir := build(t, Options{SegmentBytes: 1500}, 3, 1, 4, 1, 5)
	pub := strings.SplitN(strings.TrimSpace(string(read(t, pubPath(dir)))), "+", 3)
	key, err := base64.StdEncoding.DecodeString(pub[2])
	if err != nil || key[0] != 1 {
		t.Fatalf("%v, algorithm %d", err, key[0])
	}
	var recs [][]byte
	checked := 0
	for _, path := range files(t, dir) {
		for _, line := range bytes.Split(bytes.TrimSuffix(read(t, path), []byte("\n")), []byte("\n")) {
			if !bytes.HasPrefix(line, []byte(`{"checkpoint":`)) {
				recs = append(recs, line)
				continue
			}
			var cp struct{ Checkpoint string }
			if err := json.Unmarshal(line, &cp); err != nil {
				t.Fatal(err)
			}
			text, sig, _ := strings.Cut(cp.Checkpoint, "\n\n")
			want := fmt.Sprintf("%s\n%d\n%s", pub[0], len(recs), base64.StdEncoding.EncodeToString(mth(recs)))
			if text != want {
				t.Fatalf("checkpoint %q, want %q", text, want)
			}
			b64 := strings.TrimSuffix(strings.TrimPrefix(sig, "\u2014 "+pub[0]+" "), "\n")
			raw, err := base64.StdEncoding.DecodeString(b64)
			if err != nil || fmt.Sprintf("%x", raw[:4]) != pub[1] || !ed25519.Verify(key[1:], []byte(text+"\n"), raw[4:]) {
				t.Fatalf("signature of %q: %v", cp.Checkpoint, err)
			}
			checked++
		}
	}
	rep, err := Verify(dir, "")
	if err != nil || rep.Records != int64(len(recs)) || rep.Checkpoints != int64(checked) || checked != 5 ||
		rep.Root != base64.StdEncoding.EncodeToString(mth(recs)) {
		t.Errorf("Verify = %+v, %v; by hand %d records, %d checkpoints", rep, err, len(recs), checked)
	}
}
