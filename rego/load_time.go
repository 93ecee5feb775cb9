package rego

import (
	"context"
	"fmt"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// loadTimeout is for all that is done with a bundle before it decides.
const loadTimeout = 30 * time.Second

// loading does f, which reads, parses, compiles or checks a bundle, and gives it up when
// its time is over: neither OPA's parser nor its compiler can be told to stop.
func loading[T any](ctx context.Context, most time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if most <= 0 {
		most = loadTimeout
	}
	timed, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	out, err := run(timed, &givenUp{}, func() (T, error) { return f(timed) }, func() {})
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil, timed.Err() == nil:
		return none, err
	}
	return none, &call.Error{
		Code: call.CodePolicyTimeout, Detail: fmt.Sprintf("the bundle is not read, compiled and checked within %v", most), Err: err,
	}
}
