//go:build !linux

package drain

import "net"

// unlist is for systems that can; see Linux'.
func unlist(net.Listener) {}
