package node

import (
	order "container/list"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	answerWithin = 30 * time.Second // an answer has to be read; who waits or reads events has more, as it goes
	leastShare   = 16               // of one address, however few connections there may be
)

// door keeps at most so many connections open at a port for HTTP: in all, and from one address, which may have a tenth.
//
// One more makes room for itself: the connection is closed that has been without a request for the longest time, be it
// at rest between two of them or still sending its first. That of its own address, if that one has its share. Only when
// each has a request under way, the newcomer is closed as soon as it is accepted: before it has spoken it can't be told
// why. Requests end, so that doesn't last.
//
// The addresses of this machine are one, whose share is apart from the whole: however many come from elsewhere, who
// works at the node comes in.
type door struct {
	net.Listener
	most, share int
	log         *slog.Logger
	loud        rate.Sometimes

	mu     sync.Mutex
	far    crowd // all but those of this machine
	from   map[netip.Addr]*crowd
	counts doorCounts
}

// doorCounts tell how a door fares.
type doorCounts struct {
	open       int
	shed       int64 // closed for another's sake, ever
	turnedAway int64 // closed as soon as they were accepted, ever
}

// crowd are connections that share a bound.
type crowd struct {
	open    int
	waiting order.List // *guest without a request, the longest first
}

// guest is a connection, counted until it is closed.
type guest struct {
	net.Conn
	door    *door
	address netip.Addr
	own     *crowd
	places  [2]*order.Element // in own.waiting and in far.waiting; nil while it has a request
	out     bool
}

func newDoor(most int, log *slog.Logger) *door {
	return &door{most: most, share: max(leastShare, most/10), log: log,
		loud: rate.Sometimes{Interval: 10 * time.Second}, from: make(map[netip.Addr]*crowd)}
}

// at puts the door before a listener, once.
func (d *door) at(lis net.Listener) net.Listener {
	d.Listener = lis
	return d
}

// Accept waits for a connection that comes in.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g, shed := d.enter(conn)
		if shed != nil {
			shed.Conn.Close()
			d.complain("the one that waited longest is closed for another", shed.Conn)
		}
		if g != nil {
			return g, nil
		}
		conn.Close()
		d.complain("one more is turned away", conn)
	}
}

func (d *door) complain(what string, conn net.Conn) {
	d.loud.Do(func() {
		d.log.Warn("eider: as many HTTP connections are open as may be (--max-http-connections): "+what, "from", conn.RemoteAddr().String(), "at", d.Addr().String())
	})
}

// enter counts a connection in, and another one out if it has to make room; a nil guest doesn't come in.
func (d *door) enter(conn net.Conn) (g, shed *guest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g = &guest{Conn: conn, door: d, address: neighbour(conn.RemoteAddr())}
	if g.own = d.from[g.address]; g.own == nil {
		g.own = new(crowd)
	}
	var full *crowd
	switch {
	case g.own.open >= d.share:
		full = g.own
	case g.far() && d.far.open >= d.most:
		full = &d.far
	}
	if full != nil {
		longest := full.waiting.Front()
		if longest == nil {
			d.counts.turnedAway++
			return nil, nil
		}
		shed = longest.Value.(*guest)
		d.counts.shed++
		d.leave(shed)
	}
	d.from[g.address] = g.own
	d.counts.open++
	g.own.open++
	if g.far() {
		d.far.open++
	}
	d.rest(g)
	return g, shed
}

// leave counts a connection out, once. The lock is held.
func (d *door) leave(g *guest) {
	if g.out {
		return
	}
	g.out = true
	d.serve(g)
	d.counts.open--
	if g.own.open--; g.own.open == 0 {
		delete(d.from, g.address)
	}
	if g.far() {
		d.far.open--
	}
}

// rest and serve take down that a connection is without a request, or has one. The lock is held.
func (d *door) rest(g *guest) {
	if g.out || g.places[0] != nil {
		return
	}
	g.places[0] = g.own.waiting.PushBack(g)
	if g.far() {
		g.places[1] = d.far.waiting.PushBack(g)
	}
}

func (d *door) serve(g *guest) {
	for i, waiting := range [...]*order.List{&g.own.waiting, &d.far.waiting} {
		if g.places[i] != nil {
			waiting.Remove(g.places[i])
			g.places[i] = nil
		}
	}
}

// changed is for [http.Server.ConnState]: a connection is active from a request's last header to its answer's end.
func (d *door) changed(conn net.Conn, state http.ConnState) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	g, ok := conn.(*guest)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state {
	case http.StateActive:
		d.serve(g)
	case http.StateIdle:
		d.rest(g)
	}
}

func (d *door) stats() doorCounts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// Close counts the connection out and closes it.
func (g *guest) Close() error {
	g.door.mu.Lock()
	g.door.leave(g)
	g.door.mu.Unlock()
	return g.Conn.Close()
}

func (g *guest) far() bool { return !g.address.IsLoopback() }

// neighbour is whom connections from an address are counted for: all of this machine are one, and so are all of an
// IPv6 network of 64 bits, since one machine may use each of its addresses. What isn't IP is one too.
func neighbour(from net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(from.String())
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case ip.IsLoopback():
		return netip.IPv6Loopback()
	case ip.Is6():
		network, _ := ip.Prefix(64)
		return network.Addr()
	}
	return ip
}
