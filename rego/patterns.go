package rego

import (
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown/cache"
)

// The most memory that the compiled patterns of one policy may take, and one of
// them, in bytes and as [patternSize] counts.
const (
	maxPatterns = 16 << 20
	maxPattern  = 1 << 20
)

// patterns keeps the compiled patterns of regex.match, glob.match and their like from
// one decision to the next. OPA itself keeps a hundred for the whole process, whatever
// their size: an argument of 21 kB can make one of 136 MB, which would stay for good.
type patterns struct {
	mu   sync.RWMutex
	all  map[string]any // by pattern, or by glob and its delimiters
	size int
}

var _ cache.InterQueryValueCache = (*patterns)(nil)

func newPatterns() *patterns { return &patterns{all: map[string]any{}} }

// Get implements [cache.InterQueryValueCacheBucket].
func (p *patterns) Get(key ast.Value) (any, bool) {
	s, ok := key.(ast.String)
	if !ok {
		return nil, false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	v, ok := p.all[string(s)]
	return v, ok
}

// Insert implements [cache.InterQueryValueCacheBucket]. What is too large is not kept,
// and for what is kept others have to go. It returns how many did.
func (p *patterns) Insert(key ast.Value, v any) (gone int) {
	s, ok := key.(ast.String)
	if !ok {
		return 0
	}
	size := patternSize(string(s), v)
	if size > maxPattern {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.all[string(s)]; known {
		return 0
	}
	for other, w := range p.all {
		if p.size+size <= maxPatterns {
			break
		}
		delete(p.all, other)
		p.size -= patternSize(other, w)
		gone++
	}
	p.all[string(s)] = v
	p.size += size
	return gone
}

// Delete implements [cache.InterQueryValueCacheBucket].
func (p *patterns) Delete(key ast.Value) {
	s, ok := key.(ast.String)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, known := p.all[string(s)]; known {
		delete(p.all, string(s))
		p.size -= patternSize(string(s), v)
	}
}

// GetCache implements [cache.InterQueryValueCache]: nothing but patterns is kept.
func (p *patterns) GetCache(string) cache.InterQueryValueCacheBucket { return nil }

// UpdateConfig implements [cache.InterQueryValueCache].
func (p *patterns) UpdateConfig(*cache.Config) {}

// patternSize is about as many bytes as a compiled pattern takes, and rather more.
func patternSize(key string, v any) int {
	const each = 64 // of an instruction, and of a character of a glob
	n := 256 + each*len(key)
	if _, ok := v.(*regexp.Regexp); !ok || n > maxPattern {
		return n
	}
	re, err := syntax.Parse(key, syntax.Perl)
	if err != nil {
		return maxPattern + 1 // it was compiled, so this cannot be
	}
	return n + programSize(re, each)
}

// programSize follows repetitions, which are written in few characters. Package syntax
// bounds how deep expressions are, and what repetitions come to.
func programSize(re *syntax.Regexp, each int) int {
	n := each + each*len(re.Rune)
	for _, sub := range re.Sub {
		n += programSize(sub, each)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
