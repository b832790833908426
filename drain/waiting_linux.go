package drain

import "syscall"

// waiting tells whether bytes have come that nobody has read yet: the goroutine that reads them hasn't run, as
// after a stop of the whole process. Closing now would reset the connection under a request. The look takes one
// system call and reads nothing.
func (c *conn) waiting() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var buf [1]byte
	n, found := 0, error(nil)
	// Control, not Read, which would wait for the goroutine that reads.
	err = raw.Control(func(fd uintptr) {
		n, _, found = syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && found == nil && n > 0
}
