package local

// Waiting is how many clients wait for approvals.
func (e *Engine) Waiting() int { return len(e.server.waits) }

// Drain does what Close does first.
func (e *Engine) Drain() { e.server.drain() }
