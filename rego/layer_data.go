package rego

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/storage"
)

const (
	// maxRetyped is how many places are told at once.
	maxRetyped = 8
	// maxGone is how many places are remembered that a policy's data no longer has.
	maxGone = 1 << 14
	// maxDeep is how many levels of data are compared.
	maxDeep = 100
)

// Retyped says where the data of next has values of another type than those of p in
// the same places, if the rules are the same: rules compare values of any types,
// and find every number less than any text, so a limit that turns into text holds
// for nothing. Whoever means it changes the rules with the data.
//
// Of a list, all elements are one place, and so is each key that any of them has.
// Below the top, a key that is new is compared with the others of its object, if
// those are three or more of one plain type: such an object may be a map from names
// to limits. What is
// gone has not changed its type, but next remembers it, so that it does not come
// back as another: ask before next decides. It forgets what is more than 16,384
// places, and a restart forgets all of it.
//
// The error has [Places], of which there are at most 8. Data that is nested more than
// 100 deep is not compared, and refused.
func (p *Policy) Retyped(ctx context.Context, next *Policy) error {
	if p.modules != next.modules {
		return nil
	}
	before := p.places.Load()
	if before == nil {
		var err error
		if before, err = p.dataPlaces(ctx); err != nil {
			return err
		}
	}
	after, err := next.dataPlaces(ctx)
	if err != nil {
		return err
	}
	c := comparison{siblings: map[*places]*places{}}
	// Rules name what is at the top one by one.
	c.inside("data", before, after, true)
	if len(c.errs) > 0 {
		return errors.Join(c.errs...)
	}
	left := maxGone
	after.remember(before, &left)
	next.places.Store(after)
	return nil
}

// dataPlaces are those of the data alone.
func (p *Policy) dataPlaces(ctx context.Context) (*places, error) {
	v, err := p.store.Read(ctx, p.txn, storage.Path{})
	if err != nil {
		return nil, err
	}
	value, ok := v.(ast.Value)
	if !ok {
		return nil, fmt.Errorf("rego: data of type %T", v)
	}
	s := &places{}
	if !s.add(value, maxDeep) {
		return nil, &fault{"data", fmt.Errorf("is nested more than %d deep, and not compared; if that is meant, change the rules with it", maxDeep)}
	}
	return s, nil
}

// comparison is that of all places of two policies.
type comparison struct {
	errs     []error
	siblings map[*places]*places // all values of an object in one; kept, so that many new keys cost no more than few
}

// inside compares the keys of two objects.
func (c *comparison) inside(at string, before, after *places, top bool) {
	for _, k := range slices.Sorted(maps.Keys(after.keys)) {
		b := before.keys[k]
		if b == nil && !top {
			b = c.alike(before, after.keys[k].types)
		}
		if b != nil {
			c.compare(at+"/"+k, b, after.keys[k])
		}
	}
}

func (c *comparison) compare(at string, before, after *places) {
	for _, t := range (after.types &^ before.types).each() {
		if len(c.errs) >= maxRetyped {
			return
		}
		c.errs = append(c.errs, &fault{at, fmt.Errorf("is of type %s and was of type %s; if that is meant, change the rules with it", t, before.types)})
	}
	if before.elements != nil && after.elements != nil {
		c.compare(at+"[]", before.elements, after.elements)
	}
	c.inside(at, before, after, false)
}

// fewAlike is how many values of one plain type make an object look like a map from
// names to values rather than one with fields.
const fewAlike = 3

// alike is all values of an object in one, or nil unless it looks like a map. A new
// key of an object of objects is compared only if it is an object as well: a field may
// be added to one whose other fields are objects by chance.
func (c *comparison) alike(object *places, added kinds) *places {
	s, known := c.siblings[object]
	if !known {
		s = together(object)
		c.siblings[object] = s
	}
	if s != nil && s.types&compound != 0 && s.types != added {
		return nil
	}
	return s
}

// together is what alike keeps.
func together(object *places) (s *places) {
	var all kinds
	for _, v := range object.keys {
		all |= v.types
	}
	if len(all.each()) == 1 && (all&compound != 0 || len(object.keys) >= fewAlike) {
		s = &places{}
		for _, v := range object.keys {
			s.join(v)
		}
	}
	return s
}

// places are what types stand in a place, and in the places in it.
type places struct {
	types    kinds
	keys     map[string]*places
	elements *places // of all lists that stand here; nil: none has any
}

// add takes in a value. It reports whether that is no deeper than it may be.
func (s *places) add(v ast.Value, deep int) bool {
	if deep == 0 {
		return false
	}
	s.types |= typeOf(v)
	ok := true
	switch v := v.(type) {
	case ast.Object:
		v.Foreach(func(k, v *ast.Term) { ok = ok && s.key(keyText(k)).add(v.Value, deep-1) })
	case *ast.Array:
		v.Foreach(func(t *ast.Term) { ok = ok && s.element().add(t.Value, deep-1) })
	}
	return ok
}

func (s *places) key(k string) *places {
	if s.keys == nil {
		s.keys = map[string]*places{}
	}
	if s.keys[k] == nil {
		s.keys[k] = &places{}
	}
	return s.keys[k]
}

func (s *places) element() *places {
	if s.elements == nil {
		s.elements = &places{}
	}
	return s.elements
}

// join takes in a copy of others.
func (s *places) join(o *places) {
	s.types |= o.types
	for k, v := range o.keys {
		s.key(k).join(v)
	}
	if o.elements != nil {
		s.element().join(o.elements)
	}
}

// remember takes in what was there earlier and is gone, while there is room left.
func (s *places) remember(o *places, left *int) {
	for _, k := range slices.Sorted(maps.Keys(o.keys)) {
		if v := s.keys[k]; v != nil {
			v.remember(o.keys[k], left)
		} else if o.keys[k].fits(left) {
			s.key(k).join(o.keys[k])
		}
	}
	switch {
	case o.elements == nil:
	case s.elements != nil:
		s.elements.remember(o.elements, left)
	case o.elements.fits(left):
		s.element().join(o.elements)
	}
}

// fits takes the number of places off what is left, and reports whether it was there.
func (s *places) fits(left *int) bool {
	if *left--; *left < 0 {
		*left = 0
		return false
	}
	for _, v := range s.keys {
		if !v.fits(left) {
			return false
		}
	}
	return s.elements == nil || s.elements.fits(left)
}

// kinds is a set of types.
type kinds uint8

// compound are the types of arrays and objects.
const compound kinds = 1<<0 | 1<<4

var kindNames = []string{"array", "boolean", "null", "number", "object", "string"}

func typeOf(v ast.Value) kinds {
	return 1 << max(slices.Index(kindNames, ast.ValueName(v)), 0)
}

func (k kinds) each() (names []string) {
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (k kinds) String() string { return strings.Join(k.each(), " or ") }

func keyText(t *ast.Term) string {
	if s, ok := t.Value.(ast.String); ok {
		return string(s)
	}
	return t.String()
}

// modulesDigest names the rules without the data.
func modulesDigest(b *bundle.Bundle) (string, error) {
	return digest(&bundle.Bundle{Modules: b.Modules, Data: map[string]any{}})
}
