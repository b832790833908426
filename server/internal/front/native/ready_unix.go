//go:build unix

package native

import (
	"io"
	"syscall"

	"google.golang.org/grpc/mem"
)

// ReadOnReady waits until there is something to read and takes a buffer only then, so that an idle
// connection holds none. grpc's transport asks a connection for this method; it does the same by
// itself for a plain *net.TCPConn, which ours no longer is once it is counted. Should a later grpc ask
// no more, connections merely hold a read buffer again: TestIdleWatchHoldsNoMoreThanRawGRPC tells.
func (c *counted) ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	if c.raw == nil {
		buf = pool.Get(size)
		if n, err = c.Conn.Read(*buf); err != nil {
			pool.Put(buf)
			return nil, 0, err
		}
		return buf, n, nil
	}
	c.want, c.pool = size, pool
	err = c.raw.Read(c.tryRead)
	buf, n = c.buf, c.n
	c.buf, c.pool = nil, nil
	if err == nil {
		err = c.err
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		return buf, n, nil
	}
	if buf != nil {
		pool.Put(buf)
	}
	// On a connection that is closed or past its deadline by now tryRead wasn't called, and n is the last read's.
	// A count without a buffer would have grpc read from nil, and the node be gone.
	return nil, 0, err
}

// read tries once; false means that there is nothing yet, and that the poller wakes us.
func (c *counted) read(fd uintptr) bool {
	c.buf = c.pool.Get(c.want)
	for {
		if c.n, c.err = syscall.Read(int(fd), *c.buf); c.err != syscall.EINTR {
			break
		}
	}
	if c.err == nil {
		return true
	}
	c.pool.Put(c.buf)
	c.buf, c.n = nil, 0
	return c.err != syscall.EAGAIN
}
