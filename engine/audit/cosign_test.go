package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// testLog is a key of a log and a checkpoint signed with it.
func testLog(t testing.TB, size int64) (note.Signer, note.Verifier, []byte) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "callgate.local/test")
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := note.Sign(&note.Note{Text: checkpointText(s.Name(), size, tlog.Hash{byte(size)})}, s)
	if err != nil {
		t.Fatal(err)
	}
	return s, v, msg
}

// What we sign two others verify, what they sign we do, and all write keys alike.
func TestCosignaturesOfOthers(t *testing.T) {
	_, log, msg := testLog(t, 7)
	text, _, _ := strings.Cut(string(msg), "\n\n")
	text += "\n"
	ours, err := makeCosigningKey("witness.example/ours")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0).UTC()
	signed := slices.Concat(msg, []byte(ours.cosign(text, at)))

	wood, err := torchwood.NewCosignatureVerifier(ours.String())
	if err != nil {
		t.Fatal(err)
	}
	formats, err := f_note.NewVerifierForCosignatureV1(ours.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]note.Verifier{"torchwood": wood, "formats": formats} {
		n, err := note.Open(signed, note.VerifierList(v))
		if err != nil || len(n.Sigs) != 1 || v.KeyHash() != ours.KeyHash() {
			t.Errorf("%s: %+v, %v", name, n, err)
			continue
		}
		theirs, err := torchwood.CosignatureTimestamp(n.Sigs[0])
		if err != nil || theirs != at.Unix() {
			t.Errorf("%s: at %d, %v", name, theirs, err)
		}
	}
	if wood.String() != ours.String() {
		t.Errorf("torchwood writes the key %s, we %s", wood, ours)
	}
	if n, err := f_note.CoSigV1Timestamp(note.Signature{Base64: lastWord(signed)}); err != nil || !n.Equal(at) {
		t.Errorf("formats: at %v, %v", n, err)
	}
	if c, err := openCosigned(signed, log, ours.cosigner); err != nil || !c.at.Equal(at) || c.size != 7 || !bytes.Equal(c.note, signed) {
		t.Errorf("%+v, %v", c, err)
	}

	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := torchwood.NewCosignatureSigner("witness.example/theirs", private)
	if err != nil {
		t.Fatal(err)
	}
	k, err := parseCosigner(theirs.Verifier().String())
	if err != nil {
		t.Fatal(err)
	}
	formatsKey, err := f_note.NewSignerForCosignatureV1("PRIVATE+KEY+witness.example/theirs+00000000+" + base64.StdEncoding.EncodeToString(append([]byte{4}, private.Seed()...)))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]note.Signer{"torchwood": theirs, "formats": formatsKey} {
		signed, err := note.Sign(&note.Note{Text: text}, s)
		if err != nil {
			t.Fatal(err)
		}
		_, sig, _ := strings.Cut(string(signed), "\n\n")
		c, err := openCosigned(slices.Concat(msg, []byte(sig)), log, k)
		if err != nil || time.Since(c.at) > time.Minute {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func lastWord(b []byte) string {
	words := strings.Fields(string(b))
	return words[len(words)-1]
}

// A key is read in the one form of writing it, and of the one kind that we know.
func TestCosignerKeys(t *testing.T) {
	k, err := makeCosigningKey("w.example")
	if err != nil {
		t.Fatal(err)
	}
	good := k.String()
	if again, err := parseCosigningKey(k.encode()); err != nil || again.String() != good {
		t.Errorf("%v, %v", again, err)
	}
	_, logKey, err := note.GenerateKey(rand.Reader, "w.example")
	if err != nil {
		t.Fatal(err)
	}
	_, mldsa, err := f_note.GenerateMLDSAKey("w.example")
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"empty": "", "a name": "w.example", "a key that signs notes": logKey, "an ML-DSA key": mldsa,
		"another hash":  strings.Replace(good, "+", "+0", 1),
		"another name":  "x" + good,
		"a line break":  good + "\n",
		"a space":       strings.Replace(good, "w.", "w ", 1),
		"stray bits":    good[:len(good)-2] + string(good[len(good)-2]+1) + "=",
		"cut":           good[:len(good)-8],
		"upper case":    strings.ToUpper(good),
		"private":       strings.TrimSpace(string(k.encode())),
		"a control":     strings.Replace(good, "w.", "w\x01", 1),
		"a long name":   strings.Repeat("w", 300) + good,
		"bad UTF-8":     "\xff" + good,
		"without a key": good[:strings.LastIndex(good, "+")+1],
	} {
		if c, err := parseCosigner(bad); err == nil {
			t.Errorf("%s: %q is read as %s", name, bad, c)
		}
		if _, err := parseCosigningKey([]byte(bad)); err == nil && name != "private" {
			t.Errorf("%s: read as private", name)
		}
	}
	if _, err := makeCosigningKey("a+b"); err == nil {
		t.Error("a name with a plus")
	}
}

// A note counts when both signed it, and what it says is then what they signed.
func FuzzOpenCosigned(f *testing.F) {
	s, log, msg := testLog(f, 7)
	k, err := makeCosigningKey("w.example")
	if err != nil {
		f.Fatal(err)
	}
	text, _, _ := strings.Cut(string(msg), "\n\n")
	line := k.cosign(text+"\n", time.Unix(1_700_000_000, 0))
	f.Add(slices.Concat(msg, []byte(line)))
	f.Add([]byte(text + "\n\n" + line))
	f.Add(msg)
	f.Add(slices.Concat(msg, []byte(line), []byte(sigLine("x", "AAAAAAAA"))))
	for _, size := range []int64{0, -1, maxTree + 1} {
		other := checkpointText(s.Name(), size, tlog.Hash{})
		m, err := note.Sign(&note.Note{Text: other}, s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(slices.Concat(m, []byte(k.cosign(other, time.Unix(1, 0)))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := openCosigned(b, log, k.cosigner)
		if err != nil {
			return
		}
		if c.size != 7 || c.text != text+"\n" || c.at.Unix() != 1_700_000_000 {
			t.Fatalf("believed %+v", c) // else somebody broke Ed25519
		}
		again, err := openCosigned(c.note, log, k.cosigner)
		if err != nil || !bytes.Equal(again.note, c.note) {
			t.Fatalf("not a fixed point: %q then %q, %v", c.note, again.note, err)
		}
	})
}

// A request is read back as it was written, or refused.
func FuzzParseRequest(f *testing.F) {
	_, _, msg := testLog(f, 7)
	f.Add(request(0, msg, nil))
	f.Add(request(4, msg, [][32]byte{{1}, {2}}))
	f.Add(request(4, msg, make([][32]byte, maxProof+1)))
	f.Add([]byte("old 04\n\nx"))
	f.Add([]byte("old 4611686018427387905\n\nx"))
	f.Fuzz(func(t *testing.T, b []byte) {
		old, cp, proof, err := parseRequest(b)
		if err != nil {
			return
		}
		if old < 0 || old > maxTree || len(proof) > maxProof || !bytes.Equal(request(old, cp, proof), b) {
			t.Fatalf("%q is read as %d, %d hashes, %q", b, old, len(proof), cp)
		}
	})
}

// The size of a conflict is there in one form, or it is not there.
func FuzzAnswered(f *testing.F) {
	f.Add(409, sizeType, []byte("12\n"))
	f.Add(409, "text/plain", []byte("12\n"))
	f.Add(409, sizeType, []byte("012\n"))
	f.Add(200, "", []byte("x"))
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		b, err := answered(status, kind, body)
		if err == nil {
			if status != 200 || !bytes.Equal(b, body) {
				t.Fatalf("%d is an answer", status)
			}
			return
		}
		if r, ok := err.(*RefusedError); ok && r.Size >= 0 {
			if n, err := parseSize(strings.TrimSuffix(string(body), "\n")); status != 409 || kind != sizeType || err != nil || n != r.Size {
				t.Fatalf("%d %q %q is a size of %d", status, kind, body, r.Size)
			}
		}
	})
}
