package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/retry"
)

// side is what the streams Attach and Watch differ in. due, ping, parting and moving are called by a stream's
// writer, the rest by its reader; lost comes after both have ended.
type side[Req, Reply any] interface {
	open(context.Context, grpc.ClientConnInterface) (talk[Req, Reply], error)
	hello() *Req
	welcome(*Reply) *pb.Welcome
	opened(*pb.Welcome, *link)
	bell() <-chan struct{}
	later() <-chan time.Time                                    // a bell for what may wait; nil: nothing may
	due(now time.Time) (say []*Req, again time.Time, err error) // what is to be said now, and when to look again; zero: when the bell rings
	ping() *Req
	heard(*Reply) (answer bool, err error) // answer: to a ping; an error ends the stream
	lost(error)
	parting() (last *Req, gracefully bool) // the last word before Close; nil: none
	moving() *Req                          // the last word before another stream to another node
}

// talk is one stream. What Recv returns may be used again by the next Recv.
type talk[Req, Reply any] interface {
	Send(*Req) error
	Recv() (*Reply, error)
	CloseSend() error
}

// ended is the node's last word on a stream.
type ended struct {
	reattach bool
	err      error
	after    uint32 // milliseconds
}

func (e *ended) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return "the registry asks to come back with a new stream"
}

func (e *ended) Unwrap() error { return e.err }

func toEnded(m *pb.End) *ended {
	return &ended{reattach: m.GetReattach(), err: wire.ToError("", m.GetError()), after: m.GetError().GetRetryAfterMs()}
}

var (
	errHung  = fmt.Errorf("it gave no answer for %s or more; the stream was cut", answerWithin)
	errMoved = errors.New("moved to another connection")
)

// keep holds one stream open until Close: connect, speak, and come back for ever after a pause that doubles
// with every stream that ended at once, with full jitter, so that neither a node that is away nor one
// that answers errors at once is ever asked in a loop.
func keep[Req, Reply any](r *Registry, what string, sd side[Req, Reply]) {
	attempt, down, met := 0, false, false
	for !r.isClosed() {
		s := session[Req, Reply]{reg: r, side: sd, up: func() {
			if down {
				r.log.Info(backAgain(met), "stream", what)
			}
			down, met = false, true
		}}
		lived, err := s.once()
		sd.lost(err)
		if r.isClosed() || errors.Is(err, errMoved) {
			continue
		}
		if lived >= steadyAfter {
			attempt = 0
		}
		if !down {
			r.log.Warn(r.missing(what, met, err), "stream", what, "error", err)
		}
		down = true
		r.pause(waitFor(err, attempt, rand.Float64()))
		attempt++
	}
}

// waitFor says how long to stay away after a stream has ended: at least what the node asked for, if it did.
func waitFor(err error, attempt int, rnd float64) time.Duration {
	backoff := retry.Backoff{}
	if eider.KindOf(err) == eider.Denied {
		backoff = retry.Backoff{Base: 500 * time.Millisecond, Max: 15 * time.Second} // somebody has to mend it
	}
	return atLeast(err, backoff.Delay(attempt, rnd), rnd)
}

// atLeast makes a wait as long as the error's retry-after, spread upwards so that not all come back at once.
func atLeast(err error, wait time.Duration, rnd float64) time.Duration {
	if e, ok := errors.AsType[*eider.Error](err); ok && e.RetryAfter > 0 {
		return max(wait, retry.Late(min(e.RetryAfter, longestWait), 0.25, rnd))
	}
	return wait
}

// pause waits; false means that Close has begun.
func (r *Registry) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.closing.Done():
		return false
	}
}

// session is one stream from its opening to its end.
type session[Req, Reply any] struct {
	reg  *Registry
	side side[Req, Reply]
	up   func() // called when the node has welcomed us

	link   *link
	stream talk[Req, Reply]
	ctx    context.Context
	cut    context.CancelCauseFunc
	begun  time.Time
	dog    *time.Timer  // cuts the stream of a node that doesn't answer
	asked  atomic.Bool  // an answer is awaited
	since  atomic.Int64 // begun, in ns, when it was last asked for
	waits  atomic.Int64 // ns that the dog waits for an answer: as for the Welcome, and half of that with each that is soon
	gone   error        // why the writer has said its last word; read once it has ended
	moved  atomic.Bool  // that was because of another connection, so the dog waits no longer than farewell
}

