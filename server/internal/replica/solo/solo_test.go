package solo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/registrytest"
	"github.com/eiderhq/eider/server/internal/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	registrytest.Run(t, func(t *testing.T, s registrytest.Setup) replica.Registry {
		return New(Config{Fresh: s.Fresh, Dial: s.Dial, Logger: slog.New(slog.DiscardHandler)})
	})
}

// run starts a node and ends it with the test.
func run(t testing.TB, cfg Config) *Registry {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Fresh = true
	r := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for !r.Node().Ready {
		runtime.Gosched()
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

var loopback = netip.MustParseAddr("127.0.0.1")

func attach(t testing.TB, r *Registry, name string) replica.Attachment {
	t.Helper()
	a, err := r.Attach(replica.Peer{Caller: name, Addr: loopback})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func record(service, id, address string, nonce uint64) eider.Record {
	return eider.Record{Key: eider.Key{Service: service, ID: id}, Incarnation: eider.Incarnation{Nonce: nonce},
		Attachment: 1, Status: eider.Up, Address: address}
}

func register(t testing.TB, a replica.Attachment, rec eider.Record) {
	t.Helper()
	if _, err := a.Register(rec, 0, [16]byte{}); err != nil {
		t.Fatal(err)
	}
}

func follow(t testing.TB, r *Registry, name, service string) replica.Watcher {
	t.Helper()
	w, err := r.Watch(replica.Peer{Caller: name, Addr: loopback})
	if err == nil {
		err = w.Subscribe(service, eider.Cursor{}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func views(t testing.TB, w replica.Watcher, within time.Duration) []*pb.View {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	frames, err := w.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []*pb.View
	for _, f := range frames {
		var m pb.WatchReply
		if err := proto.Unmarshal(f, &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m.GetView())
	}
	return out
}

// With real sockets: the listener of a process that ended refuses, and its callers hear DEAD by the
// first dial.
func TestAClosedListenerIsDeadByTheFirstDial(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	})
	var dials atomic.Int64
	r := run(t, Config{Dial: func(ctx context.Context, address string) error {
		if dials.Add(1) > 2 { // whether it is reachable, and the first after its end: no other one tells anything
			<-ctx.Done()
			return ctx.Err()
		}
		return dialTCP(context.WithoutCancel(ctx), address) // a busy machine may take longer than a node waits
	}})
	a := attach(t, r, "p")
	register(t, a, record("orders", "1", lis.Addr().String(), 1))
	w := follow(t, r, "c", "orders")
	views(t, w, 10*time.Second)
	settle(t, r)

	lis.Close()
	accepting.Wait()
	start := time.Now()
	a.End(replica.Lost)
	for dead := false; !dead; {
		for _, v := range views(t, w, 10*time.Second) {
			dead = dead || len(v.GetGone()) == 1 && v.GetGone()[0].GetStatus() == pb.Status_STATUS_DEAD
		}
	}
	t.Logf("stream ended → DEAD heard by a caller: %s", time.Since(start))
}

// settle waits until a dial that asks whether the address is reachable has been answered.
func settle(t *testing.T, r *Registry) {
	t.Helper()
	for start := time.Now(); ; runtime.Gosched() {
		r.mu.Lock()
		done := r.dials.checks.running+len(r.dials.checks.queue) == 0
		r.mu.Unlock()
		if done {
			return
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("the dial of the new address hasn't ended after 10s")
		}
	}
}

// sleeper is a log that stops the node: whoever logs takes as long as nap says.
type sleeper struct {
	slog.Handler
	nap atomic.Int64
}

func (*sleeper) Enabled(context.Context, slog.Level) bool { return true }

func (s *sleeper) Handle(context.Context, slog.Record) error {
	<-time.After(time.Duration(s.nap.Swap(0)))
	return nil
}

// A node that didn't run for 30 s (SIGSTOP, a suspended machine) finds no beats of that time, and ends
// nobody for it: also not the only instance of a service.
func TestAPausedNodeEndsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &sleeper{Handler: slog.DiscardHandler}
		r := New(Config{Fresh: true, Logger: slog.New(log), Dial: func(context.Context, string) error { return nil }})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		var as []replica.Attachment
		for i := range 3 {
			a := attach(t, r, fmt.Sprint("p", i))
			register(t, a, record(fmt.Sprint("s", i), "1", fmt.Sprintf("127.0.0.1:%d", 7000+i), uint64(i)+1))
			as = append(as, a)
		}
		beats := func(n int) {
			for range n {
				for _, a := range as {
					a.Beat()
				}
				time.Sleep(2 * time.Second)
			}
		}
		beats(10)
		const pause = 30 * time.Second
		log.nap.Store(int64(pause)) // Run stands still at the next event
		if err := as[0].SetStatus(eider.Key{Service: "s0", ID: "1"}, eider.Down); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pause) // and nobody else runs either: beats wait in sockets
		beats(30)
		for i := range 3 {
			v, _ := r.View(fmt.Sprint("s", i))
			if in, ok := v.Find("1"); !ok || in.Status.Gone() || in.Suspicion != 0 {
				t.Errorf("after the pause s%d is %+v", i, v)
			}
		}
		events, _ := r.Events(0)
		paused := 0
		for _, e := range events {
			switch e.Kind {
			case eider.EventPaused:
				paused++
			case eider.EventLapsed, eider.EventDead:
				t.Errorf("the pause ended somebody: %s", e)
			}
		}
		if paused != 1 {
			t.Errorf("%d events of a pause, want 1", paused)
		}
		cancel()
		<-ended
	})
}

