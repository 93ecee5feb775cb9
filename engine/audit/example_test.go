package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
)

func Example() {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	l, err := audit.Open(dir, audit.Options{Origin: "example.com/log"})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"c-1", "c-2", "c-3"} {
		rec, err := call.Record{Type: call.TypeDecision, Time: time.Unix(0, 0).UTC(), Call: id, Verdict: call.Deny}.Encode()
		if err != nil {
			panic(err)
		}
		if _, err := l.Append(context.Background(), rec); err != nil {
			panic(err) // not recorded, so nothing may run
		}
	}
	if err := l.Close(); err != nil {
		panic(err)
	}

	report, err := audit.Verify(dir, "")
	fmt.Println(report.Origin, report.Records, err)

	segment := filepath.Join(dir, "log", "00000000000000000000.jsonl")
	b, err := os.ReadFile(segment)
	if err != nil {
		panic(err)
	}
	b[len(b)/2]++ // somewhere in the second record or its checkpoint
	if err := os.WriteFile(segment, b, 0o600); err != nil {
		panic(err)
	}
	_, err = audit.Verify(dir, "")
	tampered, _ := errors.AsType[*audit.TamperError](err)
	fmt.Println(errors.Is(err, audit.ErrTampered), tampered.Record)
	// Output:
	// example.com/log 3 <nil>
	// true 1
}
