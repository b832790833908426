package eiderhttp

import (
	"net"
	"syscall"
)

// staleness looks whether a peer has ended a connection that net/http still takes for a good one: its goroutine
// that reads hasn't run yet. The look takes one system call and reads nothing. Between it and the write a peer may
// still end; that is microseconds, and not the milliseconds of a busy machine.
type staleness struct {
	raw  syscall.RawConn // nil if it can't be looked at
	look func(fd uintptr)
	buf  [1]byte
	n    int
	err  error
}

func (s *staleness) watch(c net.Conn) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	s.raw = raw
	s.look = func(fd uintptr) {
		s.n, _, s.err = syscall.Recvfrom(int(fd), s.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}
}

// stale tells whether the peer has ended the connection; with silent, also whether it has said anything, as an
// HTTP/1 server may on an idle connection only to end it. One goroutine at a time may ask.
func (s *staleness) stale(silent bool) bool {
	if s.raw == nil {
		return false
	}
	if s.raw.Control(s.look) != nil { // not Read: that would wait for the goroutine that reads
		return true
	}
	switch {
	case s.err == syscall.EAGAIN || s.err == syscall.EINTR:
		return false
	case s.err != nil || s.n == 0:
		return true
	}
	return silent
}
