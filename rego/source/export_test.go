package source

import (
	"net/http"
	"net/url"
	"time"
)

// Pause is the time to the next poll.
func (f *Follower) Pause() time.Duration { return f.pause() }

// Refused is what is said of an error of a request.
func (a Access) Refused(err error) error { return bare(a.refused(err)) }

// NotThroughTLS is how a proxy is chosen where there is a client certificate.
func NotThroughTLS(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return notThroughTLS(proxy)
}
