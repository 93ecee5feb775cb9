package engine

import (
	"context"

	"github.com/callgate/callgate/engine/call"
)

// look takes the digests of the files that the call depends on. Policy has said by
// then what the call may read; nothing is taken from the state yet, so a call that
// cannot be looked at consumes nothing.
func (p *passage) look(ctx context.Context) error {
	for i, d := range p.depends {
		if d.File == "" {
			continue
		}
		digest, err := p.e.o.Host.Content(ctx, p.caps, d.File)
		if err != nil {
			if call.CodeOf(err, "") == "" {
				err = &call.Error{Code: call.CodePreconditionUnavailable, Err: err}
			}
			return err
		}
		p.depends[i].Digest = digest
	}
	return nil
}

// found reports whether another engine found all that the call depends on, and
// nothing else.
func found(wanted, by []call.Precondition) bool {
	if len(wanted) != len(by) {
		return false
	}
	for i, w := range wanted {
		if by[i].File != w.File || by[i].ETag != w.ETag || (by[i].Digest == "") != (w.File == "") {
			return false
		}
	}
	return true
}

// recordDepends is what the record says of what the call depends on.
func (p *passage) recordDepends() ([]string, error) {
	var out []string
	for _, d := range p.depends {
		digest, err := p.keyedHere("precondition", []byte(d.Digest+d.ETag))
		if err != nil {
			return nil, err
		}
		out = append(out, digest)
	}
	return out, nil
}
