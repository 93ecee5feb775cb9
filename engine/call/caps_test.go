package call

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func okHTTP() HTTP {
	return HTTP{Hosts: []string{"api.x.io"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/v1"}, Networks: []string{"public"}}
}

func withHTTP(change func(*HTTP)) Caps {
	h := okHTTP()
	change(&h)
	return Caps{HTTP: []HTTP{okHTTP(), h}}
}

func TestValidate(t *testing.T) {
	many := make([]string, MaxCapsEntries+1)
	for i := range many {
		many[i] = fmt.Sprintf("s%d", i)
	}
	fs := func(root, path string, modes ...string) Caps { return Caps{FS: []FS{{root, path, modes}}} }
	tests := []struct {
		name string
		give Caps
		want string // of Detail; "" for valid
	}{
		{"nothing", Caps{}, ""},
		{"everything", Caps{
			FS: []FS{{"w", ".", modes}}, HTTP: []HTTP{okHTTP()}, Exec: []Exec{{Command: "git", Args: []string{"log", "*", "-n*"}}, {Command: "ls"}},
			Secrets: []string{"s"}, Workspace: true, Plan: true, Log: true, PreciseClock: true, Bounds: Bounds{Fuel: 1, Calls: maxBound},
		}, ""},
		{"no root", fs("", "a", "read"), "fs[0].root is not a name"},
		{"root with a slash", fs("w/x", "a", "read"), "fs[0].root is not a name"},
		{"no path", fs("w", "", "read"), "fs[0].path is empty"},
		{"absolute path", fs("w", "/etc", "read"), "fs[0].path is absolute"},
		{"dot segment", fs("w", "a/../b", "read"), "fs[0].path has a dot segment"},
		{"backslash", fs("w", `a\b`, "read"), "fs[0].path has a backslash"},
		{"no modes", fs("w", "a"), "fs[0].modes is empty"},
		{"unknown mode", fs("w", "a", "read", "exec"), "fs[0].modes[1] is not one of read, append, write, list, remove"},
		{"no hosts", withHTTP(func(h *HTTP) { h.Hosts = nil }), "http[1].hosts is empty"},
		{"any host", withHTTP(func(h *HTTP) { h.Hosts = []string{"*"} }), "http[1].hosts[0] needs at least two labels"},
		{"public suffix", withHTTP(func(h *HTTP) { h.Hosts = []string{"a.x.io", "*.co.uk"} }), "http[1].hosts[1] is a wildcard over a public suffix"},
		{"address", withHTTP(func(h *HTTP) { h.Hosts = []string{"10.0.0.1"} }), "http[1].hosts[0] ends in a number"},
		{"no ports", withHTTP(func(h *HTTP) { h.Ports = nil }), "http[1].ports is empty"},
		{"port 0", withHTTP(func(h *HTTP) { h.Ports = []int{0} }), "http[1].ports[0] is not between"},
		{"port 65536", withHTTP(func(h *HTTP) { h.Ports = []int{65536} }), "http[1].ports[0] is not between"},
		{"no methods", withHTTP(func(h *HTTP) { h.Methods = []string{} }), "http[1].methods is empty"},
		{"any method", withHTTP(func(h *HTTP) { h.Methods = []string{"*"} }), "http[1].methods[0] is not an upper-case method"},
		{"lower-case method", withHTTP(func(h *HTTP) { h.Methods = []string{"get"} }), "http[1].methods[0] is not an upper-case method"},
		{"no paths", withHTTP(func(h *HTTP) { h.Paths = nil }), "http[1].paths is empty"},
		{"encoded slash", withHTTP(func(h *HTTP) { h.Paths = []string{"/a%2fb"} }), "http[1].paths[0] has a %"},
		{"ambiguous last slash", withHTTP(func(h *HTTP) { h.Paths = []string{"/a/"} }), "http[1].paths[0] ends in /"},
		{"no networks", withHTTP(func(h *HTTP) { h.Networks = nil }), "http[1].networks is empty"},
		{"any network", withHTTP(func(h *HTTP) { h.Networks = []string{"*"} }), "http[1].networks[0] is not a name"},
		{"secret without a name", withHTTP(func(h *HTTP) { h.Secret = &Secret{As: "bearer"} }), "http[1].secret.name is not a name"},
		{"secret form", withHTTP(func(h *HTTP) { h.Secret = &Secret{"s", "query"} }), "http[1].secret.as is not one of bearer, basic, header"},
		{"no command", Caps{Exec: []Exec{{}}}, "exec[0].command is empty"},
		{"inner star", Caps{Exec: []Exec{{Command: "git", Args: []string{"a*b"}}}}, "exec[0].args[0] has a *"},
		{"argument in another encoding", Caps{Exec: []Exec{{Command: "git", Args: []string{"\xff"}}}}, "exec[0].args[0] is not UTF-8"},
		{"environment and ports", Caps{Exec: []Exec{{Command: "git", Env: []string{"A=", "_b1=x=y\n", "PATH=/bin"}, Ports: []int{1, 65535}}}}, ""},
		{"no value", Caps{Exec: []Exec{{Command: "git", Env: []string{"A=b", "A"}}}}, "exec[0].env[1] is not NAME=value"},
		{"name twice", Caps{Exec: []Exec{{Command: "git", Env: []string{"A=b", "A=c"}}}}, "exec[0].env has a name twice"},
		{"NUL in the environment", Caps{Exec: []Exec{{Command: "git", Env: []string{"A=b\x00"}}}}, "exec[0].env[0] has a NUL"},
		{"name of a loader", Caps{Exec: []Exec{{Command: "git", Env: []string{"LD_PRELOAD=/x.so"}}}}, "exec[0].env[0] has a name by which"},
		{"enforcement", Caps{Exec: []Exec{{Command: "git", Enforcement: "partial"}}}, ""},
		{"enforcement of a command", Caps{Exec: []Exec{{Command: "git", Enforcement: "unavailable"}}}, "exec[0].enforcement is neither"},
		{"port 0 of a command", Caps{Exec: []Exec{{Command: "git", Ports: []int{80, 0}}}}, "exec[0].ports[1] is not between"},
		{"NUL argument", Caps{Exec: []Exec{{Command: "git", Args: []string{"a\x00"}}}}, "exec[0].args[0] has a NUL"},
		{"secret name", Caps{Secrets: []string{"s", "S"}}, "secrets[1] is not a name"},
		{"negative bound", Caps{Bounds: Bounds{TimeoutMS: -1}}, "bounds.timeout_ms is not between"},
		{"large bound", Caps{Bounds: Bounds{Fuel: maxBound + 1}}, "bounds.fuel is not between"},
		{"two faults", Caps{Exec: []Exec{{}}, Secrets: []string{""}}, "exec[0].command is empty; secrets[0] is not a name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.give.Validate()
			_, meetErr := tt.give.Meet(Caps{})
			_, underErr := Caps{}.Meet(tt.give)
			_, joinErr := Join(tt.give)
			if tt.want == "" {
				if err != nil || meetErr != nil || underErr != nil || joinErr != nil {
					t.Fatalf("refused: %v, %v, %v, %v", err, meetErr, underErr, joinErr)
				}
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != CodeCapsInvalid || !strings.HasPrefix(e.Detail, tt.want) {
				t.Fatalf("Validate = %v, want %s: %s", err, CodeCapsInvalid, tt.want)
			}
			if meetErr == nil || underErr == nil || joinErr == nil {
				t.Errorf("the algebra takes it: meet %v and %v, join %v", meetErr, underErr, joinErr)
			}
			if (Caps{}).Covers(tt.give) || tt.give.Covers(Caps{}) {
				t.Error("malformed, yet covers or is covered")
			}
		})
	}
	for _, c := range []Caps{
		{Secrets: many}, {FS: make([]FS, 33)}, {HTTP: make([]HTTP, 33)}, {Exec: make([]Exec, 33)},
		withHTTP(func(h *HTTP) { h.Ports = make([]int, maxCapsValues) }),
		{Exec: []Exec{{Command: "git", Args: make([]string, maxCapsValues+1)}}},
		{Exec: []Exec{{Command: "git", Env: make([]string, maxCapsValues), Ports: make([]int, 1)}}},
		{FS: []FS{{"w", ".", make([]string, maxCapsValues+1)}}},
	} {
		if got := CodeOf(c.Validate(), ""); got != CodeCapsTooMany {
			t.Errorf("too many: %q, want %q", got, CodeCapsTooMany)
		}
	}
	if err := (Caps{Secrets: many[:MaxCapsEntries]}).Validate(); err != nil {
		t.Errorf("32 entries: %v", err)
	}
}

// A Detail goes to the caller, and a policy may build entries from arguments.
func TestCapsDetailQuotesNothing(t *testing.T) {
	const canary = "CANARY*;\x00/"
	c := Caps{
		FS:      []FS{{canary, canary, []string{canary}}},
		HTTP:    []HTTP{{[]string{canary}, []int{-77777}, []string{canary}, []string{canary}, []string{canary}, false, &Secret{canary, canary}}},
		Exec:    []Exec{{canary, []string{canary}, []string{canary + "=" + canary, canary}, []int{-77777}, canary}},
		Secrets: []string{canary},
	}
	for _, c := range []Caps{c, {HTTP: c.HTTP}, {Exec: c.Exec}, {Secrets: c.Secrets}} {
		if err := c.Validate(); err == nil || strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "77777") {
			t.Errorf("Validate = %v", err)
		}
	}
}

// The four cases in which a meet by pairs alone goes wrong.
func TestMeetIdem(t *testing.T) {
	entry := func(hosts string, methods []string, path, secret string) HTTP {
		h := HTTP{Hosts: strings.Fields(hosts), Ports: []int{443}, Methods: methods, Paths: []string{path}, Networks: []string{"public"}}
		if secret != "" {
			h.Secret = &Secret{secret, "bearer"}
		}
		return h
	}
	get, both := []string{"GET"}, []string{"GET", "POST"}
	nested := Caps{FS: []FS{{"w", "a", []string{"read"}}, {"w", "a/b", []string{"read", "write"}}}}
	mixed := Caps{HTTP: []HTTP{entry("a.x.io b.x.io", get, "/", ""), entry("b.x.io", both, "/", "s")}}
	secrets := Caps{HTTP: []HTTP{entry("b.x.io", get, "/", "s1"), entry("b.x.io", both, "/x", "s2"), entry("b.x.io", []string{"POST"}, "/", "s2")}}
	equal := Caps{FS: slices.Repeat([]FS{{"w", ".", []string{"read"}}}, 9)}
	tests := []struct {
		name       string
		give, want Caps
	}{
		{"nested directories", nested, nested},
		{"with and without a secret", mixed, mixed},
		{"different secrets", secrets, secrets},
		{"equal entries", equal, Caps{FS: equal.FS[:1]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.give.Meet(tt.give)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("meet with itself (-want +got):\n%s", d)
			}
		})
	}
	m, err := Caps{HTTP: mixed.HTTP[:1]}.Meet(Caps{HTTP: mixed.HTTP[1:]})
	if err != nil || len(m.HTTP) != 0 {
		t.Errorf("a request without a secret met one with: %+v, %v", m.HTTP, err)
	}
}

