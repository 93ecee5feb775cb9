package call

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

type bound struct {
	name  string
	value *int64
}

func (b *Bounds) all() [9]bound {
	return [...]bound{
		{"memory_bytes", &b.MemoryBytes},
		{"fuel", &b.Fuel},
		{"timeout_ms", &b.TimeoutMS},
		{"output_bytes", &b.OutputBytes},
		{"open_files", &b.OpenFiles},
		{"write_bytes", &b.WriteBytes},
		{"log_bytes", &b.LogBytes},
		{"http_bytes", &b.HTTPBytes},
		{"calls", &b.Calls},
	}
}

// Timeout is how long a run may take: what the bounds say, at most a day, and 30
// seconds when they say nothing.
func (b Bounds) Timeout() time.Duration {
	if b.TimeoutMS <= 0 {
		return 30 * time.Second
	}
	return time.Duration(min(b.TimeoutMS, 24*60*60*1000)) * time.Millisecond
}

// Output is how many bytes a tool may return: what the bounds say, and 1 MiB when
// they say nothing.
func (b Bounds) Output() int64 {
	if b.OutputBytes <= 0 {
		return 1 << 20
	}
	return b.OutputBytes
}

// HTTP is how many bytes of bodies a tool may send over HTTP, and how many it may
// receive: what the bounds say, and 2,000,000 when they say nothing.
func (b Bounds) HTTP() int64 {
	if b.HTTPBytes <= 0 {
		return 2_000_000
	}
	return b.HTTPBytes
}

// UnmarshalJSONFrom reads bounds. Unknown members are refused whatever the
// decoder's options, and so is a bound that is not a whole number from 1 to
// 2^53-1: an explicit 0 means "none at all" to whoever wrote it and must not turn
// into "no opinion".
func (b *Bounds) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if k := d.PeekKind(); k != '{' {
		if _, err := d.ReadValue(); err != nil {
			return err
		}
		return fmt.Errorf("bounds is not an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	*b = Bounds{}
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := b.set(name, v); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (b *Bounds) set(name string, v jsontext.Value) error {
	for _, f := range b.all() {
		if f.name != name {
			continue
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n < 1 || n > maxBound {
			return fmt.Errorf("bounds.%s is not a whole number from 1 to 2^53-1", name)
		}
		*f.value = n
		return nil
	}
	return fmt.Errorf("bounds has an unknown member %q", name)
}

// merge gives each bound the better of two opinions; no opinion loses to any.
func (b Bounds) merge(o Bounds, better func(x, y int64) int64) Bounds {
	from := o.all()
	for i, f := range b.all() {
		switch x, y := *f.value, *from[i].value; {
		case x == 0:
			*f.value = y
		case y != 0:
			*f.value = better(x, y)
		}
	}
	return b
}

// covers reports whether o states every bound that b states, none larger.
func (b Bounds) covers(o Bounds) bool {
	from := o.all()
	for i, f := range b.all() {
		if x, y := *f.value, *from[i].value; x != 0 && (y == 0 || y > x) {
			return false
		}
	}
	return true
}
