package drain

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"
)

// loop is a Server that accepts, and leaves what it has accepted to its test.
type loop struct {
	accepted chan net.Conn
	finished chan struct{} // closed by Finish
}

func (l *loop) Serve(ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return err
		}
		l.accepted <- nc
	}
}

func (l *loop) Leave()  {}
func (l *loop) Finish() { close(l.finished) }
func (l *loop) Close()  {}

// running is a Run of a loop, without a registry, and a connection to it.
func running(t *testing.T, cfg Config) (l *loop, self *Instance, client net.Conn, leave context.CancelFunc, result chan Report) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listener, cfg.Logger = ln, slog.New(slog.DiscardHandler)
	l = &loop{make(chan net.Conn, 10), make(chan struct{})}
	ctx, leave := context.WithCancel(t.Context())
	started, result := make(chan *Instance, 1), make(chan Report, 1)
	go func() {
		rep, err := Run(ctx, cfg, func(i *Instance) Server { started <- i; return l })
		if err != nil {
			t.Error(err)
		}
		result <- rep
	}()
	t.Cleanup(leave)
	self = soon(t, started, "the start")
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return l, self, client, leave, result
}

// Watches that begin while the pause ends are found or cut as they begin, every one, and none is named.
func TestWatchesThatBeginWhileThePauseEnds(t *testing.T) {
	l, self, client, leave, result := running(t, Config{Pause: -1, Silent: -1, Grace: 10 * time.Minute, InFlight: 5 * time.Minute, Streams: 3 * time.Minute})
	served := soon(t, l.accepted, "the connection")
	io.WriteString(client, "x")
	served.Read(make([]byte, 1)) // it carries something: it isn't closed for its silence
	watch := func() {
		ctx, cancel := context.WithCancel(context.Background())
		c, _ := self.Begin(ctx, Incoming{Method: "GRPC", Path: "/watch", Probe: true, Cut: cancel})
		<-ctx.Done()
		c.End(true)
	}
	var watches sync.WaitGroup
	for range 8 {
		watches.Go(func() {
			for range 50 { // the first of them waits for the end of the pause, the others come after it
				watch()
			}
		})
	}
	leave()
	all := make(chan struct{})
	go func() { watches.Wait(); close(all) }()
	soon(t, all, "the end of the watches")
	served.Close()
	if rep := soon(t, result, "Run's return"); rep.Exit != ExitClean || rep.CutCount+rep.OverranCount+rep.UnansweredCount != 0 {
		t.Errorf("%+v", rep)
	}
}

// What the drain reads of a request that it finds is written by then. The race detector tells: nothing but the finding
// orders the two here.
func TestARequestThatIsFoundHasBeenDescribed(t *testing.T) {
	d := newDrainer(settings{}, nil)
	d.self = &Instance{d: d}
	for i := range d.self.lanes {
		d.self.lanes[i].book = &d.book
		d.self.lanes[i].h2.Store(true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, _ := d.self.Begin(ctx, Incoming{Method: "GRPC", Path: "/watch", Probe: true, Cut: cancel})
		<-ctx.Done()
		c.End(true)
	}()
	for len(d.book.inFlight()) == 0 {
		runtime.Gosched()
	}
	d.endWatches()
	soon(t, ended, "the end of the watch")
}

// A watch is no loss either where streams have less time than a silent connection has.
func TestAWatchThatIsCutIsNotNamed(t *testing.T) {
	l, self, client, leave, result := running(t, Config{Pause: -1, Grace: 10 * time.Minute, InFlight: 5 * time.Minute, Silent: 3 * time.Minute, Streams: 10 * time.Millisecond})
	served := soon(t, l.accepted, "the connection")
	ctx, cancel := context.WithCancel(context.Background())
	c, _ := self.Begin(ctx, Incoming{Method: "GRPC", Path: "/watch", Probe: true, Cut: cancel})
	leave()
	soon(t, ctx.Done(), "the end of the watch")
	c.End(true)
	client.Close()
	served.Close()
	if rep := soon(t, result, "Run's return"); rep.Exit != ExitClean || rep.CutCount+rep.OverranCount+rep.UnansweredCount != 0 {
		t.Errorf("%+v", rep)
	}
}

// A probe that gives up is no loss; a request that somebody makes at the same path and by name is.
func TestAProbeThatGivesUpIsNoLoss(t *testing.T) {
	for header, want := range map[string]int{"X-Nobody: 1": 0, "Eider-Caller: checkout@b2": 1} {
		h := newHeld()
		r := begin(t, h.ServeHTTP, nil)
		p := r.dial()
		p.send("/healthz", header)
		soon(t, h.in, "the request")
		r.leave()
		p.Conn.(*net.TCPConn).SetLinger(0)
		p.Close()
		r.barrier()
		r.unlistened()
		close(h.release)
		if rep := r.end(); rep.UnansweredCount != want || (rep.Exit == ExitClean) != (want == 0) {
			t.Errorf("%s: %+v", header, rep)
		}
	}
}

// An event stream whose client hears of the leave and goes is no loss.
func TestAStreamThatItsClientEndsIsNoLoss(t *testing.T) {
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-Started(req.Context())
		io.WriteString(w, "event: leaving\n\n")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}, func(_ *http.Server, c *Config) {
		c.Grace, c.InFlight, c.Streams = 10*time.Minute, 5*time.Minute, 3*time.Minute
	})
	p := r.dial()
	p.send("/events")
	p.head()
	r.leave()
	if _, err := p.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.Close()
	r.barrier()
	if rep := r.end(); rep.Exit != ExitClean || rep.UnansweredCount != 0 {
		t.Errorf("%+v", rep)
	}
}