func TestMeetTooMany(t *testing.T) {
	var a, b Caps
	for i := range 9 {
		a.Exec = append(a.Exec, Exec{Command: "c", Args: []string{fmt.Sprintf("a%d", i), "*"}})
		b.Exec = append(b.Exec, Exec{Command: "c", Args: []string{"*", fmt.Sprintf("b%d", i)}})
	}
	if _, err := a.Meet(b); CodeOf(err, "") != CodeCapsTooMany {
		t.Errorf("81 entries: %v, want %s", err, CodeCapsTooMany)
	}
	var x, y Caps
	for i := range MaxCapsEntries {
		x.Exec = append(x.Exec, Exec{Command: "c", Args: []string{fmt.Sprintf("a%d", i), "*"}})
		y.Exec = append(y.Exec, Exec{Command: "c", Args: []string{"*", fmt.Sprintf("b%d", i)}})
	}
	if _, err := x.Meet(y); CodeOf(err, "") != CodeCapsTooMany {
		t.Errorf("1,024 entries: %v, want %s", err, CodeCapsTooMany)
	}
	b.Exec = b.Exec[:7]
	m, err := a.Meet(b)
	if err != nil || len(m.Exec) != 63 {
		t.Errorf("63 entries: %d, %v", len(m.Exec), err)
	}
	if _, err := m.Meet(m); err != nil {
		t.Errorf("63 entries do not meet themselves: %v", err)
	}
	if j, err := Join(m, a); err != nil || len(j.Exec) != 9 {
		t.Errorf("join of 63 and the 9 that cover them: %d, %v", len(j.Exec), err)
	}
	for i := range a.Exec {
		a.Exec[i].Command = "d"
	}
	if _, err := Join(m, a); CodeOf(err, "") != CodeCapsTooMany {
		t.Errorf("join of 63 and 9 others: %v, want %s", err, CodeCapsTooMany)
	}
}

