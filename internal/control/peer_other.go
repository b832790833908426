//go:build !linux

package control

import (
	"fmt"
	"net"
	"runtime"
)

// supported tells whether there are abstract sockets.
func supported() error {
	return fmt.Errorf("control: there are no abstract sockets on %s, Linux alone has them; use the hook, GET /leave, or a signal", runtime.GOOS)
}

// peer isn't known here.
func peer(net.Conn) (asker, error) { return asker{uid: -1}, supported() }
