package audit

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// The log under attack: records 0-3, 4, 5-9, 10-12 and 13-14 in five batches, in
// one segment or in one each.
var attackSizes = []int{4, 1, 5, 3, 2}

// lines splits a segment. Line i of the single segment is:
// 0-3 cp4 | 5:4 cp6 | 7-11:5-9 cp12 | 13-15:10-12 cp16 | 17-18:13-14 cp19
func lines(b []byte) [][]byte {
	return bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

// onLines edits the lines of the first segment.
func onLines(f func(l [][]byte) [][]byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		l := lines(read(t, segmentPath(dir, 0)))
		l[len(l)-1] = append(l[len(l)-1], '\n')
		write(t, segmentPath(dir, 0), bytes.Join(f(l), nil))
	}
}

func edit(b []byte) []byte { return bytes.Replace(b, []byte(`"deny"`), []byte(`"allw"`), 1) }

func deleteLines(from, to int) func(*testing.T, string) {
	return onLines(func(l [][]byte) [][]byte { return append(l[:from:from], l[to:]...) })
}

func change(line int) func(*testing.T, string) {
	return onLines(func(l [][]byte) [][]byte { l[line] = edit(l[line]); return l })
}

func swap(i, j int) func(*testing.T, string) {
	return onLines(func(l [][]byte) [][]byte { l[i], l[j] = l[j], l[i]; return l })
}

func insert(at int, line string) func(*testing.T, string) {
	return onLines(func(l [][]byte) [][]byte {
		return append(l[:at:at], append([][]byte{[]byte(line)}, l[at:]...)...)
	})
}

func all(fs ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for _, f := range fs {
			f(t, dir)
		}
	}
}

func noHashes(t *testing.T, dir string) {
	if err := os.Remove(hashesPath(dir)); err != nil {
		t.Fatal(err)
	}
}

// resign replaces checkpoint lines from the given line on by ones that fit the
// records, signed by s; with keep, only text changes and old signatures stay.
func resign(key func(dir string) note.Signer, from int, keep bool) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		s := key(dir)
		var tr tree
		onLines(func(l [][]byte) [][]byte {
			for i, line := range l {
				if !bytes.HasPrefix(line, checkpointStart) {
					tr.add(tlog.RecordHash(bytes.TrimSuffix(line, []byte("\n"))))
					continue
				}
				if i < from {
					continue
				}
				if keep {
					old, err := parseCheckpoint(bytes.TrimSuffix(line, []byte("\n")), s.Name())
					if err != nil {
						t.Fatal(err)
					}
					l[i] = bytes.Replace(line, []byte(old.root.String()), []byte(tr.root().String()), 1)
					continue
				}
				cp, err := signCheckpoint(s, tr.n, tr.root())
				if err != nil {
					t.Fatal(err)
				}
				l[i] = append(cp, '\n')
			}
			return l
		})(t, dir)
	}
}

func ownKey(dir string) note.Signer {
	s, _, err := loadKeys(dir, "")
	if err != nil {
		panic(err)
	}
	return s
}

// sameNameKey is the key of an attacker who gives it the log's name.
func sameNameKey(dir string) note.Signer {
	private, _, err := note.GenerateKey(rand.Reader, ownKey(dir).Name())
	if err != nil {
		panic(err)
	}
	s, err := note.NewSigner(private)
	if err != nil {
		panic(err)
	}
	return s
}

// reline gives one checkpoint another origin or size, signed by the log's own key.
func reline(line int, origin string, size int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		s := ownKey(dir)
		if origin == "" {
			origin = s.Name()
		}
		onLines(func(l [][]byte) [][]byte {
			old, err := parseCheckpoint(bytes.TrimSuffix(l[line], []byte("\n")), s.Name())
			if err != nil {
				t.Fatal(err)
			}
			msg, err := note.Sign(&note.Note{Text: checkpointText(origin, size, old.root)}, s)
			if err != nil {
				t.Fatal(err)
			}
			l[line] = fmt.Appendf(nil, "{\"checkpoint\":\"%s\"}\n", strings.ReplaceAll(string(msg), "\n", `\n`))
			return l
		})(t, dir)
	}
}

func replaceIn(line int, old, new string) func(*testing.T, string) {
	return onLines(func(l [][]byte) [][]byte {
		was := l[line]
		l[line] = bytes.Replace(l[line], []byte(old), []byte(new), 1)
		if bytes.Equal(was, l[line]) {
			panic("nothing replaced")
		}
		return l
	})
}