// once opens a stream, speaks it to its end, and returns how long it was welcome and why it ended.
func (s *session[Req, Reply]) once() (lived time.Duration, err error) {
	if s.link, err = s.reg.links.take(); err != nil {
		return 0, &eider.Error{Op: "reach registry", Kind: eider.KindOf(err), Err: err}
	}
	s.ctx, s.cut = context.WithCancelCause(s.reg.ctx)
	s.begun = time.Now()
	s.waits.Store(int64(s.link.greet))
	s.dog = time.AfterFunc(s.link.greet, func() { s.cut(errHung) })
	lived, err = s.speak()
	s.dog.Stop()
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	hung := errors.Is(err, errHung)
	s.cut(nil)
	if s.gone != nil {
		err = s.gone
	}
	err = s.link.explain(err)
	s.reg.links.give(s.link, s.broken(err), hung)
	return lived, err
}

// broken tells whether the link is to be given up: it doesn't stand, or its node can't serve. With only
// one address to go to, a node that refuses by any other word is asked again over the link that stands.
func (s *session[Req, Reply]) broken(err error) bool {
	if errors.Is(err, errOlder) {
		return false // it serves the others
	}
	switch {
	case errors.Is(err, errMoved) || errors.Is(err, errClosed):
		return false
	case !s.link.up() || eider.KindOf(err) == eider.Unavailable || eider.KindOf(err) == eider.Denied:
		return true // whoever was denied shows what his files hold by then
	}
	_, said := errors.AsType[*ended](err)
	return s.reg.links.several() && !said
}

// speak greets, starts the writer, and reads until the stream ends.
func (s *session[Req, Reply]) speak() (lived time.Duration, err error) {
	early := context.AfterFunc(s.reg.closing, func() { s.cut(errClosed) }) // nothing to say goodbye to yet
	defer early()
	if s.stream, err = s.side.open(s.ctx, s.link.cc); err != nil {
		return 0, err
	}
	defer s.cut(nil) // gRPC keeps a stream that nobody reads until its context ends
	if err = s.stream.Send(s.side.hello()); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	reply, err := s.stream.Recv()
	if err != nil {
		return 0, err
	}
	welcome := s.side.welcome(reply)
	if welcome == nil {
		if _, err = s.side.heard(reply); err == nil {
			err = errors.New("the registry didn't begin with Welcome; is it of another version?")
		}
		return 0, err
	}
	early()
	begin := time.Now()
	s.calm()
	s.link.stood.Store(true)
	s.side.opened(welcome, s.link)
	s.up()
	s.reg.links.homeward(s.reg)
	writer := make(chan struct{})
	go func() {
		defer close(writer)
		s.write()
	}()
	err = s.read()
	s.cut(err)
	<-writer
	return time.Since(begin), err
}

func (s *session[Req, Reply]) read() error {
	for {
		reply, err := s.stream.Recv()
		if err != nil {
			return err
		}
		answer, err := s.side.heard(reply)
		if err != nil {
			return err
		}
		if answer {
			s.answered()
		}
	}
}

// answered takes an answer. A node that gives it soon has no herd before it, or has it no more.
func (s *session[Req, Reply]) answered() {
	if time.Since(s.begun)-time.Duration(s.since.Load()) < answerWithin/2 {
		wait := max(s.waits.Load()/2, int64(answerWithin))
		s.waits.Store(wait)
		s.link.prompt.CompareAndSwap(false, wait == int64(answerWithin))
	}
	s.asked.Store(false)
	s.calm()
}

// calm calms the dog: the next question comes within askEvery, and has its time to be answered. It
// goes on even if no question can be asked, since the writer may be the one that is stuck.
func (s *session[Req, Reply]) calm() {
	s.dog.Reset(askEvery + time.Duration(s.waits.Load()))
	if s.moved.Load() { // after the reset: the writer says so before its own
		s.dog.Reset(farewell)
	}
}