func TestCoversGivesUpOnHugeEntries(t *testing.T) {
	h := okHTTP()
	h.Ports = make([]int, 100)
	for i := range h.Ports {
		h.Ports[i] = i + 1
	}
	h.Paths = make([]string, 50)
	for i := range h.Paths {
		h.Paths[i] = fmt.Sprintf("/p%d", i)
	}
	low, high := h, h
	low.Ports, high.Ports = h.Ports[:50], h.Ports[50:]
	if (Caps{HTTP: []HTTP{low, high}}).Covers(Caps{HTTP: []HTTP{h}}) {
		t.Error("covers 5,000 combinations from several entries")
	}
	h.Paths = h.Paths[:40]
	if !(Caps{HTTP: []HTTP{low, high}}).Covers(Caps{HTTP: []HTTP{h}}) {
		t.Error("does not cover 4,000 combinations from two entries")
	}
}

func TestExecPatterns(t *testing.T) {
	tests := []struct {
		pattern, arg string
		want         bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "a", true}, {"a*", "abc", true}, {"a*", "b", false},
		{"*", "a", true}, {"*", "", true}, {"*", "*", true}, {"*", "-x", false}, {"*", "--output=/etc/passwd", false}, {"*", "-", false},
		{"-*", "-x", true}, {"-*", "x", false}, {"--out=*", "--out=a", true}, {"a*", "a*", true}, {"", "", true},
		{"a*b", "a*b", false}, {"**", "*x", false}, // malformed patterns match nothing
	}
	for _, tt := range tests {
		c := Caps{Exec: []Exec{{Command: "git", Args: []string{tt.pattern}}}}
		if got := c.Allows(Op{Kind: OpExec, Command: "git", Argv: []string{tt.arg}}); got != tt.want {
			t.Errorf("%q allows %q: %v, want %v", tt.pattern, tt.arg, got, tt.want)
		}
	}
	c := Caps{Exec: []Exec{{Command: "git"}}}
	if !c.Allows(Op{Kind: OpExec, Command: "git"}) || c.Allows(Op{Kind: OpExec, Command: "git", Argv: []string{""}}) {
		t.Error("no patterns is not no arguments")
	}
}

