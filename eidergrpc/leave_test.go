package eidergrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider/internal/fake"
)

// counted is a listener that knows how many of its connections are open.
type counted struct {
	net.Listener
	mu    sync.Mutex
	open  int
	moved chan struct{} // closed and replaced at each change
}

func count(l net.Listener) *counted { return &counted{Listener: l, moved: make(chan struct{})} }

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.add(1)
	return &countedConn{Conn: c, l: l}, nil
}

func (l *counted) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *counted) await(t testing.TB, want int) {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		open, moved := l.open, l.moved
		l.mu.Unlock()
		if open == want {
			return
		}
		select {
		case <-moved:
		case <-late:
			t.Fatalf("%d connections are open; want %d", open, want)
		}
	}
}

type countedConn struct {
	net.Conn
	l    *counted
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.l.add(-1) })
	return c.Conn.Close()
}

func serveCounted(t testing.TB, p *parrot) *counted {
	l := count(fake.Listen(t))
	srv := grpc.NewServer()
	srv.RegisterService(&echoDesc, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	t.Cleanup(func() { srv.Stop(); <-done })
	return l
}

func TestALeavingInstanceIsLetGoOfAndItsIdleConnectionClosedFirst(t *testing.T) {
	w := newWorld(t)
	l := serveCounted(t, &parrot{name: "a"})
	addr, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", l.Addr().String()), fake.Up("orders", "b", addr)
	w.Set("orders", a)
	cc := w.client(Config{}, "orders")
	wantSay(t, cc, "a")
	w.Apply("orders", a, b)
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a"))
	l.await(t, 0)
	for range 20 {
		wantSay(t, cc, "b")
	}
}

func TestAStreamInFlightFinishesAtTheInstanceThatWasLetGoOf(t *testing.T) {
	w := newWorld(t)
	l := serveCounted(t, &parrot{name: "a"})
	addr, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", l.Addr().String()), fake.Up("orders", "b", addr)
	w.Set("orders", a)
	cc := w.client(Config{}, "orders")
	s := open(t, cc)
	if got, err := s.say("1"); err != nil || got != "a 1" {
		t.Fatalf("%q, %v", got, err)
	}
	w.Apply("orders", a, b)
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a"))
	for range 10 {
		wantSay(t, cc, "b")
	}
	if got, err := s.say("2"); err != nil || got != "a 2" {
		t.Fatalf("the stream in flight: %q, %v", got, err)
	}
	s.CloseSend()
	if err := s.RecvMsg(new(any)); !errors.Is(err, io.EOF) {
		t.Errorf("its end: %v", err)
	}
	l.await(t, 0) // the last stream closes the connection
}

func TestAnUnansweredCallHoldsUpLettingGoASecond(t *testing.T) {
	w := newWorld(t)
	begun, end := make(chan struct{}), make(chan struct{})
	l := serveCounted(t, &parrot{name: "a", do: func(context.Context) error { close(begun); <-end; return nil }})
	addr, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", l.Addr().String()), fake.Up("orders", "b", addr)
	w.Set("orders", a)
	cc := w.client(Config{}, "orders")
	answered := make(chan error, 1)
	at := time.Now() // before it is sent: a machine that is busy in between makes it longer, never shorter
	go func() {
		who, err := say(t, cc)
		if err == nil && who != "a" {
			err = errors.New("answered by " + who)
		}
		answered <- err
	}()
	<-begun
	w.Apply("orders", a, b)
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a"))
	if took := time.Since(at); took < time.Second {
		t.Errorf("let go after %v; want a second from the call", took)
	}
	close(end)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
}

func TestLeavingIsLearntFromATrailer(t *testing.T) {
	w := newWorld(t)
	b := &parrot{name: "b"}
	var text string
	pa := &parrot{name: "a", do: func(ctx context.Context) error {
		return grpc.SetTrailer(ctx, metadata.Pairs(keyLeaving, text))
	}}
	addrA, _ := serve(t, pa)
	addrB, _ := serve(t, b)
	one, two := fake.Up("orders", "a", addrA), fake.Spare("orders", "b", addrB)
	text = one.Incarnation.String()
	w.Set("orders", one, two)
	cc := w.client(Config{}, "orders")
	wantSay(t, cc, "a")
	for range 5 {
		wantSay(t, cc, "b")
	}
}

func TestLeavingIsLearntFromTheHeaderOfAStreamThatGoesOn(t *testing.T) {
	w := newWorld(t)
	var text string
	pa := &parrot{name: "a", do: func(ctx context.Context) error {
		return grpc.SetHeader(ctx, metadata.Pairs(keyLeaving, text))
	}}
	addrA, _ := serve(t, pa)
	addrB, _ := serve(t, &parrot{name: "b"})
	one, two := fake.Up("orders", "a", addrA), fake.Spare("orders", "b", addrB)
	text = one.Incarnation.String()
	w.Set("orders", one, two)
	cc := w.client(Config{}, "orders")
	s := open(t, cc)
	if got, err := s.say("1"); err != nil || got != "a 1" {
		t.Fatalf("%q, %v", got, err)
	}
	wantSay(t, cc, "b")
}

func TestACallForSomebodyElseIsSentElsewhereWhateverTheMethod(t *testing.T) {
	w := newWorld(t)
	misdirected := func(ctx context.Context) error {
		grpc.SetTrailer(ctx, metadata.Pairs(keyMisdirected, "stock"))
		return status.Error(codes.Unavailable, "not me")
	}
	addrA, _ := serve(t, &parrot{name: "a", do: misdirected})
	addrB, _ := serve(t, &parrot{name: "b"})
	w.Set("orders", fake.Up("orders", "a", addrA), fake.Spare("orders", "b", addrB))
	cc := w.client(Config{}, "orders")
	wantSay(t, cc, "b")
	s := open(t, cc)
	if got, err := s.say("x"); err != nil || got != "b x" {
		t.Errorf("a stream: %q, %v", got, err)
	}
}

func TestADeadInstanceIsForgottenAndCallsThatWaitedForItLookElsewhere(t *testing.T) {
	w := newWorld(t)
	accepted := make(chan struct{}, 1)
	l := fake.Script(t, func(int, deadConn) { accepted <- struct{}{}; <-t.Context().Done() })
	addr, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", l.Addr().String()), fake.Spare("orders", "b", addr)
	w.Set("orders", a, b)
	cc := w.client(Config{ConnectTimeout: time.Minute}, "orders")
	answered := make(chan string, 1)
	go func() {
		who, err := say(t, cc)
		if err != nil {
			who = err.Error()
		}
		answered <- who
	}()
	<-accepted
	w.Set("orders", fake.Gone(a), b)
	if got := <-answered; got != "b" {
		t.Errorf("%s", got)
	}
}
