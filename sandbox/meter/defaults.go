package meter

// DefaultLimits are the limits that hold where nobody says anything else.
func DefaultLimits() Limits { return Limits{}.withDefaults() }
