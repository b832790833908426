package eiderhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/roster"
)

// instance is what this caller has of one incarnation at one address: its http.Transport and so its connections,
// which live and die with its membership. It is a roster.Companion.
type instance struct {
	t       *Transport
	service string
	to      []string // the Eider-To header: id@incarnation
	host    string   // the host that is dialled
	ports   []port

	once sync.Once
	base *http.Transport
	rt   http.RoundTripper // base, wrapped

	talksHTTP2 atomic.Bool  // seen to
	inFlight   atomic.Int64 // tries whose answer isn't wholly read
	retired    atomic.Bool  // nobody picks it any more: what becomes idle is closed

	mu    sync.Mutex
	conns map[*conn]struct{} // every open connection
}

// port is one port of an instance. Its logical address, service:number, is what URLs get: TLS and traces see the
// service's name, and dialling replaces it by the host.
type port struct{ name, logical string }

// companion makes what lives beside one incarnation.
func (s *service) companion(in eider.Instance) roster.Companion {
	c := &instance{t: s.t, service: s.name, to: []string{in.ID + "@" + in.Incarnation.String()}, conns: map[*conn]struct{}{}}
	if host, number, err := net.SplitHostPort(in.Address); err == nil {
		c.host = host
		c.ports = append(c.ports, port{"", net.JoinHostPort(s.name, number)})
	}
	for name, number := range in.Ports {
		c.ports = append(c.ports, port{name, net.JoinHostPort(s.name, strconv.Itoa(int(number)))})
	}
	s.t.instancesMu.Lock()
	if s.t.instances == nil {
		s.t.instances = map[*instance]struct{}{}
	}
	s.t.instances[c] = struct{}{}
	s.t.instancesMu.Unlock()
	return c
}

// transport returns what sends a request to this instance. It is made when first needed: a caller that follows
// thousands of instances calls few of them.
func (in *instance) transport() http.RoundTripper {
	in.once.Do(func() {
		in.base = in.t.newBase(in)
		in.rt = in.base
		if in.t.Wrap != nil {
			in.rt = in.t.Wrap(in.base)
		}
	})
	return in.rt
}

// logical returns the URL's host for a port of the instance, "" if it has no such port. Case doesn't count in URLs.
func (in *instance) logical(name string) string {
	for i := range in.ports {
		if in.ports[i].name == name || strings.EqualFold(in.ports[i].name, name) {
			return in.ports[i].logical
		}
	}
	return ""
}

// exit counts it out. The last one out of a retired instance closes every connection: an HTTP/2 one that was
// busy at LetGo would become idle and stay.
func (in *instance) exit() {
	if in.inFlight.Add(-1) == 0 && in.retired.Load() {
		in.closeAll()
	}
}

// LetGo closes idle connections, now and as they become idle.
func (in *instance) LetGo() {
	in.retired.Store(true)
	in.closeIdle()
	if in.inFlight.Load() == 0 {
		in.closeAll()
	}
}

// Close ends the membership: calls in flight still end, everything else is closed and forgotten.
func (in *instance) Close() {
	in.t.instancesMu.Lock()
	delete(in.t.instances, in)
	in.t.instancesMu.Unlock()
	in.LetGo()
}

func (in *instance) closeIdle() {
	in.transport()
	in.base.CloseIdleConnections()
}

func (in *instance) closeAll() {
	in.mu.Lock()
	open := make([]*conn, 0, len(in.conns))
	for c := range in.conns {
		open = append(open, c)
	}
	in.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

var errRetired = errors.New("the instance has been let go of")

// dial connects to a port of the instance.
func (in *instance) dial(ctx context.Context, network, logical string, by dialFunc) (net.Conn, error) {
	if y := tryOf(ctx); y != nil {
		y.dialed.Store(true)
	}
	_, number, err := net.SplitHostPort(logical)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx, in.t.connectTimeout())
	defer cancel()
	return by(ctx, network, net.JoinHostPort(in.host, number))
}

// dialContext is the Transport's DialContext: it watches what is written, and keeps a register of what is open.
func (in *instance) dialContext(ctx context.Context, network, logical string) (net.Conn, error) {
	raw, err := in.dial(ctx, network, logical, in.t.dialer())
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, in: in}
	c.state.watch(raw)
	in.mu.Lock()
	late := in.retired.Load() && in.inFlight.Load() == 0 // net/http dials on after the request has gone elsewhere
	if !late {
		in.conns[c] = struct{}{}
	}
	in.mu.Unlock()
	if late {
		raw.Close()
		return nil, errRetired
	}
	return c, nil
}

// conn counts what is written to it, so that a failure can be known to have come before the first byte.
type conn struct {
	net.Conn
	in      *instance
	written atomic.Int64

	mu    sync.Mutex // guards state
	state staleness
}

// stale tells whether the peer has ended it, as far as can be seen without reading.
func (c *conn) stale(silent bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.stale(silent)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// ReadFrom keeps sendfile working for bodies that are files.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(c.Conn, r)
	c.written.Add(n)
	return n, err
}

func (c *conn) Close() error {
	c.in.mu.Lock()
	delete(c.in.conns, c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}
