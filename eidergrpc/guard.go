package eidergrpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/internal/gate"
)

// Guard is for those who have a channel of their own: it puts a breaker, and a bulkhead if asked, before what that calls,
// whoever serves it. It picks nobody and makes no call again. A Guard is one channel's:
//
//	g := &eidergrpc.Guard{}
//	cc, err := grpc.NewClient(target, creds, grpc.WithChainUnaryInterceptor(g.Unary), grpc.WithChainStreamInterceptor(g.Stream))
//
// The zero value works. It must not be copied or changed after its first use; its methods may be called from any goroutine.
type Guard struct {
	// Breaker has the rules; the zero value is breaker's own. A unary call that is slow, or hangs, counts; a stream is never
	// slow. The caller's deadline counts if it left a second.
	Breaker breaker.Config

	// Fleet is the one breaker that all callers have of whoever serves it, as Config.Fleet tells; nil means none. Store and Key must
	// be set, and Local isn't used: Breaker has the rules. A Guard with a Fleet is ended by Close.
	Fleet *fleet.Config

	Bulkhead *bulkhead.Config // bounds the unary calls in flight; nil means none

	// Failed tells which statuses are failures; nil means UNAVAILABLE, and DEADLINE_EXCEEDED after a second: see Config.Failed.
	Failed func(codes.Code) bool

	once     sync.Once
	gate     *gate.Gate
	wrong    error // with Fleet
	bulkhead *bulkhead.Bulkhead
}

func (g *Guard) start() {
	g.once.Do(func() {
		g.gate = gate.Alone(g.Breaker)
		if g.Fleet != nil {
			set := gate.Config{Fleet: *g.Fleet, Slow: time.Second}
			set.Fleet.Local = g.Breaker
			if together, err := set.New(); err != nil {
				g.wrong = err
			} else {
				g.gate = together
			}
		}
		if g.Bulkhead != nil {
			g.bulkhead = bulkhead.New(*g.Bulkhead)
		}
	})
}

// Snapshot is what the breaker knows, with a Fleet this caller's own.
func (g *Guard) Snapshot() breaker.Snapshot {
	g.start()
	return g.gate.Own().Snapshot()
}

// Close ends what a Fleet has begun. Calls go on, each by this caller's own breaker.
func (g *Guard) Close() {
	g.start()
	g.gate.Close()
}

// ask asks the breaker for a call.
func (g *Guard) ask(ctx context.Context, waits bool) (gate.Pass, error) {
	g.start()
	if g.wrong != nil {
		return gate.Pass{}, &Error{codes.InvalidArgument, g.wrong}
	}
	pass, err := g.gate.Ask(ctx, waits)
	if err != nil {
		return pass, &Error{codes.Unavailable, err}
	}
	return pass, nil
}

// Unary is a [grpc.UnaryClientInterceptor]. A call that the guards don't let through gets UNAVAILABLE, with the
// *breaker.Rejected or *bulkhead.Full below it.
func (g *Guard) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	pass, err := g.ask(ctx, false)
	if err != nil {
		return err
	}
	var slot bulkhead.Slot
	if g.bulkhead != nil {
		if slot, err = g.bulkhead.Acquire(ctx); err != nil {
			pass.Settle(breaker.Neutral)
			return &Error{codes.Unavailable, err}
		}
	}
	if err := pass.Late(); err != nil {
		slot.Forget()
		return &Error{codes.Unavailable, err}
	}
	begun, o := time.Now(), breaker.Failure // what a panic is
	defer func() {
		pass.Settle(o)
		if o == breaker.Neutral {
			slot.Forget()
		} else {
			slot.Release(o == breaker.Success)
		}
	}()
	err = invoke(ctx, method, req, reply, cc, opts...)
	o = g.judge(ctx, err, time.Since(begun))
	return err
}

// Stream is a [grpc.StreamClientInterceptor]. What counts is how the stream ends, or its answer if it has but one; one that is a
// trial has gone well with its first message.
func (g *Guard) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	pass, err := g.ask(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := pass.Late(); err != nil {
		return nil, &Error{codes.Unavailable, err}
	}
	s := &guardedStream{g: g, begun: time.Now(), pass: pass, ctx: ctx, one: !desc.ServerStreams}
	opened := false
	defer func() {
		if !opened {
			s.end(breaker.Failure)
		}
	}()
	s.ClientStream, err = open(ctx, desc, cc, method, opts...)
	opened = true
	pass.Wrote()
	if err != nil {
		s.fail(err)
		return nil, err
	}
	return s, nil
}

// judge tells what a call's end says of whoever serves it. A status that isn't a failure is an answer.
func (g *Guard) judge(ctx context.Context, err error, took time.Duration) breaker.Outcome {
	answer := func(err error) breaker.Outcome {
		code := status.Code(err)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return breaker.Refused
		case g.Failed != nil && g.Failed(code), g.Failed == nil && (code == codes.Unavailable || code == codes.DeadlineExceeded && took >= time.Second):
			return breaker.Failure
		case code == codes.Canceled || code == codes.DeadlineExceeded:
			return breaker.Neutral
		}
		return breaker.Success
	}
	return breaker.Judge(ctx, err, took, time.Second, answer)
}

// guardedStream settles its permit with what it ends with.
type guardedStream struct {
	grpc.ClientStream
	g     *Guard
	ctx   context.Context
	begun time.Time
	pass  gate.Pass
	one   bool // one answer is all: nobody reads on to its io.EOF
	ended atomic.Bool
}

func (s *guardedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == io.EOF:
		s.end(breaker.Success)
	case err != nil:
		s.fail(err)
	case s.one || s.pass.Trial():
		s.end(breaker.Success)
	}
	return err
}

// fail ends it with what its error says.
func (s *guardedStream) fail(err error) {
	o := breaker.Failure // what a panic is
	defer func() { s.end(o) }()
	o = s.g.judge(s.ctx, err, time.Since(s.begun))
}

func (s *guardedStream) end(o breaker.Outcome) {
	if !s.ended.Swap(true) {
		s.pass.Settle(o)
	}
}
