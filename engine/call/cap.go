package call

// Cap is the most that somebody lets a call have. A family that is nil is no
// opinion; an empty list and a false are none. The zero value narrows nothing.
type Cap struct {
	FS           []FS     `json:"fs,omitzero"`
	HTTP         []HTTP   `json:"http,omitzero"`
	Exec         []Exec   `json:"exec,omitzero"`
	Secrets      []string `json:"secrets,omitzero"`
	Workspace    *bool    `json:"workspace,omitzero"`
	Plan         *bool    `json:"plan,omitzero"`
	Log          *bool    `json:"log,omitzero"`
	PreciseClock *bool    `json:"precise_clock,omitzero"`
	Bounds       Bounds   `json:"bounds,omitzero"` // one that is not stated is no opinion
}

// Validate checks what c states, as [Caps.Validate] does.
func (c Cap) Validate() error { return c.over(Caps{}).Validate() }

// Meet returns the cap of both: what it leaves of any capabilities is what c leaves
// of what o leaves of them. It has an opinion on each family that one of them has
// one on, and is commutative, associative and, up to [Caps.Normalise], idempotent.
//
// # Errors
//
// As [Caps.Meet].
func (c Cap) Meet(o Cap) (Cap, error) {
	// A family that only one side states meets itself.
	met, err := c.over(o.over(Caps{})).Meet(o.over(c.over(Caps{})))
	if err != nil {
		return Cap{}, err
	}
	return Cap{
		FS:           stated(met.FS, c.FS, o.FS),
		HTTP:         stated(met.HTTP, c.HTTP, o.HTTP),
		Exec:         stated(met.Exec, c.Exec, o.Exec),
		Secrets:      stated(met.Secrets, c.Secrets, o.Secrets),
		Workspace:    statedFlag(met.Workspace, c.Workspace, o.Workspace),
		Plan:         statedFlag(met.Plan, c.Plan, o.Plan),
		Log:          statedFlag(met.Log, c.Log, o.Log),
		PreciseClock: statedFlag(met.PreciseClock, c.PreciseClock, o.PreciseClock),
		Bounds:       met.Bounds,
	}, nil
}

// Capped returns what of c the cap leaves. It never allows more than c does.
//
// # Errors
//
// As [Caps.Meet].
func (c Caps) Capped(by Cap) (Caps, error) { return c.Meet(by.over(c)) }

// over is c where it states something, and o where it does not.
func (c Cap) over(o Caps) Caps {
	if c.FS != nil {
		o.FS = c.FS
	}
	if c.HTTP != nil {
		o.HTTP = c.HTTP
	}
	if c.Exec != nil {
		o.Exec = c.Exec
	}
	if c.Secrets != nil {
		o.Secrets = c.Secrets
	}
	for _, f := range []struct {
		to   *bool
		from *bool
	}{{&o.Workspace, c.Workspace}, {&o.Plan, c.Plan}, {&o.Log, c.Log}, {&o.PreciseClock, c.PreciseClock}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	o.Bounds = c.Bounds
	return o
}

// stated keeps an empty list from turning into no opinion.
func stated[T any](met, a, b []T) []T {
	switch {
	case a == nil && b == nil:
		return nil
	case met == nil:
		return []T{}
	}
	return met
}

func statedFlag(met bool, a, b *bool) *bool {
	if a == nil && b == nil {
		return nil
	}
	return &met
}