func TestMalformedEntriesAllowNothing(t *testing.T) {
	op := Op{Kind: OpHTTP, Host: "api.x.io", Port: 443, Method: "GET", Path: "/v1/a", Network: "public"}
	if !(Caps{HTTP: []HTTP{okHTTP()}}).Allows(op) {
		t.Fatal("the request is not allowed to begin with")
	}
	tests := []struct {
		name string
		caps Caps
		op   func(*Op)
	}{
		{"prefix without slash", withOnly(func(h *HTTP) { h.Paths = []string{""} }), nil},
		{"star method", withOnly(func(h *HTTP) { h.Methods = []string{"*"} }), func(o *Op) { o.Method = "*" }},
		{"port 0", withOnly(func(h *HTTP) { h.Ports = []int{0} }), func(o *Op) { o.Port = 0 }},
		{"no network", withOnly(func(h *HTTP) { h.Networks = []string{""} }), func(o *Op) { o.Network = "" }},
		{"empty secret", withOnly(func(h *HTTP) { h.Secret = &Secret{} }), nil},
		{"plain", withOnly(func(*HTTP) {}), func(o *Op) { o.Plain = true }},
		{"secret nobody granted", withOnly(func(*HTTP) {}), func(o *Op) { o.Secret, o.As = "s", "bearer" }},
		{"fs without root", Caps{FS: []FS{{"", ".", modes}}}, func(o *Op) { *o = Op{Kind: OpFS, Path: "a", Mode: "read"} }},
		{"fs mode", Caps{FS: []FS{{"w", ".", []string{""}}}}, func(o *Op) { *o = Op{Kind: OpFS, Root: "w", Path: "a"} }},
		{"fs path", Caps{FS: []FS{{"w", "..", modes}}}, func(o *Op) { *o = Op{Kind: OpFS, Root: "w", Path: "..", Mode: "read"} }},
		{"secret", Caps{Secrets: []string{""}}, func(o *Op) { *o = Op{Kind: OpSecret} }},
		{"unknown kind", Caps{Log: true}, func(o *Op) { *o = Op{Kind: "logs"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			op := op
			if tt.op != nil {
				tt.op(&op)
			}
			if tt.caps.Allows(op) {
				t.Error("allowed")
			}
		})
	}
}

func withOnly(change func(*HTTP)) Caps {
	h := okHTTP()
	change(&h)
	return Caps{HTTP: []HTTP{h}}
}

func TestWithinNamesTheEntry(t *testing.T) {
	c := Caps{FS: []FS{{"w", "a", []string{"read"}}, {"w", "b", []string{"read"}}}, Secrets: []string{"r", "s"}, Log: true, PreciseClock: true}
	for want, op := range map[string]Op{
		"fs[1]":      {Kind: OpFS, Root: "w", Path: "b/c", Mode: "read"},
		"":           {Kind: OpFS, Root: "w", Path: "b/c", Mode: "write"},
		"secrets[1]": {Kind: OpSecret, Secret: "s"},
		"log":        {Kind: OpLog},

		"precise_clock": {Kind: OpPreciseClock},
	} {
		if got := c.Within(op); got != want {
			t.Errorf("Within(%+v) = %q, want %q", op, got, want)
		}
	}
}

func TestBoundsJSON(t *testing.T) {
	tests := []struct {
		give string
		want Bounds
		ok   bool
	}{
		{`{}`, Bounds{}, true},
		{`{"fuel":1,"calls":9007199254740991}`, Bounds{Fuel: 1, Calls: maxBound}, true},
		{`{"fuel":0}`, Bounds{}, false},
		{`{"fuel":-1}`, Bounds{}, false},
		{`{"fuel":-0}`, Bounds{}, false},
		{`{"fuel":1.0}`, Bounds{}, false},
		{`{"fuel":1e3}`, Bounds{}, false},
		{`{"fuel":"1"}`, Bounds{}, false},
		{`{"fuel":null}`, Bounds{}, false},
		{`{"fuel":[1]}`, Bounds{}, false},
		{`{"fuel":9007199254740992}`, Bounds{}, false},
		{`{"fuel":1,"fuel":2}`, Bounds{}, false},
		{`{"Fuel":1}`, Bounds{}, false},
		{`{"fule":1}`, Bounds{}, false},
		{`null`, Bounds{}, false},
		{`[]`, Bounds{}, false},
		{`{"fuel":1`, Bounds{}, false},
		{`{"fuel":`, Bounds{}, false},
		{`{"fuel"`, Bounds{}, false},
		{`{1:1}`, Bounds{}, false},
		{`[`, Bounds{}, false},
	}
	for _, tt := range tests {
		var b Bounds
		err := json.Unmarshal([]byte(tt.give), &b)
		if (err == nil) != tt.ok || (tt.ok && b != tt.want) {
			t.Errorf("%s: %+v, %v", tt.give, b, err)
		}
		var g RuleGrant // bounds within what a policy says
		if err := json.Unmarshal([]byte(`{"id":"r","bounds":`+tt.give+`}`), &g); (err == nil) != tt.ok {
			t.Errorf("grant with bounds %s: %v", tt.give, err)
		}
	}
}

// What bounds leave open, and what they say too much, is the same for everybody.
func TestBoundsDefaults(t *testing.T) {
	const day = 24 * time.Hour
	for ms, want := range map[int64]time.Duration{
		0: 30 * time.Second, -1: 30 * time.Second, 1: time.Millisecond, 60_000: time.Minute,
		86_400_000: day, 86_400_001: day, maxBound: day, math.MaxInt64: day,
	} {
		if got := (Bounds{TimeoutMS: ms}).Timeout(); got != want {
			t.Errorf("timeout_ms %d is %v, want %v", ms, got, want)
		}
	}
	for n, want := range map[int64]int64{0: 1 << 20, -1: 1 << 20, 1: 1, 1 << 30: 1 << 30, math.MaxInt64: math.MaxInt64} {
		if got := (Bounds{OutputBytes: n}).Output(); got != want {
			t.Errorf("output_bytes %d is %d, want %d", n, got, want)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	c := Caps{
		FS: []FS{{"w", "a", []string{"read"}}}, HTTP: []HTTP{okHTTP()},
		Exec: []Exec{{"git", []string{"log"}, []string{"A=1"}, []int{443}, "partial"}}, Secrets: []string{"s"},
	}
	c.HTTP[0].Secret = &Secret{"s", "bearer"}
	for name, copied := range map[string]Caps{"clone": c.Clone(), "normal form": must(t, first(c.Normalise()), nil)} {
		copied.FS[0].Modes[0], copied.HTTP[0].Hosts[0], copied.HTTP[0].Ports[0] = "x", "x", 1
		copied.HTTP[0].Methods[0], copied.HTTP[0].Paths[0], copied.HTTP[0].Networks[0] = "x", "x", "x"
		copied.HTTP[0].Secret.Name, copied.Exec[0].Args[0], copied.Secrets[0] = "x", "x", "x"
		copied.FS[0].Root, copied.Exec[0].Command = "x", "x"
		copied.Exec[0].Env[0], copied.Exec[0].Ports[0] = "B=1", 1
		if err := c.Validate(); err != nil || c.FS[0].Root != "w" || c.Secrets[0] != "s" || c.HTTP[0].Secret.Name != "s" || c.Exec[0].Command != "git" || c.Exec[0].Args[0] != "log" || c.Exec[0].Env[0] != "A=1" || c.Exec[0].Ports[0] != 443 || c.HTTP[0].Ports[0] != 443 {
			t.Errorf("a change of the %s shows: %+v, %v", name, c, err)
		}
	}
}

func first(c Caps, _ error) Caps { return c }
