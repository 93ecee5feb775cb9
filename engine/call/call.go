// Package call holds the nouns of Callgate: what is asked, what is decided,
// what a tool may do, and what the log keeps of it.
//
// It imports nothing else of ours, so every other package can speak in its
// words. Behaviour here is limited to the nouns' own algebra: arguments have one
// canonical form ([Canonical]), capabilities have a meet ([Caps.Meet]), errors
// have a [Code].
//
// The zero value of every type here permits nothing.
package call

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Call is what a caller asks for. Who asks comes from the ingress that
// authenticated them and is never decoded from the body.
type Call struct {
	Principal Principal `json:"-"`

	// Session is the id that Engine.OpenSession gave for this principal; "" for the
	// one that all calls of the principal through this Client share. Client is what
	// the ingress knows of the program that calls; "" is a client too.
	Session string `json:"-"`
	Client  string `json:"-"`

	Tool     string         `json:"tool"`
	Args     jsontext.Value `json:"args"`     // as received; empty means {}. The engine makes them canonical
	Asserted jsontext.Value `json:"asserted"` // the caller's own word; empty means {}
}

// Principal is who asks. The zero value is nobody and is refused.
type Principal struct {
	ID     string                    `json:"id"`
	Kind   string                    `json:"kind"` // agent, user or service
	Roles  []string                  `json:"roles"`
	Tenant string                    `json:"tenant"`
	Claims map[string]jsontext.Value `json:"claims"`
	Auth   Auth                      `json:"auth"`

	// OnBehalfOf is the chain this principal acts for, nearest first, each
	// without a chain of its own. Policy is asked once for each of them and all
	// must allow.
	OnBehalfOf []Principal `json:"-"`
}

// Auth says how the ingress knows who the principal is.
type Auth struct {
	Method string `json:"method"` // jwt, mtls, uid, token or asserted
	Issuer string `json:"issuer"`
}

// Input is what policy sees: everything a decision may depend on, and nothing
// else. The engine fills every field, so a valid input has no absent ones. Its
// JSON Schema is rego/schema/input.json.
type Input struct {
	Tool      Tool      `json:"tool"`
	Args      Args      `json:"args"`
	Principal Principal `json:"principal"`
	Session   Session   `json:"session"`
	Facts     Facts     `json:"facts"`
	Env       Env       `json:"env"`
	Asserted  Asserted  `json:"asserted"`
}