func onSegments(f func(t *testing.T, dir string, paths []string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) { f(t, dir, files(t, dir)) }
}

func remove(i int) func(*testing.T, string) {
	return onSegments(func(t *testing.T, _ string, p []string) {
		if err := os.Remove(p[i]); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAttacks(t *testing.T) {
	const undetected = -1
	many := Options{SegmentBytes: 1}
	tests := []struct {
		name        string
		o           Options
		edit        func(t *testing.T, dir string)
		first, last int64  // the record named, or the range
		reason      string // part of it
		openPasses  bool
	}{
		{name: "nothing", edit: func(*testing.T, string) {}, first: undetected},

		{name: "change a record", edit: change(8), first: 6, last: 6, reason: "not the record"},
		{name: "change the first", edit: change(0), first: 0, last: 0, reason: "not the record"},
		{name: "change the last", edit: change(18), first: 14, last: 14, reason: "not the record"},
		{name: "change two", edit: all(change(9), change(14)), first: 7, last: 7, reason: "not the record"},
		{name: "change, hashes gone", edit: all(noHashes, change(8)), first: 5, last: 9, reason: "do not match"},
		{name: "change, hashes wrong", edit: all(change(8), func(t *testing.T, dir string) {
			write(t, hashesPath(dir), bytes.Repeat([]byte("x"), 2048))
		}), first: 5, last: 9, reason: "do not match"},
		{name: "change in a later segment", o: many, edit: onSegments(func(t *testing.T, _ string, p []string) {
			l := lines(read(t, p[2]))
			l[3] = edit(l[3])
			write(t, p[2], append(bytes.Join(l, nil), '\n'))
		}), first: 8, last: 8, reason: "not the record"},
		{name: "delete a record", edit: deleteLines(8, 9), first: 6, last: 6, reason: "missing"},
		{name: "delete the last of a batch", edit: deleteLines(11, 12), first: 9, last: 9, reason: "missing"},
		{name: "delete the only one of a batch", edit: deleteLines(5, 6), first: 4, last: 4, reason: "missing"},
		{name: "delete a record and its checkpoint", edit: deleteLines(5, 7), first: 4, last: 4, reason: "missing"},
		{name: "delete a batch", edit: deleteLines(7, 13), first: 5, last: 5, reason: "missing"},
		{name: "delete a batch, hashes gone", edit: all(noHashes, deleteLines(7, 13)), first: 5, last: 12, reason: "do not match"},
		{name: "swap two records", edit: swap(8, 9), first: 6, last: 6, reason: "out of order"},
		{name: "swap across batches", edit: swap(5, 7), first: 4, last: 4, reason: "not the record"},
		{name: "repeat a record", edit: insert(9, string(testRecord(6))+"\n"), first: 7, last: 7, reason: "not the record"},
		{name: "add a record at the end of a batch", edit: insert(12, string(testRecord(99))+"\n"), first: 10, last: 10, reason: "never logged"},
		{name: "join two lines", edit: onLines(func(l [][]byte) [][]byte {
			l[8] = bytes.TrimSuffix(l[8], []byte("\n"))
			return l
		}), first: 6, last: 6, reason: "not the record"},

		{name: "checkpoint: signature of the last", edit: replaceIn(19, " ", " A"), first: 13, last: 14, reason: "not signed"},
		// Every record is still under the last checkpoint, which Open does check.
		{name: "checkpoint: signature of an older one", edit: replaceIn(12, " ", " A"), first: 5, last: 9, reason: "not signed", openPasses: true},
		{name: "checkpoint: another key", edit: resign(sameNameKey, 12, false), first: 5, last: 9, reason: "not signed"},
		{name: "checkpoint: last one by another key", edit: resign(sameNameKey, 19, false), first: 13, last: 14, reason: "not signed"},
		{name: "checkpoint: no signature", edit: onLines(func(l [][]byte) [][]byte {
			i := bytes.Index(l[19], []byte(`\n\n`))
			l[19] = append(l[19][:i:i], []byte(`\n\n"}`+"\n")...)
			return l
		}), first: 13, last: 14, reason: "not signed"},
		{name: "checkpoint: another log", edit: reline(12, "example.com/other", 10), first: 5, last: 9, reason: "another log"},
		{name: "checkpoint: size too large", edit: reline(12, "", 1<<62), first: 5, last: 9, reason: "checkpoint of 4611686018427387904 records"},
		{name: "checkpoint: size too small", edit: reline(12, "", 9), first: 5, last: 9, reason: "do not match"},
		{name: "checkpoint: size too large by one", edit: reline(12, "", 11), first: 5, last: 10, reason: "do not match"},
		{name: "checkpoint: size of before", edit: reline(12, "", 5), first: 5, last: 9, reason: "checkpoint of 5 records"},
		{name: "checkpoint: size zero", edit: reline(12, "", 0), first: 5, last: 9, reason: "checkpoint of 0 records"},
		{name: "checkpoint: size negative", edit: reline(12, "", -10), first: 5, last: 9, reason: "checkpoint of -10 records"},
		{name: "checkpoint: zero in front of the size", edit: replaceIn(12, `\n10\n`, `\n010\n`), first: 5, last: 9, reason: "malformed"},
		{name: "checkpoint: size no number", edit: replaceIn(12, `\n10\n`, `\n99999999999999999999\n`), first: 5, last: 9, reason: "malformed"},
		{name: "checkpoint: root no hash", edit: replaceIn(12, `\n10\n`, `\n10\nA`), first: 5, last: 9, reason: "malformed"},
		{name: "checkpoint: stray bits in the signature", edit: onLines(func(l [][]byte) [][]byte {
			l[19][bytes.LastIndexByte(l[19], '=')-1]++ // of the last digit two bits mean nothing
			return l
		}), first: 13, last: 14, reason: "malformed"},
		{name: "checkpoint: a second signature", edit: replaceIn(19, `\n"}`, "\\n\u2014 other AAAAAAA=\\n\"}"), first: 13, last: 14, reason: "malformed"},
		{name: "checkpoint: another escape", edit: replaceIn(12, `\n10\n`, `\u000a10\n`), first: 5, last: 9, reason: "malformed"},
		{name: "checkpoint: blank", edit: replaceIn(12, `"}`, `" }`), first: 5, last: 9, reason: "malformed"},
		{name: "checkpoint: another member", edit: replaceIn(12, `"}`, `","x":1}`), first: 5, last: 9, reason: "malformed"},
		{name: "checkpoint: carriage return", edit: replaceIn(12, "\n", "\r\n"), first: 5, last: 9, reason: "malformed"},
		{name: "checkpoint: twice", edit: onLines(func(l [][]byte) [][]byte { return append(l, l[19]) }), first: 15, last: 15, reason: "checkpoint of 15 records"},
		{name: "checkpoint: an older one at the end", edit: onLines(func(l [][]byte) [][]byte { return append(l, l[12]) }), first: 15, last: 15, reason: "checkpoint of 10 records"},
		{name: "records and an older checkpoint at the end", edit: onLines(func(l [][]byte) [][]byte { return append(l, l[17], l[12]) }), first: 15, last: 15, reason: "checkpoint of 10 records"},
		{name: "rewrite and keep the old signatures", edit: all(change(8), resign(ownKey, 0, true)), first: 5, last: 9, reason: "not signed"},
		{name: "rewrite one batch and its root", edit: all(change(8), func(t *testing.T, dir string) {
			before := lines(read(t, segmentPath(dir, 0)))
			resign(ownKey, 0, true)(t, dir)
			onLines(func(l [][]byte) [][]byte { return append(l[:13:13], append(before[13:], []byte("\n"))...) })(t, dir)
		}), first: 5, last: 9, reason: "not signed"},

		{name: "end: line of garbage", edit: insert(20, "garbage\n"), first: 15, last: 15, reason: "neither"},
		{name: "end: empty line", edit: insert(20, "\n"), first: 15, last: 15, reason: "neither"},
		{name: "end: malformed checkpoint", edit: insert(20, `{"checkpoint":"x"}`+"\n"), first: 15, last: 15, reason: "malformed"},
		{name: "end: checkpoint that nobody signed", edit: func(t *testing.T, dir string) {
			insert(20, string(testRecord(15))+"\n"+`{"checkpoint":"`+ownKey(dir).Name()+`\n16\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n"}`+"\n")(t, dir)
		}, first: 15, last: 15, reason: "not signed"},
		{name: "end: checkpoint goes on", edit: onLines(func(l [][]byte) [][]byte {
			l[19] = append(bytes.TrimSuffix(l[19], []byte("\n")), '!')
			return l
		}), first: 13, last: 14, reason: "goes on"},
		{name: "end: checkpoint damaged in its key", edit: replaceIn(19, "checkpoint", "chockpoint"), first: 13, last: 15, reason: "neither"},
		{name: "end: line too long", edit: insert(20, strings.Repeat("x", MaxRecordBytes+1)), first: 15, last: 15, reason: "longer"},
		{name: "end: too many records", edit: insert(20, strings.Repeat(string(testRecord(0))+"\n", maxBatch+1)), first: 15 + maxBatch, last: 15 + maxBatch, reason: "more records"},
		{name: "end: too many bytes", edit: insert(20, strings.Repeat(`{"type":"`+strings.Repeat("x", 1<<20)+"\"}\n", 9)), first: 23, last: 23, reason: "more records"},

		{name: "segment: first missing", o: many, edit: remove(0), first: 0, last: 0, reason: "starts at record 4, not 0"},
		{name: "segment: one missing", o: many, edit: remove(2), first: 5, last: 5, reason: "starts at record 10, not 5"},
		{name: "segment: all missing", o: many, edit: all(remove(0), remove(0), remove(0), remove(0), remove(0)), first: 0, last: 0, reason: "missing"},
		{name: "segment: emptied", o: many, edit: onSegments(func(t *testing.T, _ string, p []string) { write(t, p[2], nil) }), first: 5, last: 5, reason: "starts at record 10, not 5"},
		{name: "segment: cut within a batch", o: many, edit: onSegments(func(t *testing.T, _ string, p []string) {
			write(t, p[2], bytes.Join(lines(read(t, p[2]))[:3], nil))
		}), first: 5, last: 9, reason: "ends within a batch"},
		{name: "segment: cut within a line", o: many, edit: onSegments(func(t *testing.T, _ string, p []string) {
			b := read(t, p[2])
			write(t, p[2], b[:len(b)-1])
		}), first: 5, last: 9, reason: "ends within a batch"},
		{name: "segment: renamed", o: many, edit: onSegments(func(t *testing.T, dir string, p []string) {
			if err := os.Rename(p[2], segmentPath(dir, 6)); err != nil {
				t.Fatal(err)
			}
		}), first: 5, last: 5, reason: "starts at record 6, not 5"},
		{name: "segment: contents swapped", o: many, edit: onSegments(func(t *testing.T, _ string, p []string) {
			a, b := read(t, p[1]), read(t, p[2])
			write(t, p[1], b)
			write(t, p[2], a)
		}), first: 4, last: 4},
		{name: "segment: extra, out of order", o: many, edit: func(t *testing.T, dir string) { write(t, segmentPath(dir, 7), nil) }, first: 7, last: 7, reason: "starts at record 7, not 10"},
		{name: "segment: extra, beyond the end", o: many, edit: func(t *testing.T, dir string) { write(t, segmentPath(dir, 99), nil) }, first: 15, last: 15, reason: "starts at record 99, not 15"},

		// What nobody can tell from these files alone: a prefix of the log that
		// ends with a checkpoint is a log, and so is whatever the key signs. Only
		// a witness, who remembers a newer checkpoint, sees it.
		{name: "undetected: cut back to an older checkpoint", edit: deleteLines(13, 20), first: undetected},
		{name: "undetected: last segments removed", o: many, edit: all(remove(4), remove(3)), first: undetected},
		{name: "undetected: everything cut", edit: deleteLines(0, 20), first: undetected},
		{name: "undetected: rewritten by who has the key", edit: all(change(8), resign(ownKey, 0, false)), first: undetected},
		// Harmless: every record is still under a later checkpoint.
		{name: "undetected: a checkpoint between two batches removed", edit: deleteLines(12, 13), first: undetected},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := build(t, tt.o, attackSizes...)
			tt.edit(t, dir)
			before := snapshot(t, dir)
			_, err := Verify(dir, "")
			check := func(what string, err error) {
				t.Helper()
				if tt.first == undetected {
					if err != nil {
						t.Errorf("%s = %v, want nil", what, err)
					}
					return
				}
				te, ok := errors.AsType[*TamperError](err)
				if !ok || !errors.Is(err, ErrTampered) {
					t.Fatalf("%s = %v, want a TamperError", what, err)
				}
				if te.Record != tt.first || te.Last != tt.last || !strings.Contains(te.Reason, tt.reason) || te.Segment == "" {
					t.Errorf("%s = %v; want records %d to %d, %q", what, err, tt.first, tt.last, tt.reason)
				}
			}
			check("Verify", err)
			l, err := Open(dir, tt.o)
			if err == nil {
				l.Close()
			}
			if tt.openPasses {
				tt.first = undetected
			}
			check("Open", err)
			if d := cmp.Diff(before, snapshot(t, dir)); tt.first != undetected && d != "" {
				t.Errorf("Verify or Open changed the evidence: %s", d)
			}
		})
	}
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, p := range files(t, dir) {
		m[p] = string(read(t, p))
	}
	if b, err := os.ReadFile(hashesPath(dir)); err == nil && len(b) > 0 {
		m["hashes"] = string(b)
	}
	return m
}

// The key that lies beside the log vouches for nothing against an insider; a
// copy that was kept elsewhere does.
func TestVerifyWithKeptKey(t *testing.T) {
	dir := build(t, Options{Origin: "example.com/log"}, 3)
	kept := string(read(t, pubPath(dir)))
	forged := build(t, Options{Origin: "example.com/log"}, 2)
	if _, err := Verify(dir, kept); err != nil {
		t.Error(err)
	}
	if _, err := Verify(forged, ""); err != nil {
		t.Error(err)
	}
	if _, err := Verify(forged, kept); !errors.Is(err, ErrTampered) {
		t.Errorf("Verify of another log with the kept key = %v", err)
	}
	if _, err := Verify(dir, "nonsense"); err == nil || errors.Is(err, ErrTampered) {
		t.Errorf("Verify with a malformed key = %v", err)
	}
}

// Whatever single byte is changed or lost, of records, checkpoints or line
// breaks, is noticed, and the record is named or its batch.
func TestEveryByte(t *testing.T) {
	dir := build(t, Options{}, 1, 2)
	v, err := loadPub(dir)
	if err != nil {
		t.Fatal(err)
	}
	good := read(t, segmentPath(dir, 0))
	f, err := os.Open(hashesPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	walk := func(b []byte) (*walker, error) {
		w := &walker{verifier: v, every: true, hashes: &hashFile{f}, stop: -1}
		return w, w.segment(t.Context(), segment{0, segmentPath(dir, 0)}, bytes.NewReader(b), -1, ignore)
	}
	if w, err := walk(good); err != nil || w.tree.n != 3 {
		t.Fatal(err)
	}
	ends := []int{}
	for i, c := range good {
		if c == '\n' {
			ends = append(ends, i)
		}
	}
	// By line: the record, or any that the checkpoint may be mistaken for.
	record := []struct{ from, to int64 }{{0, 0}, {0, 1}, {1, 1}, {2, 2}, {1, 1}}
	for i := range good {
		line := 0
		for i > ends[line] {
			line++
		}
		for name, bad := range map[string][]byte{
			"flip":  append(append(bytes.Clone(good[:i]), good[i]^1), good[i+1:]...),
			"high":  append(append(bytes.Clone(good[:i]), good[i]|0x80), good[i+1:]...),
			"zero":  append(append(bytes.Clone(good[:i]), 0), good[i+1:]...),
			"break": append(append(bytes.Clone(good[:i]), '\n'), good[i+1:]...),
			"lose":  append(bytes.Clone(good[:i]), good[i+1:]...),
		} {
			if bytes.Equal(bad, good) || name == "lose" && i == len(good)-1 {
				continue // the last break alone can be what a crash left out
			}
			_, err := walk(bad)
			te, ok := errors.AsType[*TamperError](err)
			if !ok {
				t.Fatalf("%s byte %d of line %d: %v", name, i, line, err)
			}
			if want := record[line]; te.Record > want.to || te.Last < want.from {
				t.Fatalf("%s byte %d of line %d: %v, want record %v", name, i, line, te, want)
			}
			if isRecord := line != 1 && line != 4; isRecord && i != ends[line] && te.Record != te.Last {
				t.Fatalf("%s byte %d of line %d: %v, want the very record", name, i, line, te)
			}
		}
	}
}
