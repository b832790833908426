package native

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/eiderhq/eider"
)

// Limits bound what strangers may take. The zero value of every field works.
type Limits struct {
	Connections          int // 0 means 60,000; one more is closed as soon as it is accepted
	Streams              int // 0 means 60,000, of both kinds together; one more is told to come back
	StreamsPerConnection int // 0 means 16; a client's own transport waits for a free one
	Instances            int // 0 means 1,000 instances on one Attach stream
	Subscriptions        int // 0 means 1,000 services on one Watch stream
	Message              int // 0 means 64 KiB; the longest message that is read

	IdentityStreams   int  // 0 means 20,000 of one token or certificate
	IdentityCallers   int  // 0 means 10,000, which are streams that follow
	IdentityInstances int  // 0 means 20,000
	IdentityRegister  Rate // registrations of one, known before or not; 0 means 2,000/s, 4,000 at once

	Register Rate // new instances; 0 means 1,000/s, 2,000 at once
	Reattach Rate // instances that were known before; 0 means 5,000/s, 10,000 at once
	Watch    Rate // new Watch streams, and as many Follow streams; 0 means 2,000/s, 4,000 at once

	Fleet       Rate // what is told and swapped of fleet breakers; 0 means 20,000/s, 40,000 at once
	OriginFleet Rate // by one identity of one address that isn't this machine's; 0 means 5,000/s, 10,000 at once
}

// Rate is an admission rate.
type Rate struct {
	PerSecond float64
	Burst     int
}

func (r Rate) or(perSecond float64, burst int) Rate {
	if r.PerSecond <= 0 {
		r.PerSecond = perSecond
		if r.Burst <= 0 {
			r.Burst = burst
		}
	}
	if r.Burst <= 0 {
		r.Burst = max(1, int(r.PerSecond))
	}
	return r
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&l.Connections, 60_000}, {&l.Streams, 60_000}, {&l.StreamsPerConnection, 16},
		{&l.Instances, 1_000}, {&l.Subscriptions, 1_000}, {&l.Message, 64 << 10},
		{&l.IdentityStreams, 20_000}, {&l.IdentityCallers, 10_000}, {&l.IdentityInstances, 20_000},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	l.Register = l.Register.or(1_000, 2_000)
	l.Reattach = l.Reattach.or(5_000, 10_000)
	l.Watch = l.Watch.or(2_000, 4_000)
	l.Fleet = l.Fleet.or(20_000, 40_000)
	l.OriginFleet = l.OriginFleet.or(5_000, 10_000)
	l.IdentityRegister = l.IdentityRegister.or(2_000, 4_000)
	return l
}

// limited is a listener that keeps at most so many connections open. A connection too many can't be
// told why before it has spoken, so it is closed; a client takes that as Unavailable and backs off.
type limited struct {
	net.Listener
	srv *Server
}

func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.srv.connections.Add(1) <= int64(l.srv.cfg.Limits.Connections) {
			return newCounted(conn, &l.srv.connections), nil
		}
		l.srv.connections.Add(-1)
		conn.Close()
		l.srv.turnedAway.Add(1)
		l.srv.complain("a connection is turned away", conn.RemoteAddr().String(),
			eider.Errorf(eider.Limited, "", "%d are open, the limit", l.srv.cfg.Limits.Connections))
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once

	// For ReadOnReady, which one goroutine calls: raw is nil for what is no socket.
	raw     syscall.RawConn
	tryRead func(fd uintptr) bool
	pool    mem.BufferPool
	want, n int
	buf     *[]byte
	err     error
}

func newCounted(conn net.Conn, open *atomic.Int64) *counted {
	c := &counted{Conn: conn, open: open}
	if socket, ok := conn.(*net.TCPConn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			c.raw, c.tryRead = raw, c.read
		}
	}
	return c
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// loud lets one log line through in ten seconds.
type loud struct{ last atomic.Int64 }

func (l *loud) allow(now time.Time) bool {
	last := l.last.Load()
	return now.UnixNano()-last > int64(10*time.Second) && l.last.CompareAndSwap(last, now.UnixNano())
}