func TestARegistryRunsOnce(t *testing.T) {
	r := New(Config{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Errorf("the first Run: %v", err)
	}
	if err := r.Run(ctx); eider.KindOf(err) != eider.Closed {
		t.Errorf("the second Run: %v, want an error that is closed", err)
	}
}

func TestWatchersAreLimited(t *testing.T) {
	r := run(t, Config{MaxWatchers: 2})
	for range 2 {
		follow(t, r, "c", "orders")
	}
	_, err := r.Watch(replica.Peer{Caller: "c"})
	if eider.KindOf(err) != eider.Limited {
		t.Errorf("the third of two watchers: %v", err)
	}
}

// A beat is the one call that every process makes every other second.
func TestABeatAllocatesNothing(t *testing.T) {
	r := run(t, Config{})
	a := attach(t, r, "p")
	register(t, a, record("orders", "1", "127.0.0.1:7000", 1))
	if n := testing.AllocsPerRun(1000, func() { a.Beat() }); n != 0 {
		t.Errorf("%v allocations a beat, want 0", n)
	}
}

// Everything at once, for the race detector and against deadlocks.
func TestEverythingAtOnce(t *testing.T) {
	r := run(t, Config{Dial: func(context.Context, string) error { return errors.New("no route") }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { live(t, ctx, r, i) })
		all.Go(func() { call(t, r, i) })
		all.Go(func() {
			for range 200 {
				r.Node()
				r.Services()
				r.View("orders")
				r.Callers("")
				r.Drains("")
				r.Events(0)
			}
		})
	}
	all.Wait()
}

func live(t *testing.T, ctx context.Context, r *Registry, i int) {
	for n := range 30 {
		a := attach(t, r, fmt.Sprint("p", i))
		var hearing sync.WaitGroup
		hearing.Go(func() {
			var err error
			for err == nil {
				_, err = a.Next(ctx)
			}
		})
		rec := record("orders", fmt.Sprint(i), fmt.Sprintf("127.0.0.1:%d", 7000+i), uint64(100*i+n)+1)
		register(t, a, rec)
		a.Beat()
		if err := a.SetStatus(rec.Key, eider.Down); err != nil {
			t.Error(err)
		}
		if err := errors.Join(a.Leave(rec.Key, 0), a.Left(rec.Key)); err != nil {
			t.Error(err)
		}
		a.End(replica.Lost)
		hearing.Wait()
	}
}

func call(t *testing.T, r *Registry, i int) {
	for range 30 {
		w := follow(t, r, fmt.Sprint("c", i), "orders")
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err := w.Next(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			w.Ack("orders", eider.Cursor{}, nil, nil)
		}
		w.End(replica.Lost)
	}
}
