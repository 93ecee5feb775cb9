package call

import "slices"

// Caps are capabilities: what one call may do. The zero value is nothing at
// all. An absent list grants nothing; nothing inside an entry has a hidden
// default, so an entry without ports reaches no port.
type Caps struct {
	FS        []FS     `json:"fs,omitzero"`
	HTTP      []HTTP   `json:"http,omitzero"`
	Exec      []Exec   `json:"exec,omitzero"`
	Secrets   []string `json:"secrets,omitzero"` // names that the tool itself may read
	Workspace bool     `json:"workspace,omitzero"`
	Plan      bool     `json:"plan,omitzero"`
	Log       bool     `json:"log,omitzero"`

	// PreciseClock gives clocks, and the times of files, a precision finer than
	// 1 ms to a guest.
	PreciseClock bool `json:"precise_clock,omitzero"`

	Bounds Bounds `json:"bounds,omitzero"`
}

// FS gives access to the directory Path below a root that the operator named.
type FS struct {
	Root  string   `json:"root"`
	Path  string   `json:"path"`  // slash-separated, "." for the root itself
	Modes []string `json:"modes"` // read, append, write, list, remove; none implies another
}

// HTTP gives requests to any of Hosts on any of Ports with any of Methods
// below any of Paths, to addresses in any of Networks. The scheme is https.
type HTTP struct {
	Hosts    []string `json:"hosts"` // exact, or "*.x.y" for exactly one label
	Ports    []int    `json:"ports"`
	Methods  []string `json:"methods"`
	Paths    []string `json:"paths"`          // prefixes, decoded and by whole segments; "/" for all
	Networks []string `json:"networks"`       // "public" or ranges the operator named
	Plain    bool     `json:"plain,omitzero"` // http as well, to loopback only
	Secret   *Secret  `json:"secret,omitzero"`
}

// Secret names the credential that a request under this entry carries. The entry
// is for requests that name it and for no others.
type Secret struct {
	Name string `json:"name"`
	As   string `json:"as"` // bearer, basic or header
}

// Exec gives runs of one command with arguments that match Args, one pattern for
// each: "abc" that argument, "abc*" any that begins so, "*" any that does not
// begin with a hyphen. No Args is no arguments. A run may have any of Env in its
// environment, and connect to any of Ports; both are the grant's words, and recorded
// with it, so a value is no place for a credential.
type Exec struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []string `json:"env,omitzero"`   // NAME=value, taken as a whole
	Ports   []int    `json:"ports,omitzero"` // of TCP, whatever the address

	// Enforcement is the least that the kernel must do to confine a run: enforced or
	// partial, as records have it. Zero means what the operator demands.
	Enforcement string `json:"enforcement,omitzero"`
}

// Bounds are the most that one call may use. Zero means no opinion; a bound
// that is stated is at least 1.
type Bounds struct {
	MemoryBytes int64 `json:"memory_bytes,omitzero"`
	Fuel        int64 `json:"fuel,omitzero"`
	TimeoutMS   int64 `json:"timeout_ms,omitzero"`
	OutputBytes int64 `json:"output_bytes,omitzero"`
	OpenFiles   int64 `json:"open_files,omitzero"`
	WriteBytes  int64 `json:"write_bytes,omitzero"`
	LogBytes    int64 `json:"log_bytes,omitzero"`
	HTTPBytes   int64 `json:"http_bytes,omitzero"`
	Calls       int64 `json:"calls,omitzero"`
}

// Clone returns a copy that shares nothing with c.
func (c Caps) Clone() Caps {
	c.FS = slices.Clone(c.FS)
	for i := range c.FS {
		c.FS[i].Modes = slices.Clone(c.FS[i].Modes)
	}
	c.HTTP = slices.Clone(c.HTTP)
	for i := range c.HTTP {
		h := &c.HTTP[i]
		h.Hosts, h.Ports, h.Methods = slices.Clone(h.Hosts), slices.Clone(h.Ports), slices.Clone(h.Methods)
		h.Paths, h.Networks = slices.Clone(h.Paths), slices.Clone(h.Networks)
		if h.Secret != nil {
			s := *h.Secret
			h.Secret = &s
		}
	}
	c.Exec = slices.Clone(c.Exec)
	for i := range c.Exec {
		e := &c.Exec[i]
		e.Args, e.Env, e.Ports = slices.Clone(e.Args), slices.Clone(e.Env), slices.Clone(e.Ports)
	}
	c.Secrets = slices.Clone(c.Secrets)
	return c
}
