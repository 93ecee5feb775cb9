package hostfx

import "net"

// SetResolver makes h resolve names with r.
func SetResolver(h *Host, r *net.Resolver) { h.resolver = r }

// Reaches asks what the dialer's Control asks.
func Reaches(h *Host, networks []string, plain bool, network, address string) bool {
	return h.reaches(networks, plain, network, address)
}
