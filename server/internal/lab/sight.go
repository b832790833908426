package lab

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// sight is what can be seen of one call from outside: where it went, how often it was written, and
// how often a peer said that it hadn't processed it.
type sight struct {
	births     *births
	mu         sync.Mutex
	writes     int
	unread     int
	opened     int64
	target     string // the port last tried
	lastTryAt  int64
	connection int64 // when the connection in hand was opened
}

type sightKey struct{}

func (s *sight) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(hostPort string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			_, s.target, _ = net.SplitHostPort(hostPort) // the host may be the service's name
			s.lastTryAt = time.Now().UnixNano()
		},
		GotConn: func(info httptrace.GotConnInfo) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.connection = s.births.of(info.Conn)
		},
		WroteHeaders: func() { // from here on the peer may have the request, whether or not the body follows
			s.mu.Lock()
			defer s.mu.Unlock()
			s.writes++
			s.opened = s.connection
		},
	}
}

func (s *sight) sum() (writes, unread int, opened int64, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.unread, s.opened, s.target
}

func (s *sight) lastTry() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastTryAt
}

// unprocessed sees each try of a call, and counts those that the peer answered unread.
type unprocessed struct{ next http.RoundTripper }

func (u unprocessed) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.next.RoundTrip(req)
	if s, ok := req.Context().Value(sightKey{}).(*sight); ok && err == nil && resp.StatusCode == http.StatusMisdirectedRequest {
		s.mu.Lock()
		s.unread++
		s.mu.Unlock()
	}
	return resp, err
}

// births knows when each open connection was opened, by its local address: transports wrap connections.
type births struct {
	mu sync.Mutex
	at map[string]int64
}

func (b *births) of(c net.Conn) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at[c.LocalAddr().String()]
}

func (b *births) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &mortal{conn, b, conn.LocalAddr().String()}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[c.local] = time.Now().UnixNano()
	return c, nil
}

// mortal is a connection that is forgotten when it closes.
type mortal struct {
	net.Conn
	births *births
	local  string
}

func (m *mortal) Close() error {
	m.births.mu.Lock()
	delete(m.births.at, m.local)
	m.births.mu.Unlock()
	return m.Conn.Close()
}
