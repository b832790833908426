package eidergrpc

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/internal/fake"
)

// TestWhatACallShowsOfItsService: each of them is one outcome, or none, and none is forgotten.
func TestWhatACallShowsOfItsService(t *testing.T) {
	for _, c := range append(answers(), endings(t)...) {
		t.Run(c.name, func(t *testing.T) {
			p := &parrot{name: "a", do: c.does}
			addr, _ := serve(t, p)
			if c.dead {
				addr = fake.DeadPort(t)
			}
			a := fake.Up("orders", "a", addr)
			if c.in != nil {
				a = c.in(a)
			}
			instances := []eider.Instance{a}
			if c.spare {
				addr, _ := serve(t, &parrot{name: "b"})
				instances = append(instances, fake.Spare("orders", "b", addr))
			}
			if c.nobody {
				instances = nil
			}
			c.set.NoBreakers = true
			m := together(t, 1, fleet.Config{Local: breaker.Config{FailureMin: 1000}}, c.set, c.opts, instances...)[0]
			if c.do == nil {
				c.do = func(m *member) { m.say() }
			}
			c.do(m)
			s := m.knows().Local
			if s.Total != c.counts || s.Failures != c.fails || s.InFlight != 0 {
				t.Errorf("%d outcomes, of which %d failures, and %d in flight; want %d, %d, none", s.Total, s.Failures, s.InFlight, c.counts, c.fails)
			}
		})
	}
}

type shownCase struct {
	name                string
	set                 Config
	opts                []grpc.DialOption
	does                func(context.Context) error
	dead, spare, nobody bool
	in                  func(eider.Instance) eider.Instance
	do                  func(*member)
	counts, fails       uint64
}

func saying(c codes.Code) func(context.Context) error {
	return func(context.Context) error { return status.Error(c, "as it is told") }
}

func answers() []shownCase {
	held := func(in eider.Instance) eider.Instance { in.Hold = &eider.Hold{}; return in }
	stream := func(m *member) {
		s := open(m.t, m.cc)
		if s.say("x"); s.CloseSend() == nil {
			s.RecvMsg(new(wrapperspb.StringValue))
		}
	}
	return []shownCase{
		{name: "OK", counts: 1},
		{name: "NotFound", does: saying(codes.NotFound), counts: 1},
		{name: "Unavailable", does: saying(codes.Unavailable), counts: 1, fails: 1},
		{name: "Unavailable, of one that leaves", does: saying(codes.Unavailable), in: fake.Draining},
		{name: "Unavailable, of one that is held", does: saying(codes.Unavailable), in: held},
		{name: "a stream", do: stream, counts: 1},
		{name: "a stream that fails", does: saying(codes.Unavailable), do: stream, counts: 1, fails: 1},
		{name: "refused, and answered elsewhere", dead: true, spare: true, counts: 1},
		{name: "refused", dead: true, counts: 1, fails: 1},
		{name: "refused, of one that leaves", dead: true, in: fake.Draining},
		{name: "refused, a stream", dead: true, counts: 1, fails: 1, do: func(m *member) { talkBy(m.t.Context(), m.cc) }},
		{name: "nobody is there", nobody: true},
		{name: "lost on the way to the picker", opts: []grpc.DialOption{grpc.WithStatsHandler(forgetter{})}, counts: 1},
		{name: "lost, and it fails", opts: []grpc.DialOption{grpc.WithStatsHandler(forgetter{})}, does: saying(codes.Unavailable), counts: 1, fails: 1},
	}
}

func endings(t *testing.T) []shownCase {
	breaks := func(end func()) []grpc.DialOption {
		return []grpc.DialOption{grpc.WithPerRPCCredentials(breaking{end})}
	}
	gone := func(m *member) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { _ = recover() }()
			m.say()
		}()
		<-over
	}
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	hang := func(context.Context) error { <-over; return nil } // nor does it say that the deadline has come
	ends := func(d time.Duration) func(*member) {
		return func(m *member) {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			sayBy(ctx, m.cc)
		}
	}
	begun := make(chan struct{}, 1)
	first := func(ctx context.Context) error { begun <- struct{}{}; return hang(ctx) }
	return []shownCase{
		{name: "the caller hangs up", does: hang, set: Config{Slow: time.Nanosecond}, do: func(m *member) {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				<-time.After(50 * time.Millisecond)
				cancel()
			}()
			sayBy(ctx, m.cc)
		}},
		{name: "the deadline came soon", does: hang, set: Config{Slow: time.Hour}, do: ends(50 * time.Millisecond)},
		{name: "there was time enough", does: first, set: Config{Slow: time.Nanosecond}, do: expires(begun), counts: 1, fails: 1},
		{name: "a long poll's deadline", does: hang, set: Config{Slow: time.Nanosecond, Waits: []string{sayMethod}}, do: ends(50 * time.Millisecond)},
		{name: "a bulkhead is full", does: first, set: Config{Bulkhead: &bulkhead.Config{Limit: 1}}, do: func(m *member) {
			ctx, cancel := context.WithCancel(context.Background())
			over := make(chan struct{})
			go func() {
				defer close(over)
				sayBy(ctx, m.cc)
			}()
			<-begun
			if err := m.say(); !errors.Is(err, bulkhead.ErrFull) {
				m.t.Errorf("got %v", err)
			}
			cancel()
			<-over
		}},
		{name: "a panic", opts: breaks(func() { panic("no") }), do: gone, counts: 1, fails: 1},
		{name: "the goroutine ends", opts: breaks(runtime.Goexit), do: gone, counts: 1, fails: 1},
		{name: "a stream's panic", opts: breaks(func() { panic("no") }), counts: 1, fails: 1, do: func(m *member) {
			defer func() { _ = recover() }()
			talkBy(m.t.Context(), m.cc)
		}},
	}
}

// expires makes a call whose deadline passes once it is there: before one of the clock's nobody may have been asked.
func expires(begun <-chan struct{}) func(*member) {
	return func(m *member) {
		ctx := &expiring{Context: context.Background(), done: make(chan struct{})}
		over := make(chan struct{})
		go func() {
			defer close(over)
			sayBy(ctx, m.cc)
		}()
		<-begun
		ctx.expire()
		<-over
	}
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	done    chan struct{}
	expired atomic.Bool
}

func (e *expiring) Done() <-chan struct{} { return e.done }

func (e *expiring) Err() error {
	if e.expired.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func (e *expiring) expire() {
	e.expired.Store(true)
	close(e.done)
}

// breaking are credentials that break a call off.
type breaking struct{ end func() }

func (b breaking) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	b.end()
	return nil, nil
}
func (breaking) RequireTransportSecurity() bool { return false }
