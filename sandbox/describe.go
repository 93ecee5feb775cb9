package sandbox

import (
	"errors"

	"github.com/callgate/callgate/sandbox/meter"
)

// Description is what a module is, as far as that is known without compiling it.
type Description struct {
	// Kind is command, reactor or component; "" for what is none of them.
	Kind string

	// Initializes tells that a reactor has something to run before its first call.
	Initializes bool

	// Module is what the module imports and exports. Nil when it was refused.
	Module *meter.Module
}

// Describe looks at a module that may be hostile and does not compile it. It takes
// time and memory in proportion to the module.
//
// # Errors
//
// What [Sandbox.Install] would refuse the module for before it compiles, often a
// [*meter.Error]. The description says what is known all the same.
func (s *Sandbox) Describe(module []byte) (Description, error) {
	m, err := meter.Rewrite(module, meter.Limits{})
	if err != nil {
		var d Description
		if e, ok := errors.AsType[*meter.Error](err); ok && e.Reason == meter.Component {
			d.Kind = "component"
		}
		return d, err
	}
	g := &guest{}
	d := Description{Module: m}
	err = errors.Join(g.checkExports(m), s.checkImports(m))
	switch g.entry {
	case entryCommand:
		d.Kind = "command"
	case entryReactor:
		d.Kind, d.Initializes = "reactor", g.init
	}
	return d, err
}
