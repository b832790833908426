package eidergrpc

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
)

// guarded is a channel of one's own to a parrot, with a Guard before it.
func guarded(t *testing.T, g *Guard, p *parrot) *grpc.ClientConn {
	t.Helper()
	addr, _ := serve(t, p)
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(g.Unary), grpc.WithChainStreamInterceptor(g.Stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func sayBy(ctx context.Context, cc *grpc.ClientConn) error {
	return cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue))
}

// talk opens a stream and waits for one answer.
func talkBy(ctx context.Context, cc *grpc.ClientConn) error {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "Talk", ClientStreams: true, ServerStreams: true}, talkMethod)
	if err != nil {
		return err
	}
	if err := s.SendMsg(wrapperspb.String("")); err != nil {
		return err
	}
	return s.RecvMsg(new(wrapperspb.StringValue))
}

func TestAGuardCountsWhatStatusesSay(t *testing.T) {
	for code, want := range map[codes.Code]breaker.State{
		codes.OK: breaker.Closed, codes.Unavailable: breaker.Open, codes.NotFound: breaker.Closed, codes.Internal: breaker.Closed,
		codes.ResourceExhausted: breaker.Closed, codes.DeadlineExceeded: breaker.Closed, codes.Canceled: breaker.Closed,
	} {
		g := &Guard{Breaker: breaker.Config{Consecutive: 3, OpenFor: time.Hour, MaxOpen: time.Hour}}
		cc := guarded(t, g, &parrot{do: func(context.Context) error { return status.Error(code, "as it is told") }})
		for range 3 {
			if err := sayBy(t.Context(), cc); status.Code(err) != code {
				t.Fatalf("%v: %v", code, err)
			}
		}
		if got := g.Snapshot(); got.State != want || got.InFlight != 0 {
			t.Errorf("%v: %+v", code, got)
		}
		if want != breaker.Open {
			continue
		}
		for name, err := range map[string]error{"unary": sayBy(t.Context(), cc), "stream": talkBy(t.Context(), cc)} {
			var r *breaker.Rejected
			if status.Code(err) != codes.Unavailable || !errors.As(err, &r) || r.Rule != breaker.RuleConsecutive {
				t.Errorf("%s: turned away with %v", name, err)
			}
		}
	}
}

func TestAGuardsOwnFailures(t *testing.T) {
	g := &Guard{Breaker: breaker.Config{Consecutive: 1}, Failed: func(c codes.Code) bool { return c == codes.NotFound }}
	cc := guarded(t, g, &parrot{do: func(context.Context) error { return status.Error(codes.NotFound, "no such parrot") }})
	_ = sayBy(t.Context(), cc)
	if s := g.Snapshot(); s.State != breaker.Open {
		t.Errorf("%+v", s)
	}
}

