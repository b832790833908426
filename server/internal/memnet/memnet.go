// Package memnet is a network in memory for tests: listeners and connections between hosts that can be
// partitioned, stalled and cut, all of it inside a synctest bubble.
package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// backlog is how many connections wait to be accepted; one more is refused.
const backlog = 1024

// Net is a network. The zero value isn't one: see [New]. Its methods may be called from any goroutine.
type Net struct {
	mu        sync.Mutex
	changed   *sync.Cond // for diallers and listeners
	listeners map[netip.AddrPort]*listener
	conns     map[*conn]struct{}
	apart     map[[2]netip.Addr]bool // hosts that don't hear each other, both ways round
	stalled   map[netip.Addr]bool
	port      uint16
}

// New returns an empty network.
func New() *Net {
	n := &Net{
		listeners: make(map[netip.AddrPort]*listener), conns: make(map[*conn]struct{}),
		apart: make(map[[2]netip.Addr]bool), stalled: make(map[netip.Addr]bool), port: 32768,
	}
	n.changed = sync.NewCond(&n.mu)
	return n
}

// Listen listens on ip:port; port 0 means any that is free.
func (n *Net) Listen(address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for at.Port() == 0 {
		try := netip.AddrPortFrom(at.Addr(), n.nextPort())
		if n.listeners[try] == nil {
			at = try
		}
	}
	if n.listeners[at] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at), Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, at: at}
	n.listeners[at] = l
	return l, nil
}

func (n *Net) nextPort() uint16 {
	if n.port++; n.port == 0 {
		n.port = 32768
	}
	return n.port
}

// Dialer dials from one host.
type Dialer struct {
	net  *Net
	from netip.Addr
}

// From returns the dialler of a host, given by its IP.
func (n *Net) From(host string) Dialer { return Dialer{n, netip.MustParseAddr(host)} }

// Dial connects to ip:port. Nobody there refuses; a partition doesn't answer until ctx ends or it heals.
func (d Dialer) Dial(ctx context.Context, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	n := d.net
	defer context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.changed.Broadcast()
	})()
	n.mu.Lock()
	defer n.mu.Unlock()
	for ctx.Err() == nil && n.apart[pair(d.from, to.Addr())] {
		n.changed.Wait()
	}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	if ctx.Err() != nil {
		return fail(ctx.Err())
	}
	l := n.listeners[to]
	if l == nil || len(l.queue) == backlog {
		return fail(syscall.ECONNREFUSED)
	}
	here := netip.AddrPortFrom(d.from, n.nextPort())
	mine, theirs := n.join(here, to)
	l.queue = append(l.queue, theirs)
	n.changed.Broadcast()
	return mine, nil
}

// join makes the two ends of a connection.
func (n *Net) join(from, to netip.AddrPort) (mine, theirs *conn) {
	up, down := new(flow), new(flow)
	mine = &conn{net: n, local: from, remote: to, in: down, out: up, changed: sync.NewCond(&n.mu)}
	theirs = &conn{net: n, local: to, remote: from, in: up, out: down, changed: sync.NewCond(&n.mu)}
	mine.peer, theirs.peer = theirs, mine
	n.conns[mine], n.conns[theirs] = struct{}{}, struct{}{}
	return mine, theirs
}

func pair(a, b netip.Addr) [2]netip.Addr {
	if b.Less(a) {
		a, b = b, a
	}
	return [2]netip.Addr{a, b}
}

// Partition parts two hosts: what is on the way waits, dials don't answer.
func (n *Net) Partition(a, b string) { n.part(a, b, true) }

// Heal joins two hosts again: what was on the way arrives.
func (n *Net) Heal(a, b string) { n.part(a, b, false) }

func (n *Net) part(a, b string, apart bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apart[pair(netip.MustParseAddr(a), netip.MustParseAddr(b))] = apart
	n.wakeAll()
}

func (n *Net) wakeAll() {
	n.changed.Broadcast()
	for c := range n.conns {
		c.changed.Broadcast()
	}
}

// Stall stops a host as SIGSTOP stops a process: its connections stay open and take bytes until their
// buffers are full, its listeners take connections, and nothing is read or sent there.
func (n *Net) Stall(host string) { n.stall(host, true) }

// Resume continues a stalled host.
func (n *Net) Resume(host string) { n.stall(host, false) }

func (n *Net) stall(host string, stalled bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stalled[netip.MustParseAddr(host)] = stalled
	n.wakeAll()
}

// Cut resets every connection between two hosts, as a firewall that has lost its state does: both ends
// meet a reset. It returns how many there were.
func (n *Net) Cut(a, b string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	cut, hosts := 0, pair(netip.MustParseAddr(a), netip.MustParseAddr(b))
	for c := range n.conns {
		if pair(c.local.Addr(), c.remote.Addr()) == hosts {
			c.reset()
			cut++
		}
	}
	return cut / 2
}

// Open returns how many ends of connections are open.
func (n *Net) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// held tells whether bytes from one host don't reach the other now.
func (n *Net) held(from, to netip.Addr) bool {
	return n.stalled[from] || n.stalled[to] || n.apart[pair(from, to)]
}

type listener struct {
	net    *Net
	at     netip.AddrPort
	queue  []*conn
	closed bool
}

func (l *listener) Accept() (net.Conn, error) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for !l.closed && (len(l.queue) == 0 || l.net.stalled[l.at.Addr()]) {
		l.net.changed.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c, nil
}

// Close resets who waits to be accepted, as a kernel does.
func (l *listener) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if l.closed {
		return errors.New("memnet: the listener is closed already")
	}
	l.closed = true
	delete(l.net.listeners, l.at)
	for _, c := range l.queue {
		c.reset()
		c.peer.reset()
	}
	l.queue = nil
	l.net.changed.Broadcast()
	return nil
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }
