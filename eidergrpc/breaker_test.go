package eidergrpc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/internal/fake"
)

// TestStatusesThatCountAgainstTheInstance: what a server says of itself, and what the user says; each is the caller's, once.
func TestStatusesThatCountAgainstTheInstance(t *testing.T) {
	exhausted := func(c codes.Code) bool { return c == codes.ResourceExhausted }
	for _, row := range []struct {
		code   codes.Code
		set    Config
		opened bool
	}{
		{codes.Unavailable, Config{}, true},
		{codes.DeadlineExceeded, Config{Slow: time.Nanosecond}, true},
		{codes.DeadlineExceeded, Config{Slow: time.Hour}, false},
		{codes.DeadlineExceeded, Config{Slow: time.Nanosecond, Waits: []string{"/test.Echo/"}}, false},
		{codes.Internal, Config{}, false}, {codes.Unknown, Config{}, false}, {codes.ResourceExhausted, Config{}, false},
		{codes.NotFound, Config{}, false},
		{codes.ResourceExhausted, Config{Failed: exhausted}, true},
		{codes.Unavailable, Config{Failed: exhausted}, false},
	} {
		t.Run(row.code.String(), func(t *testing.T) {
			w := newWorld(t)
			a := &parrot{name: "a", do: func(context.Context) error { return status.Error(row.code, "no") }}
			b := &parrot{name: "b"}
			addrA, _ := serve(t, a)
			addrB, _ := serve(t, b)
			w.Set("orders", fake.Up("orders", "a", addrA), fake.Spare("orders", "b", addrB))
			row.set.Breaker.OpenFor = time.Hour
			cc := w.client(row.set, "orders")
			for range 2 {
				if _, err := say(t, cc); status.Code(err) != row.code {
					t.Fatalf("got %v", err)
				}
			}
			if a.times() != 2 {
				t.Errorf("a was called %d times for two calls: a status is tried again", a.times())
			}
			say(t, cc)
			if opened := b.times() == 1; opened != row.opened {
				t.Errorf("%+v: the third call goes to b: %v, want %v", row.set, opened, row.opened)
			}
		})
	}
}

// TestK7CallsThatHangOpen, streams and declared long polls don't.
func TestK7CallsThatHangOpen(t *testing.T) {
	hang := func(got chan struct{}) *parrot {
		return &parrot{name: "a", do: func(ctx context.Context) error { got <- struct{}{}; <-ctx.Done(); return ctx.Err() }}
	}
	for _, row := range []struct {
		name   string
		set    Config
		stream bool
		opens  bool
	}{
		{"unary", Config{}, false, true},
		{"long polls", Config{Waits: []string{sayMethod}}, false, false},
		{"streams", Config{}, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			got := make(chan struct{}, 8)
			addrA, _ := serve(t, hang(got))
			addrB, _ := serve(t, &parrot{name: "b"})
			w.Set("orders", fake.Up("orders", "a", addrA), fake.Spare("orders", "b", addrB))
			row.set.Breaker = breaker.Config{SlowLimit: 300 * time.Millisecond, SlowMin: 5, OpenFor: time.Hour}
			cc := w.client(row.set, "orders")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 8)
			for range 5 {
				if row.stream {
					s := open(t, cc)
					if err := s.SendMsg(wrapperspb.String("")); err != nil {
						t.Fatal(err)
					}
					go func() { ended <- s.RecvMsg(new(wrapperspb.StringValue)) }()
					defer s.end()
				} else {
					go func() { ended <- cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue)) }()
				}
				<-got
			}
			<-time.After(400 * time.Millisecond)
			if row.opens {
				wantSay(t, cc, "b")
			} else {
				go func() { ended <- cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue)) }()
				select {
				case <-got:
				case err := <-ended:
					t.Errorf("a call ended: %v", err)
				case <-time.After(patience):
					t.Error("a isn't called any more")
				}
			}
			cancel()
		})
	}
}

func TestWhenEveryBreakerRejects(t *testing.T) {
	w := newWorld(t)
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Up("orders", "b", fake.DeadPort(t)))
	cc := w.client(Config{NoFloor: true, Breaker: breaker.Config{OpenFor: time.Hour}}, "orders")
	say(t, cc)
	_, err := say(t, cc)
	var e *eider.Error
	if status.Code(err) != codes.Unavailable || !errors.Is(err, breaker.ErrRejected) || !errors.As(err, &e) || e.RetryAfter < 59*time.Minute ||
		!strings.Contains(err.Error(), "orders/a is open: the connection was refused; try again in ") || !strings.Contains(err.Error(), "orders/b") {
		t.Errorf("got %v, %+v", err, e)
	}
}

func TestWithoutBreakersNobodyIsSetAside(t *testing.T) {
	w := newWorld(t)
	addrB, _ := serve(t, &parrot{name: "b"})
	a := &parrot{name: "a", do: func(context.Context) error { return status.Error(codes.Unavailable, "no") }}
	addrA, _ := serve(t, a)
	w.Set("orders", fake.Up("orders", "a", addrA), fake.Spare("orders", "b", addrB))
	cc := w.client(Config{NoBreakers: true}, "orders")
	for range 10 {
		say(t, cc)
	}
	if a.times() != 10 {
		t.Errorf("a was called %d of 10 times", a.times())
	}
}

// TestABulkheadBoundsWhatHangs: so many calls wait for a, the next one fails at once; a stream takes no room.
func TestABulkheadBoundsWhatHangs(t *testing.T) {
	w := newWorld(t)
	got := make(chan struct{}, 8)
	addr, _ := serve(t, &parrot{name: "a", do: func(ctx context.Context) error { got <- struct{}{}; <-ctx.Done(); return ctx.Err() }})
	w.Set("orders", fake.Up("orders", "a", addr))
	cc := w.client(Config{Bulkhead: &bulkhead.Config{Limit: 2}}, "orders")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range 2 {
		s := open(t, cc)
		defer s.end()
		go func() { ended <- cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue)) }()
		<-got
	}
	if _, err := say(t, cc); !errors.Is(err, bulkhead.ErrFull) || status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	cancel()
	<-ended
	<-ended
}
