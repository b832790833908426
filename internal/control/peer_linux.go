package control

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// supported tells whether there are abstract sockets.
func supported() error { return nil }

// peer is who is at the other end, as the kernel says: who connected, or who listened.
func peer(nc net.Conn) (asker, error) {
	if s, ok := nc.(*slot); ok {
		nc = s.Conn
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return asker{uid: -1}, errors.New("who asks can't be known")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return asker{uid: -1}, fmt.Errorf("who asks can't be known: %w", err)
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return asker{uid: -1}, fmt.Errorf("who asks can't be known: %w", err)
	}
	return asker{uid: int(cred.Uid), pid: int(cred.Pid)}, nil
}
