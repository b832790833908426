package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"github.com/eiderhq/eider/retry"
)

const (
	dialWithin  = 3 * time.Second  // a connection; doubled with each that was in vain, since behind a herd
	dialAtMost  = 9 * time.Second  // … whoever gives up early begins at its end again; short of answerWithin
	greetAtMost = 3 * answerWithin // from a stream's opening to its Welcome: answerWithin, doubled with each round in vain
	homeEvery   = 30 * time.Second // how often a handle that is away looks whether its home is back, jittered down by half
	largestView = 64 << 20         // bytes of one message from a node: a snapshot of a hundred thousand instances
)

// links are the connections of one handle: one at a time, shared by its streams, to one of the
// registry's addresses.
//
// Each handle has put the addresses into an order of its own, by chance; the first is its home. Whoever
// loses a node goes on to the next in his own order, so that a dead node's callers spread over the
// others, and goes home when home is back, so that they don't stay there.
type links struct {
	dial   func(ctx context.Context, addr string) (net.Conn, error)
	addrs  []string
	secure *security

	mu      sync.Mutex
	at      int // which address is current
	current *link
	homing  bool // somebody looks whether home is back
	vain    int  // links in a row over which no node has welcomed us, or it hung before it was prompt
}

// link is one connection, or the attempt to make one. It is never mended: a new one takes its place.
type link struct {
	cc      *grpc.ClientConn
	addr    string
	made    time.Time
	uses    int                     // guarded by links.mu
	within  time.Duration           // so long a dial may take
	greet   time.Duration           // so long the node's Welcome may, with the dial; and its answers, see session
	stood   atomic.Bool             // a node has welcomed us over it,
	prompt  atomic.Bool             // and has answered soon until nobody was patient any more
	retired chan struct{}           // closed when a better one has taken its place
	ends    atomic.Pointer[connEnd] // nil before the connection is made
	conn    atomic.Pointer[net.Conn]
	fault   atomic.Pointer[error] // of the last dial
}

// connEnd is where a connection comes from and goes to.
type connEnd struct{ local, remote net.Addr }

func newLinks(addrs []string, dial func(context.Context, string) (net.Conn, error), secure *security) *links {
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	if dial == nil {
		dial = dialTCP
	}
	return &links{addrs: addrs, dial: dial, secure: secure}
}

// take returns the current link, or a new one. It doesn't wait for the connection.
func (l *links) take() (*link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		k, err := l.open(l.addrs[l.at], l.vain)
		if err != nil {
			return nil, err
		}
		l.current = k
	}
	l.current.uses++
	return l.current, nil
}

// give hands a link back. A failed one is nobody's current link any more. One whose node hung was in vain, though it
// had stood: behind a herd, whoever has as little patience each time comes back with all the others, again and again.
// Once its answers were prompt there was no herd before it: if it hangs later, that is the first time.
func (l *links) give(k *link, failed, hung bool) {
	l.mu.Lock()
	k.uses--
	if failed && k == l.current {
		l.current = nil
		l.at = (l.at + 1) % len(l.addrs)
		switch l.vain++; {
		case k.stood.Load() && !hung:
			l.vain = 0
		case k.prompt.Load():
			l.vain = 1
		}
	}
	unused := k.uses == 0 && k != l.current
	l.mu.Unlock()
	if unused {
		k.end()
	}
}

// several tells whether there is another address to go to.
func (l *links) several() bool { return len(l.addrs) > 1 }

// close ends the current link, which nobody uses any more.
func (l *links) close() {
	l.mu.Lock()
	k := l.current
	l.current = nil
	l.mu.Unlock()
	if k != nil {
		k.end()
	}
}

