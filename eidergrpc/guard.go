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
	"github.com/eiderhq/eider/bulkhead"
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

	Bulkhead *bulkhead.Config // bounds the unary calls in flight; nil means none

	// Failed tells which statuses are failures; nil means UNAVAILABLE, and DEADLINE_EXCEEDED after a second: see Config.Failed.
	Failed func(codes.Code) bool

	once     sync.Once
	breaker  *breaker.Breaker
	bulkhead *bulkhead.Bulkhead
}

func (g *Guard) start() {
	g.once.Do(func() {
		g.breaker = breaker.New(g.Breaker)
		if g.Bulkhead != nil {
			g.bulkhead = bulkhead.New(*g.Bulkhead)
		}
	})
}

// Snapshot is what the breaker knows.
func (g *Guard) Snapshot() breaker.Snapshot {
	g.start()
	return g.breaker.Snapshot()
}

// Unary is a [grpc.UnaryClientInterceptor]. A call that the guards don't let through gets UNAVAILABLE, with the
// *breaker.Rejected or *bulkhead.Full below it.
func (g *Guard) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	g.start()
	permit, err := g.breaker.Allow()
	if err != nil {
		return &Error{codes.Unavailable, err}
	}
	var slot bulkhead.Slot
	if g.bulkhead != nil {
		if slot, err = g.bulkhead.Acquire(ctx); err != nil {
			permit.Settle(breaker.Neutral)
			return &Error{codes.Unavailable, err}
		}
	}
	begun, o := time.Now(), breaker.Failure // what a panic is
	defer func() {
		permit.Settle(o)
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

// Stream is a [grpc.StreamClientInterceptor]. What counts is how the stream ends; one that is a trial has gone well with its
// first message.
func (g *Guard) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	g.start()
	permit, err := g.breaker.Allow()
	if err != nil {
		return nil, &Error{codes.Unavailable, err}
	}
	if !permit.Trial() {
		permit = permit.Answered()
	}
	s := &guardedStream{g: g, begun: time.Now(), permit: permit, ctx: ctx}
	opened := false
	defer func() {
		if !opened {
			s.end(breaker.Failure)
		}
	}()
	s.ClientStream, err = open(ctx, desc, cc, method, opts...)
	opened = true
	if err != nil {
		s.end(g.judge(ctx, err, time.Since(s.begun)))
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
	g      *Guard
	ctx    context.Context
	begun  time.Time
	permit breaker.Permit
	ended  atomic.Bool
}

func (s *guardedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == io.EOF:
		s.end(breaker.Success)
	case err != nil:
		s.end(s.g.judge(s.ctx, err, time.Since(s.begun)))
	case s.permit.Trial():
		s.end(breaker.Success)
	}
	return err
}

func (s *guardedStream) end(o breaker.Outcome) {
	if !s.ended.Swap(true) {
		s.permit.Settle(o)
	}
}
