package local

// Polled is c with polls made by hand: whoever sends a channel makes a poll, which
// closes it when it is over.
func Polled(c Config) (Config, chan<- chan struct{}) {
	polls := make(chan chan struct{})
	c.polls = polls
	return c, polls
}