// open makes a link, as patient as so many before it in vain make it; gRPC connects it at its first stream.
func (l *links) open(addr string, vain int) (*link, error) {
	k := &link{addr: addr, retired: make(chan struct{}),
		within: retry.Backoff{Base: dialWithin, Max: dialAtMost}.Ceiling(vain),
		greet:  retry.Backoff{Base: answerWithin, Max: greetAtMost}.Ceiling(vain / len(l.addrs)), // another node may answer at once
	}
	secured, err := l.secure.options(k)
	if err != nil {
		return nil, err
	}
	cc, err := grpc.NewClient("passthrough:///"+addr, append(secured,
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return k.connect(ctx, l.dial, addr) }),
		// When to try again is decided by keep, for a whole stream; gRPC tries once. It would wait an hour for the
		// other side's first word, as long as for another try: greet bounds that, as all that comes before a Welcome.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Hour, MaxDelay: time.Hour}}),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableHealthCheck(),
		grpc.WithDisableRetry(),
		// A window of its own choice spares gRPC the pings by which it would find one.
		grpc.WithStaticStreamWindowSize(1<<20),
		grpc.WithStaticConnWindowSize(4<<20),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestView)),
	)...)
	if err != nil {
		return nil, err
	}
	k.cc, k.made = cc, time.Now()
	return k, nil
}

// connect dials, and remembers both ends of the connection: the local address is what an instance that
// names none advertises.
func (k *link) connect(ctx context.Context, dial func(context.Context, string) (net.Conn, error), addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, k.within)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		k.fault.Store(&err)
		return nil, err
	}
	k.fault.Store(nil)
	k.ends.Store(&connEnd{local: conn.LocalAddr(), remote: conn.RemoteAddr()})
	k.conn.Store(&conn)
	return conn, nil
}

// end closes the connection. gRPC alone would wait 5s for a node that reads nothing to take its last words, and with it
// whoever is to try another connection, or closes the handle.
func (k *link) end() {
	sever := time.AfterFunc(lastWords, func() {
		if conn := k.conn.Load(); conn != nil {
			(*conn).Close()
		}
	})
	defer sever.Stop()
	k.cc.Close() // its error tells only that it was closed before
}

// up tells whether the connection stands, as far as is known.
func (k *link) up() bool { return k.cc.GetState() == connectivity.Ready }

// dialTCP dials a host and port. Of several addresses behind one name it tries all, in an order by
// chance: the resolver's order is the same for every caller, and would send them all to the same node.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
	var faults []error
	for i, ip := range ips {
		dialer := net.Dialer{}
		if deadline, ok := ctx.Deadline(); ok {
			dialer.Timeout = time.Until(deadline) / time.Duration(len(ips)-i)
		}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
		if err == nil {
			return conn, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// homeward begins to look whether home is back, if this handle is away from it.
func (l *links) homeward(r *Registry) {
	l.mu.Lock()
	begin := l.at != 0 && !l.homing
	l.homing = l.homing || begin
	l.mu.Unlock()
	if begin && r.start(func() { l.seekHome(r) }) != nil {
		l.mu.Lock()
		l.homing = false
		l.mu.Unlock()
	}
}

// seekHome looks from time to time whether home is back, until this handle has returned to it.
func (l *links) seekHome(r *Registry) {
	for r.pause(retry.Early(homeEvery, 0.5, rand.Float64())) && !l.home(r.ctx) {
	}
	l.mu.Lock()
	l.homing = false
	l.mu.Unlock()
}

// home tries to return; it tells whether the handle is at home now. The new connection stands before
// the old one is given up.
func (l *links) home(ctx context.Context) bool {
	l.mu.Lock()
	there := l.at == 0
	l.mu.Unlock()
	if there {
		return true
	}
	k, err := l.open(l.addrs[0], 0)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	k.cc.Connect()
	for state := k.cc.GetState(); state != connectivity.Ready; state = k.cc.GetState() {
		if state == connectivity.TransientFailure || !k.cc.WaitForStateChange(ctx, state) {
			k.end()
			return false
		}
	}
	l.mu.Lock()
	old := l.current
	l.current, l.at = k, 0
	unused := old != nil && old.uses == 0
	l.mu.Unlock()
	if old != nil {
		close(old.retired)
	}
	if unused {
		old.end()
	}
	return true
}
