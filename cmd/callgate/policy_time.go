package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// decideTimeout is the engine's default.
const decideTimeout = 50 * time.Millisecond

// decideTimeoutOf is the time that the engine would give a policy: without a
// configuration what the flag or the environment says.
func decideTimeoutOf(cmd *cobra.Command, conf *Config) (time.Duration, error) {
	if conf != nil {
		if conf.DecideTimeout > 0 {
			return conf.DecideTimeout, nil
		}
		return decideTimeout, nil
	}
	flag := cmd.Flags().Lookup("decide-timeout")
	if flag == nil {
		return decideTimeout, nil // nothing is decided
	}
	text := flag.Value.String()
	if text == "" {
		text = os.Getenv("CALLGATE_DECIDE_TIMEOUT")
	}
	if text == "" {
		return decideTimeout, nil
	}
	most, err := time.ParseDuration(text)
	if err != nil || most < 0 {
		return 0, errors.New("--decide-timeout: want a time such as 50ms")
	}
	if most == 0 {
		most = decideTimeout
	}
	return most, nil
}

// timed answers as the engine does: in time, or not.
type timed struct {
	policy rego.Decider
	most   time.Duration
}

func (t timed) Decide(ctx context.Context, in *call.Input) (call.Decision, error) {
	d, err := within(ctx, t.most, func(ctx context.Context) (call.Decision, error) { return t.policy.Decide(ctx, in) })
	return d, err
}

// within gives f that long. An answer that is late says how late it may be.
func within[T any](ctx context.Context, most time.Duration, f func(context.Context) (T, error)) (T, error) {
	timed, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	out, err := f(timed)
	if e, ok := errors.AsType[*call.Error](err); ok && e.Code == call.CodePolicyTimeout && ctx.Err() == nil {
		late := *e
		late.Detail = fmt.Sprintf("no answer within %v, the decide_timeout of the engine; --decide-timeout gives more", most)
		if e.Detail != "" {
			late.Detail = e.Detail + ": " + late.Detail
		}
		return out, &late
	}
	return out, err
}

// explainTime is what an explanation has, which watches every step of a decision.
func explainTime(most time.Duration) time.Duration { return max(100*most, 30*time.Second) }
