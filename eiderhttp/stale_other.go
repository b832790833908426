//go:build !linux

package eiderhttp

import "net"

// staleness isn't looked at here: net/http's own reading notices, a little later.
type staleness struct{}

func (*staleness) watch(net.Conn)  {}
func (*staleness) stale(bool) bool { return false }
