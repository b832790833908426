package drain

import (
	"math"
	"net"
	"syscall"
)

// soBindToIfindex is SO_BINDTOIFINDEX, since Linux 5.1, which package syscall doesn't name.
const soBindToIfindex = 62

// unlist makes a TCP listener unfindable: it is bound to an interface that doesn't exist, so that a
// handshake that begins now finds no listener and is refused at once, while whoever waits in the accept
// queue still can be accepted. Then nobody can slip in between the last look into the queue and the
// close, which would reset them: a call that was refused may go elsewhere, one that was cut may not.
//
// It needs no privilege. Where it can't be done (an older kernel, a listener already bound to an
// interface by a process without CAP_NET_RAW, no TCP) it isn't, and some microseconds of risk remain.
func unlist(ln net.Listener) {
	sc, ok := ln.(syscall.Conn)
	if !ok || ln.Addr().Network() != "tcp" {
		return
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soBindToIfindex, math.MaxInt32)
	})
}
