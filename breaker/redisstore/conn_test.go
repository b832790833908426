package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eiderhq/eider/breaker/redisstore"
)

// documented is a line of doc.go: "//	NAME: …".
func documented(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^//\t` + name + `: (.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("doc.go has no line %q", name)
	}
	return string(found[1])
}

// subscribed waits until there are so many subscriptions.
func subscribed(t *testing.T, s *server, want int) {
	t.Helper()
	until(t, fmt.Sprint(want, " subscriptions"), func() bool {
		n := s.do(t, "PUBSUB", "NUMSUB", "eider:fleet:changed").([]any)[1].(int64)
		return n == int64(want)
	})
}

// line is a connection as a test makes it fail. The first that subscribes is it.
type line struct {
	mute  atomic.Bool             // from now on the subscription hears nothing
	cut   func(wrote []byte) bool // whether the connection ends before the answer to this
	lines atomic.Int32            // that have subscribed
}

type conn struct {
	net.Conn
	l          *line
	subscribed atomic.Bool
	cut        atomic.Bool
	closed     chan struct{}
	once       sync.Once
}

func (l *line) client(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, l: l, closed: make(chan struct{})}, nil
	}})
	t.Cleanup(func() { c.Close() })
	return c
}

func (c *conn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\r\nsubscribe\r\n")) {
		c.subscribed.Store(true)
		c.l.lines.Add(1)
	}
	if c.l.cut != nil && c.l.cut(b) {
		c.cut.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut.Load() {
		c.Close()
		return 0, io.EOF
	}
	if c.subscribed.Load() && c.l.mute.Load() && c.l.lines.Load() == 1 {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A subscription that is cut is made anew, and what was swapped meanwhile is read then.
func TestTheSubscriptionIsMadeAnew(t *testing.T) {
	s := start(t)
	store, other := redisstore.New(s.client(t), redisstore.Config{Poll: time.Hour}), redisstore.New(s.client(t), redisstore.Config{})
	w := watch(t, store, "orders")
	w.sees(t, 0)
	subscribed(t, s, 1)
	var version uint64
	for range 5 {
		s.do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		version = swapped(t, other, "orders", version, "open")
		w.sees(t, version)
		subscribed(t, s, 1)
	}
}

// A subscription whose server has gone without a word (a firewall that forgot it) is found by asking, and made anew.
func TestASilentSubscriptionIsMadeAnew(t *testing.T) {
	s := start(t)
	l := &line{}
	store, other := redisstore.New(l.client(t, s.addr), redisstore.Config{Poll: 100 * time.Millisecond, Timeout: patience}), redisstore.New(s.client(t), redisstore.Config{})
	w := watch(t, store, "orders")
	w.sees(t, 0)
	subscribed(t, s, 1)
	l.mute.Store(true)
	w.sees(t, swapped(t, other, "orders", 0, "open")) // polled
	until(t, "another subscription", func() bool { return l.lines.Load() >= 2 })
	subscribed(t, s, 1)
}

// The client asks again when a connection ended before the answer. If Redis had done it, it is done, and not overtaken by itself.
func TestASwapWhoseAnswerWasLostHasWon(t *testing.T) {
	s := start(t)
	var cuts atomic.Int32
	l := &line{cut: func(wrote []byte) bool {
		return bytes.Contains(wrote, []byte("the verdict")) && cuts.Add(1) == 1
	}}
	store := redisstore.New(l.client(t, s.addr), redisstore.Config{})
	version := swapped(t, store, "orders", 0, "open")
	again := swapped(t, store, "orders", version, "the verdict")
	if cuts.Load() < 2 {
		t.Error("the client hasn't asked again")
	}
	if seen := told(t, store, "orders"); seen.Version != again || string(seen.Record) != "the verdict" {
		t.Errorf("%+v, want version %d", seen, again)
	}
}

// However many keys a Store watches, it has one subscription, and none when nobody watches.
func TestOneSubscriptionForAStore(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{Poll: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 20 {
		first := make(chan struct{})
		running.Go(func() {
			for range store.Watch(ctx, fmt.Sprint("key ", i%10)) {
				select {
				case <-first:
				default:
					close(first)
				}
			}
		})
		<-first
	}
	subscribed(t, s, 1)
	list := s.do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)
	if n := strings.Count(list, "\n"); n != 1 {
		t.Errorf("%d connections:\n%s", n, list)
	}
	stop()
	running.Wait()
	subscribed(t, s, 0)
	w := watch(t, store, "orders")
	w.sees(t, 0)
	subscribed(t, s, 1)
}
