package registry

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

// misdeed is what a process meets at first, and how long it may take until a good node lists it.
type misdeed struct {
	conn   func(*stalling) net.Conn // in place of the first connection, or around it
	talk   func(*fake, *stalling)   // with the first stream
	within time.Duration
}

// misdeeds are all ways in which we know a node to say nothing more, with the bound of each wait; see docs/evidence.md.
var misdeeds = map[string]misdeed{
	"accepts and never speaks":      {conn: discards, within: answerWithin + time.Second},
	"accepts and never reads":       {conn: func(*stalling) net.Conn { c, _ := net.Pipe(); return c }, within: answerWithin + time.Second},
	"is the process itself":         {conn: echoes, within: time.Second},
	"closes at once":                {conn: closed, within: time.Second},
	"takes the stream, no Welcome":  {talk: func(node *fake, _ *stalling) { next(node.t, node.attaches) }, within: answerWithin + time.Second},
	"dies before the Welcome":       {talk: func(node *fake, c *stalling) { next(node.t, node.attaches); c.Close() }, within: time.Second},
	"answers beats, never the rest": {talk: func(node *fake, _ *stalling) { idle(node.attach(), 2*grantWithin) }, within: grantWithin + time.Second},
	"dies before it has answered":   {talk: func(node *fake, c *stalling) { asking(node); c.Close() }, within: time.Second},
	"lists and says nothing more":   {talk: func(node *fake, _ *stalling) { listing(node) }, within: askEvery + answerWithin + time.Second},
	"lists and dies":                {talk: func(node *fake, c *stalling) { listing(node); c.Close() }, within: time.Second},
	"lists and reads nothing more":  {talk: func(node *fake, c *stalling) { listing(node); c.stall() }, within: askEvery + answerWithin + time.Second},
}

// Nobody who registers is stuck, whatever a node does or doesn't: every wait for one has a bound, after which another
// connection or stream is tried.
func TestR9NobodyIsStuck(t *testing.T) {
	for name, m := range misdeeds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node, first := newFake(t), &stalling{closed: make(chan struct{})}
				var dials atomic.Int64
				reg := Open(Config{Addr: "node:8762", Caller: "test", Logger: slog.New(slog.DiscardHandler),
					Dial: func(ctx context.Context, addr string) (_ net.Conn, err error) {
						switch n := dials.Add(1); {
						case n > 1:
							return node.dial(ctx, addr)
						case m.conn != nil:
							return m.conn(first), nil
						}
						first.Conn, err = node.dial(ctx, addr)
						return first, err
					}})
				defer reg.Close()
				begin := time.Now()
				l, err := reg.Register(orders)
				if err != nil {
					t.Fatal(err)
				}
				if m.talk != nil {
					m.talk(node, first)
				}
				if m.talk == nil || begin.Equal(time.Now()) { // else the misdeed itself took the time
					begin = time.Now()
				}
				listing(node)
				synctest.Wait()
				if took := time.Since(begin); took > m.within || !l.State().Listed {
					t.Errorf("after %s it is %v, want it listed within %s", took, l.State(), m.within)
				}
			})
		})
	}
}

// asking takes the next stream up to its registration.
func asking(node *fake) (*attachTalk, *pb.Register) {
	node.t.Helper()
	c := node.attach()
	return c, until(c, (*pb.AttachRequest).GetRegister)
}

func listing(node *fake) {
	node.t.Helper()
	c, m := asking(node)
	c.say(grant(m, 1))
	synctest.Wait()
}

// stalling is a connection whose other end may stop reading.
type stalling struct {
	net.Conn
	stalled atomic.Bool
	once    sync.Once
	closed  chan struct{}
}

func (s *stalling) stall() { s.stalled.Store(true) }

func (s *stalling) Write(b []byte) (int, error) {
	if s.stalled.Load() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return s.Conn.Write(b)
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

func discards(*stalling) net.Conn {
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs) // ends with ours
	return ours
}

func closed(*stalling) net.Conn {
	ours, theirs := net.Pipe()
	theirs.Close()
	return ours
}

// echoes returns a connection to itself, as a dial of a loopback port that nobody listens at may.
func echoes(*stalling) net.Conn {
	ours, theirs := net.Pipe()
	said := make(chan []byte, 64)
	go func() {
		defer close(said)
		for {
			b := make([]byte, 4096)
			n, err := theirs.Read(b)
			if err != nil {
				return
			}
			said <- b[:n]
		}
	}()
	go func() {
		for b := range said {
			if _, err := theirs.Write(b); err != nil {
				return
			}
		}
	}()
	return ours
}

// A node that takes no more bytes holds up Close no longer than one that hangs: gRPC alone would wait 5s for its last
// words to be taken.
func TestCloseIsBoundedUnderANodeThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, conn := newFake(t), &stalling{closed: make(chan struct{})}
		reg := Open(Config{Addr: "node:8762", Caller: "test", Logger: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, addr string) (_ net.Conn, err error) {
				conn.Conn, err = node.dial(ctx, addr)
				return conn, err
			}})
		defer reg.Close()
		if _, err := reg.Follow("orders"); err != nil {
			t.Fatal(err)
		}
		if _, err := reg.Register(orders); err != nil {
			t.Fatal(err)
		}
		node.watch(1)
		listing(node)
		conn.stall()
		begin := time.Now()
		reg.Close()
		if took := time.Since(begin); took > farewell {
			t.Errorf("Close took %s, want at most %s", took, farewell)
		}
	})
}
