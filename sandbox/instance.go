package sandbox

import (
	"context"
	"errors"
	"reflect"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/callgate/callgate/sandbox/meter"
)

// instance is a module that one call runs in. Nothing of the call is kept in it
// but what the guest wrote, which reset takes back.
type instance struct {
	guest  *guest
	from   *snapshot // nil: of the module itself
	key    poolKey
	module api.Module
	memory *memory

	fuel     api.Global
	globals  []api.MutableGlobal // all that code can change; none unless it can be reset
	pristine []uint64            // what they were
	size     uint64              // what the memory was, in bytes
	own      int64               // bytes that it holds while it is idle

	// What was called once is called again, for its stack is large. Not after it
	// was left by a panic.
	functions [3]api.Function
}

// Functions of a guest that a run calls, in this order.
const (
	callStart = iota
	callInit
	callEntry
)

// instanceSize is about what an idle instance takes besides what is counted.
const instanceSize = 32 << 10

// memorySize is about what idle memory takes besides what was written to it.
const memorySize = 1 << 10

// keepStack is how many bytes of stack a function may have grown and still be kept.
const keepStack = 64 << 10

// instantiate makes an instance of the guest: of the snapshot, or of its module,
// and then it has yet to be initialised.
func (r *run) instantiate(ctx context.Context, g *guest, from *snapshot) (*instance, error) {
	m := r.memory
	i := &instance{guest: g, from: from, memory: m}
	m.image = g.parts.image
	if from != nil {
		m.image = from.image
	}
	module, err := r.sandbox.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, m), g.compiled, instanceConfig)
	if module != nil {
		i.module = module
	}
	if err != nil {
		return i, err
	}
	i.fuel = module.ExportedGlobal(meter.FuelGlobal)
	for _, name := range g.parts.Globals {
		global, ok := module.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return i, errors.New("a global is not what it was when it was taken apart")
		}
		i.globals = append(i.globals, global)
		if from == nil {
			i.pristine = append(i.pristine, global.Get())
		}
	}
	if from != nil {
		if more := from.size - m.size; more > 0 {
			if _, ok := module.Memory().Grow(uint32(more / meter.PageSize)); !ok {
				return i, errors.New("a snapshot does not fit")
			}
		}
		i.pristine = from.globals
		i.restore()
	}
	i.size = m.size
	return i, nil
}

func (i *instance) restore() {
	for k, g := range i.globals {
		g.Set(i.pristine[k])
	}
}

// call calls one of the guest's functions and returns its result, 0 without one.
func (i *instance) call(ctx context.Context, which int) (uint32, error) {
	f := i.functions[which]
	if f == nil {
		f = i.module.ExportedFunction([...]string{meter.StartFunc, entryInit, i.guest.entry}[which])
	}
	i.functions[which] = nil
	var result [1]uint64
	err := f.CallWithStack(ctx, result[:])
	if err == nil && i.guest.parts.Resets {
		i.functions[which] = f
	}
	return uint32(result[0]), err
}

// initialise does what a guest does before it is called for something.
func (i *instance) initialise(ctx context.Context) error {
	if i.from != nil {
		return nil
	}
	if i.guest.parts.HasStart {
		if _, err := i.call(ctx, callStart); err != nil {
			return err
		}
	}
	if i.guest.init {
		if _, err := i.call(ctx, callInit); err != nil {
			return err
		}
	}
	return nil
}

// reset makes the instance what it was before the call, and reports whether it
// could: not if memory grew, or something changed that cannot be restored.
func (i *instance) reset() bool {
	if !i.guest.parts.Resets || i.memory.size != i.size || i.memory.failed {
		return false
	}
	i.restore()
	i.own = instanceSize + int64(i.memory.reset()+i.guest.parts.Held)
	for k, f := range i.functions {
		stack, known := stackOf(f)
		if !known || stack > keepStack {
			i.functions[k] = nil
		}
		i.own += int64(min(stack, keepStack))
	}
	return true
}

// stackOf is the size of the stack that the engine keeps with a function. The
// engine does not tell; what cannot be found out is not known.
func stackOf(f api.Function) (size int, known bool) {
	if f == nil {
		return 0, true
	}
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return 0, false
	}
	stack := v.Elem().FieldByName("stack")
	if stack.Kind() != reflect.Slice {
		return 0, false
	}
	return stack.Cap(), true
}

// close frees the instance, and its memory with it unless that is held.
func (i *instance) close(ctx context.Context) {
	if i.module != nil {
		_ = i.module.Close(ctx)
	}
	if i.memory != nil {
		i.memory.Free() // the engine does not if the instance never came to be
	}
}

// bare ends the instance and gives what is left of it: memory that is as new, for
// the next instance of the guest.
func (i *instance) bare(ctx context.Context) *instance {
	m := i.memory
	m.held = true
	i.close(ctx)
	b := &instance{guest: i.guest, from: i.from, key: i.key, memory: m, own: memorySize + int64(m.empty())}
	b.key.bare = true
	m.held = false
	return b
}