// A call that hangs counts while it does, and the caller's own cancel says nothing.
func TestAGuardSeesCallsThatHang(t *testing.T) {
	hang := make(chan struct{})
	g := &Guard{Breaker: breaker.Config{SlowLimit: 100 * time.Millisecond}, Bulkhead: &bulkhead.Config{Limit: 10}}
	cc := guarded(t, g, &parrot{do: func(ctx context.Context) error {
		select {
		case <-hang:
		case <-ctx.Done():
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 10)
	for range 10 {
		go func() { ended <- sayBy(ctx, cc) }()
	}
	for g.Snapshot().State != breaker.Open {
		<-time.After(5 * time.Millisecond)
	}
	if s := g.Snapshot(); s.Rule != breaker.RuleHanging {
		t.Errorf("%+v", s)
	}
	cancel()
	for range 10 {
		<-ended
	}
	close(hang)
	if in := g.bulkhead.Snapshot().InFlight; in != 0 {
		t.Errorf("%d places are taken by nobody", in)
	}
}

func TestAGuardsBulkheadIsFull(t *testing.T) {
	hang := make(chan struct{})
	g := &Guard{Bulkhead: &bulkhead.Config{Limit: 1}}
	cc := guarded(t, g, &parrot{do: func(context.Context) error { <-hang; return nil }})
	first := make(chan error, 1)
	go func() { first <- sayBy(t.Context(), cc) }()
	for g.Snapshot().InFlight == 0 || g.bulkhead.Snapshot().InFlight == 0 {
		<-time.After(time.Millisecond)
	}
	if err := sayBy(t.Context(), cc); status.Code(err) != codes.Unavailable || !errors.Is(err, bulkhead.ErrFull) {
		t.Errorf("the second gets %v", err)
	}
	close(hang)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if s := g.Snapshot(); s.InFlight != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

// A stream counts by how it ends, and is never slow; one that is a trial has gone well with its first message.
func TestAGuardsStreams(t *testing.T) {
	g := &Guard{Breaker: breaker.Config{Consecutive: 1, OpenFor: time.Nanosecond, MaxOpen: time.Nanosecond, TrialTimeout: time.Hour}}
	p := &parrot{name: "a"}
	cc := guarded(t, g, p)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := talkBy(ctx, cc); err != nil {
		t.Fatal(err)
	}
	if s := g.Snapshot(); s.InFlight != 0 || s.Slow != 0 || s.State != breaker.Closed {
		t.Errorf("a stream that goes on: %+v", s)
	}
	g.gate.Own().Report(breaker.Refused)
	if err := talkBy(ctx, cc); err != nil { // the trial
		t.Fatal(err)
	}
	if s := g.Snapshot(); s.State != breaker.Closed {
		t.Errorf("after a trial that was answered: %+v", s)
	}
}

// TestAGuardsFleet is shared by the Guards of several processes.
func TestAGuardsFleet(t *testing.T) {
	store := fleet.NewMemory(0)
	p := &parrot{name: "a", do: func(context.Context) error { return status.Error(codes.Unavailable, "no") }}
	var all []*grpc.ClientConn
	for range 2 {
		g := &Guard{Breaker: breaker.Config{Window: 1000}, Fleet: &fleet.Config{Store: store, Key: "shop", Quorum: 2,
			Report: 5 * time.Millisecond, Poll: 10 * time.Millisecond, OpenFor: forHours, MaxOpen: forHours, Lease: forHours, Wait: patience}}
		t.Cleanup(g.Close)
		all = append(all, guarded(t, g, p))
	}
	rejects := func(err error) bool {
		r, ok := errors.AsType[*breaker.Rejected](err)
		return ok && r.Name == "shop of the fleet" && status.Code(err) == codes.Unavailable
	}
	for end := time.Now().Add(patience); ; {
		turned := 0
		for _, cc := range all {
			if rejects(sayBy(t.Context(), cc)) && rejects(talkBy(t.Context(), cc)) {
				turned++
			}
		}
		if turned == len(all) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it never opened")
		}
	}
	if err := sayBy(t.Context(), guarded(t, &Guard{Fleet: &fleet.Config{Store: store}}, p)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a key: %v", err)
	}
}

// Whoever sends a stream and is sent one answer reads that and no io.EOF after it, so that the answer is its end.
func TestAGuardCountsCallsThatHaveOneAnswer(t *testing.T) {
	g := &Guard{}
	p := &parrot{name: "a", do: func(context.Context) error { return nil }}
	cc := guarded(t, g, p)
	for range 20 {
		s, err := cc.NewStream(t.Context(), &grpc.StreamDesc{StreamName: "Say", ClientStreams: true}, sayMethod)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.SendMsg(wrapperspb.String("")), s.CloseSend(), s.RecvMsg(new(wrapperspb.StringValue))); err != nil {
			t.Fatal(err)
		}
	}
	if s := g.Snapshot(); s.Outcomes != 20 || s.Failures != 0 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// What judges a stream is the user's own, and may panic: the stream has failed then, whether it was being opened or read.
func TestAGuardWhoseJudgePanicsCountsTheStream(t *testing.T) {
	panics := func(do func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("it didn't panic")
			}
		}()
		do()
	}
	for name, open := range map[string]grpc.Streamer{
		"opened": func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, status.Error(codes.Unavailable, "no")
		},
		"read": func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return unread{}, nil
		},
	} {
		g := &Guard{Failed: func(codes.Code) bool { panic("no idea") }}
		panics(func() {
			if s, err := g.Stream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, nil, talkMethod, open); err == nil {
				s.RecvMsg(nil)
			}
		})
		if s := g.Snapshot(); s.Outcomes != 1 || s.Failures != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// unread is a stream that fails.
type unread struct{ grpc.ClientStream }

func (unread) RecvMsg(any) error { return status.Error(codes.Unavailable, "no") }