// Tool is what policy sees of the tool that is called.
type Tool struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`  // wasm, component, host, mcp or external
	Class       string   `json:"class"` // read, write, destructive or unclassified
	Sensitivity []string `json:"sensitivity"`
	Digest      string   `json:"digest"` // sha256:<hex> over the tool's descriptor and code
	Server      string   `json:"server"`
	Tags        []string `json:"tags"`
	Findings    []string `json:"findings"`
}

// Session is what the engine remembers between calls of one principal.
type Session struct {
	ID     string   `json:"id"`
	Run    string   `json:"run"`
	Labels []string `json:"labels"` // sorted, without repeats
	Plan   Plan     `json:"plan"`   // what the tools of this session say will be done
	Calls  int64    `json:"calls"`  // advisory; count with limits
}

// Facts are what the engine derived from the arguments. A family that the
// tool's manifest does not declare is absent, never empty.
type Facts struct {
	URLs     []URL     `json:"urls,omitzero"`
	Paths    []Path    `json:"paths,omitzero"`
	Commands []Command `json:"commands,omitzero"`
}

// URL is one URL among the arguments, in canonical form.
type URL struct {
	Scheme   string   `json:"scheme"`
	Host     string   `json:"host"`
	Wildcard string   `json:"wildcard"` // "*.x.y" for a.x.y, "" where none may match
	Port     int      `json:"port"`
	Path     string   `json:"path"`
	Segments []string `json:"segments"`
	Query    string   `json:"query"`
	Method   string   `json:"method"`
}

// Path is one file path among the arguments, in canonical form.
type Path struct {
	Root     string   `json:"root"`
	Path     string   `json:"path"`
	Segments []string `json:"segments"`
	Mode     string   `json:"mode"`
}

// Command is one command that the arguments would run.
type Command struct {
	Name   string   `json:"name"`
	Argv   []string `json:"argv"`
	Via    []string `json:"via"`
	Reads  []string `json:"reads"`
	Writes []string `json:"writes"`
	Opaque bool     `json:"opaque"`
}

// Env is the world as far as policy may know it.
type Env struct {
	NowNS int64  `json:"now_ns"` // Unix time in nanoseconds, pinned for the decision
	Node  string `json:"node"`
}

// Asserted is the caller's word, nothing more.
type Asserted struct {
	Justification string                    `json:"justification"`
	Context       map[string]jsontext.Value `json:"context"`
}

// Effect is one thing a tool did, or tried to do, through the host.
type Effect struct {
	Kind    string `json:"kind"`             // fs.read, http.get, log, ...; "" of an entry with the code more
	Within  string `json:"within"`           // what of the grant it fell under, "" for nothing
	Target  string `json:"target"`           // for the caller; see RecordEffect for what records hold of it
	Address string `json:"address,omitzero"` // of requests: ip:port that was dialled, "" if nothing was
	Code    string `json:"code"`             // ok, refused, not_found, over_cap, redirect, no_answer, withheld, changed, stopped, error, or more for those not listed

	BytesIn  int64 `json:"bytes_in,omitzero"`  // that came to the tool: read, answered, printed by a command
	BytesOut int64 `json:"bytes_out,omitzero"` // that the tool sent: written, body of a request, stdin, logged
	TookUS   int64 `json:"took_us,omitzero"`   // microseconds; of a file, that it was open
	Count    int64 `json:"count,omitzero"`     // lines of a log; effects that an entry with the code more stands for

	// Enforcement is what held the effect to its grant: structural for the host, which
	// did or refused it itself; of commands that began, how far the kernel did:
	// enforced, partial or unavailable. "" of an entry with the code more.
	Enforcement string `json:"enforcement,omitzero"`
}

// MarshalJSONTo writes a target that is not UTF-8, as names of files need not be, with
// U+FFFD for what is not.
func (e Effect) MarshalJSONTo(enc *jsontext.Encoder) error {
	type plain Effect
	e.Target = strings.ToValidUTF8(e.Target, "\uFFFD")
	return json.MarshalEncode(enc, plain(e))
}

// Status says how a run ended. The zero value is no known end.
type Status string

// The ways a run can end.
const (
	Unfinished Status = ""            // nothing is known about the end
	NotStarted Status = "not_started" // the tool never ran
	Succeeded  Status = "succeeded"
	Failed     Status = "failed" // ran, and failed or hit a bound
)

// Outcome is how a run ended and what it did on the way.
type Outcome struct {
	Status  Status   `json:"status"`
	Code    Code     `json:"code"`
	Exit    uint32   `json:"exit,omitzero"` // the guest's own exit code
	Effects []Effect `json:"effects"`

	// Reported says that the caller ran the tool: all of this is its word.
	Reported bool `json:"reported,omitzero"`

	Fuel          int64         `json:"fuel,omitzero"`           // units burnt by a guest
	MemoryBytes   int64         `json:"memory_bytes,omitzero"`   // most that a guest held
	MemoryRefused bool          `json:"memory_refused,omitzero"` // a guest asked for more than its grant
	Took          time.Duration `json:"-"`                       // the json package has no form for durations

	Charges []Charged `json:"charges,omitzero"` // of limits that learn only afterwards what a run used

	// Stderr is what the tool logged, capped. It may hold anything the tool
	// saw, so it goes to the caller on request and never into a record.
	Stderr []byte `json:"-"`
}
