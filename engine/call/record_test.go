package call

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
)

func fullRecord() Record {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	index := int64(7)
	return Record{
		Type: TypeDecision, Time: at, Node: "n", Call: "c",
		Principal: &RecordPrincipal{ID: "alice", Kind: "user", Roles: []string{"r"}, Tenant: "t", Auth: Auth{"uid", "host"}, OnBehalfOf: []RecordPrincipal{{ID: "bob", Kind: "user"}}},
		Session:   "s", Tool: &RecordTool{Name: "t", Kind: "wasm", Digest: "sha256:1", Unknown: "hmac-sha256:2"},
		Args: "hmac-sha256:3", RawArgs: "hmac-sha256:4", Verdict: Deny, Code: CodePolicyDenied,
		Reasons: []RecordReason{{"org", "code", "rule"}},
		Caps:    &Caps{FS: []FS{{"w", "a", []string{"read"}}}, Log: true, Bounds: Bounds{Fuel: maxBound}},
		Policy:  []Revision{{"b", "1", "sha256:5", "restrict", "data.a.b"}},
		Change: &Change{
			TATs:     Times{"limit": 1<<62 + 1, "other": -1},
			Asked:    &Approval{ID: "a", Binding: "hmac-sha256:6", Asked: at, Expires: at.Add(time.Hour), Rules: []ApprovalRule{{Layer: "org", Name: "lead", Count: 1, From: From{Roles: []string{"lead"}}}}},
			Voted:    &Vote{Approval: "a", By: RecordPrincipal{ID: "carol", Kind: "user"}, Deny: true, Reason: "no"},
			Used:     Uses{"limit": {-3, 1<<62 + 1}},
			Consumed: []string{"b"},
			Voided:   []string{"c"},
			Spent:    []Spent{{"gr-1", at}},
			Session:  &SessionChange{ID: "s", Owner: "sha256:8", Version: 2, Labels: Times{"l": 1 << 60}, Until: 1 << 60},
			Revoked:  &Revocation{Principal: "sha256:9", Tool: "t", Epoch: 3},
		},
		Grant:         &RecordGrant{"gr-1", "a", "b", at, true},
		Preconditions: []string{"hmac-sha256:a"}, Enforcement: "convention", Approval: "ap-1",
		Decision: &index,
		Outcome:  &RecordOutcome{Status: Failed, Exit: 1, Effects: []RecordEffect{{"fs.read", "fs[0]", "hmac-sha256:7", "h:1", "a", "192.0.2.1:1", "ok", 3, 4, 5, 1, "partial"}}, Fuel: 1, MemoryBytes: 2, MemoryRefused: true, OutputBytes: 3, TookUS: 4},
		Was:      "sha256:b", Waived: []string{"appendfsync"}, CutBytes: 9,
	}
}

func TestRecordRoundTrip(t *testing.T) {
	full := fullRecord()
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Fatalf("the test's record lacks %s", v.Type().Field(i).Name)
		}
	}
	zero := int64(0)
	for name, r := range map[string]Record{
		"full":               full,
		"least":              {Type: TypeCut, Time: full.Time},
		"first decision":     {Type: TypeOutcome, Time: full.Time, Decision: &zero},
		"a time in 64 bits":  {Type: TypeDecision, Time: full.Time, Change: &Change{TATs: Times{"l": 1<<63 - 1}}},
		"caps that say none": {Type: TypeDecision, Time: full.Time, Caps: &Caps{}},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if canonical, err := jcs.Transform(line); err != nil || !bytes.Equal(line, canonical) || bytes.ContainsRune(line, '\n') {
				t.Errorf("not canonical: %s, %v", line, err)
			}
			got, err := DecodeRecord(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if d := cmp.Diff(r, got); d != "" {
				t.Errorf("round trip (-want +got):\n%s", d)
			}
		})
	}
}

func TestDecodeRecordIsStrict(t *testing.T) {
	line, err := fullRecord().Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := string(line)
	for name, bad := range map[string]string{
		"unknown member":        strings.Replace(s, `"call":`, `"cal":`, 1),
		"unknown inner member":  strings.Replace(s, `"binding":`, `"bindin":`, 1),
		"other case":            strings.Replace(s, `"call":`, `"Call":`, 1),
		"twice":                 strings.Replace(s, `"call":"c"`, `"call":"c","call":"d"`, 1),
		"time as a number":      strings.Replace(s, `"4611686018427387905"`, `4611686018427387905`, 1),
		"time beyond 64 bits":   strings.Replace(s, `"4611686018427387905"`, `"9223372036854775808"`, 1),
		"bound of zero":         strings.Replace(s, `"fuel":9007199254740991`, `"fuel":0`, 1),
		"two records in a line": s + s,
		"cut off":               s[:len(s)-1],
	} {
		if bad == s {
			t.Fatalf("%s: the test changes nothing", name)
		}
		if _, err := DecodeRecord([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestChangeIsZero(t *testing.T) {
	if !(Change{}).IsZero() || !(Change{TATs: Times{}}).IsZero() {
		t.Error("no change is a change")
	}
	for _, c := range []Change{{TATs: Times{"l": 0}}, {Asked: &Approval{}}, {Session: &SessionChange{}}, {Voted: &Vote{}}, {Consumed: []string{"a"}}, {Revoked: &Revocation{}}} {
		if c.IsZero() {
			t.Errorf("%+v is no change", c)
		}
	}
}

func TestOutcomeJSON(t *testing.T) {
	want := Outcome{Status: Succeeded, Code: CodeOK, Effects: []Effect{{"fs.read", "fs[0]", "w/a", "", "ok", 3, 0, 5, 0, "structural"}}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); strings.Contains(s, "exit") {
		t.Errorf("Marshal = %s", s)
	}
	var got Outcome
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("round trip (-want +got):\n%s", d)
	}
	if b, err := json.Marshal(Outcome{Stderr: []byte("CANARY")}); err != nil || bytes.Contains(b, []byte("CANARY")) {
		t.Errorf("stderr shows: %s, %v", b, err)
	}
}