// write says what is due, until the stream ends, moves or is closed.
func (s *session[Req, Reply]) write() {
	ask := time.Now().Add(retry.Early(askEvery, 0.25, rand.Float64()))
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	for {
		now := time.Now()
		say, again, err := s.side.due(now)
		if err != nil {
			s.cut(err)
			return
		}
		if !now.Before(ask) {
			if s.asked.CompareAndSwap(false, true) {
				s.since.Store(int64(now.Sub(s.begun)))
				s.dog.Reset(time.Duration(s.waits.Load()))
				say = append(say, s.side.ping())
			}
			ask = now.Add(retry.Early(askEvery, 0.25, rand.Float64()))
		}
		for _, m := range say {
			if s.stream.Send(m) != nil {
				return // the reader learns why
			}
		}
		if again.IsZero() || ask.Before(again) {
			again = ask
		}
		timer.Reset(again.Sub(now))
		select {
		case <-s.side.bell():
		case <-s.side.later():
		case <-timer.C:
		case <-s.ctx.Done():
			return
		case <-s.link.retired:
			s.depart(s.side.moving(), errMoved)
			return
		case <-s.reg.closing.Done():
			s.part()
			return
		}
	}
}

// part says the last words before Close; Close itself bounds the wait for the node to take them.
func (s *session[Req, Reply]) part() {
	last, gracefully := s.side.parting()
	if !gracefully {
		s.cut(errClosed)
		return
	}
	if say, _, err := s.side.due(time.Now()); err == nil {
		for _, m := range say {
			if s.stream.Send(m) != nil {
				return
			}
		}
	}
	s.depart(last, errClosed)
}

// depart says a last word and ends this half of the stream; the reader waits for the node to end the
// other. How long is bounded by Close, or by the dog.
func (s *session[Req, Reply]) depart(last *Req, why error) {
	s.gone = why
	if errors.Is(why, errMoved) {
		s.moved.Store(true)
		s.dog.Reset(farewell)
	}
	if last != nil && s.stream.Send(last) != nil {
		return
	}
	if s.stream.CloseSend() == nil {
		<-s.ctx.Done()
	}
}

// explain makes an error that says who, what and why.
func (k *link) explain(err error) error {
	if err == nil || errors.Is(err, errMoved) || errors.Is(err, errClosed) {
		return err
	}
	op := "registry " + k.addr
	if e, ok := errors.AsType[*ended](err); ok {
		kind := eider.KindOf(e.err)
		if e.err == nil {
			kind = eider.Unavailable
		}
		return &eider.Error{Op: op, Kind: kind, Err: e, RetryAfter: wire.ToDuration(e.after)}
	}
	if fault := k.fault.Load(); fault != nil {
		return &eider.Error{Op: op, Kind: eider.Unavailable, Err: *fault}
	}
	if errors.Is(err, io.EOF) {
		return &eider.Error{Op: op, Kind: eider.Unavailable, Err: errors.New("it ended the stream without a word")}
	}
	if st, ok := status.FromError(err); ok {
		if e := beside(st); e != nil {
			return &eider.Error{Op: op, Kind: e.Kind, Err: e.Err, RetryAfter: e.RetryAfter}
		}
		return &eider.Error{Op: op, Kind: kindOf(st.Code()), Err: inWords(st.Message())}
	}
	return &eider.Error{Op: op, Kind: eider.Unavailable, Err: err}
}

// kindOf is the one table from gRPC's codes to the house's kinds.
func kindOf(code codes.Code) eider.Kind {
	switch code {
	case codes.InvalidArgument, codes.Unimplemented, codes.OutOfRange:
		return eider.Invalid
	case codes.NotFound:
		return eider.NotFound
	case codes.AlreadyExists:
		return eider.Conflict
	case codes.Aborted:
		return eider.Stale
	case codes.ResourceExhausted:
		return eider.Limited
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return eider.Internal
	case codes.Unauthenticated, codes.PermissionDenied:
		return eider.Denied
	default:
		return eider.Unavailable
	}
}
