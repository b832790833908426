package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/server/internal/access"
	"github.com/eiderhq/eider/server/internal/replica"
)

// ending is why a stream ends. It is the cause of the cancelled context, so the first one counts.
type ending struct {
	how      replica.Ending
	err      error // nil if all is well
	reattach bool  // the process should come back with a new stream
	silent   bool  // nobody is left to be told
}

func (e *ending) Error() string { return fmt.Sprintf("stream ended: %v", e.err) }

func failed(err error) *ending {
	kind := eider.KindOf(err)
	return &ending{how: replica.Lost, err: err, reattach: kind == eider.Stale || kind == eider.Unavailable}
}

// endingOf returns the ending that an error brings about.
func endingOf(err error) *ending {
	if why, ok := err.(*ending); ok {
		return why
	}
	if errors.Is(err, errGone) {
		return &ending{how: replica.Lost, silent: true}
	}
	return failed(err)
}

func stopped() *ending {
	return &ending{how: replica.Stopping, reattach: true,
		err: eider.Errorf(eider.Unavailable, "", "this node is stopping; attach to another one, or here once it is back")}
}

// side is what the two kinds of stream differ in. The receiver calls all but next.
type side interface {
	incoming() proto.Message // a message to read into
	hello(proto.Message) *pb.Hello
	open(replica.Peer) error
	handle(proto.Message) error // an *ending ends the stream as it says; any other error as a failure
	end(replica.Ending)
	next(context.Context) error // waits for news once, and sends them
	ended(*pb.End) proto.Message
	welcome(*pb.Welcome) proto.Message
}

// stream is one stream of either kind.
//
//	receiver:  Hello → open → Welcome → (message → replica)… ─┐
//	handler:   wait for Hello → (news → send)… ───────────────┴─ end(why), once → End → status
//
// Two contexts end it. The soft one (ctx) ends waiting, so that a last word can still be said; the
// transport's own, which hangup cancels, ends a send or a read that the other side holds up.
type stream struct {
	srv     *Server
	rpc     grpc.ServerStream
	side    side
	ctx     context.Context
	end     func(*ending)
	hangup  context.CancelFunc
	turn    chan struct{} // who may send
	spoken  chan struct{} // closed once the first message was read
	greeted chan struct{} // closed once Hello was answered
	patient *time.Timer   // hangs up when a send takes too long
	caller  string        // from Hello; the receiver's until greeted is closed
	who     *access.Identity

	// Of its identity's share. The receiver's, but for share.
	share              *share
	callers, instances int
}

// tapped is the key under which the transport's context carries its own cancel function.
type tapped struct{}

// tapStream runs before a stream's context is fixed. grpc offers no other way to end a blocked send of one stream.
func tapStream(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, tapped{}, cancel), nil
}

func (s *Server) newStream(rpc grpc.ServerStream) *stream {
	soft, cancel := context.WithCancelCause(context.Background())
	st := &stream{
		srv: s, rpc: rpc, ctx: soft,
		end:     func(why *ending) { cancel(why) },
		turn:    make(chan struct{}, 1),
		spoken:  make(chan struct{}),
		greeted: make(chan struct{}),
		who:     identityOf(rpc.Context()),
	}
	st.hangup, _ = rpc.Context().Value(tapped{}).(context.CancelFunc)
	st.patient = time.AfterFunc(sendTimeout, func() {
		s.dropped.Add(1)
		s.complain("a stream is dropped: its process doesn't read", st.name(), eider.Errorf(eider.Unavailable, "", "blocked for %s", sendTimeout))
		st.hangup()
	})
	st.patient.Stop()
	return st
}

// serve is the handler of either kind of stream.
func (s *Server) serve(st *stream, sd side) error {
	st.side = sd
	if why := s.enter(st); why != nil {
		return st.last(why)
	}
	defer s.leave(st)
	if why := s.outdated(st); why != nil {
		return st.last(why)
	}
	var err error
	if st.share, err = s.shares.open(st.who); err != nil {
		s.limited.Add(1)
		return st.last(failed(err))
	}
	s.receivers.Add(1)
	go func() { // ends when this handler has returned, at the latest: then the transport ends its read
		defer s.receivers.Done()
		st.receive()
	}()
	if st.awaitHello() {
		for st.ctx.Err() == nil {
			if err := sd.next(st.ctx); err != nil {
				st.end(endingOf(err))
			}
		}
	}
	var why *ending
	if !errors.As(context.Cause(st.ctx), &why) {
		why = &ending{silent: true}
	}
	return st.last(why)
}

// awaitHello waits until Hello was answered. Its time is the process', and ends with the first message: a node that
// takes long for its own part, behind a herd, sends nobody away for it.
func (st *stream) awaitHello() bool {
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case <-st.spoken:
	case <-st.ctx.Done():
	case <-timer.C:
		st.end(failed(eider.Errorf(eider.Invalid, "", "no Hello within %s; it must be the first message", helloTimeout)))
	}
	select {
	case <-st.greeted:
		return true
	case <-st.ctx.Done():
		return false
	}
}

// last says the last word, and returns the status for the transport.
func (st *stream) last(why *ending) error {
	if why.silent {
		return nil
	}
	if kind := eider.KindOf(why.err); why.err != nil && (kind == eider.Invalid || kind == eider.Internal) {
		st.srv.complain("a stream is ended: what its process said can't be", st.name(), why.err)
	}
	if why.err != nil || why.reattach {
		end := &pb.End{Reattach: why.reattach}
		if why.err != nil {
			end.Error = wireError(why.err)
		}
		if st.send(st.side.ended(end)) != nil {
			return nil
		}
	}
	return statusOf(why.err)
}

// name returns who is at the other end, once that is known.
func (st *stream) name() string {
	select {
	case <-st.greeted:
		return st.caller
	default:
		return ""
	}
}

// errGone is a send that nobody is left to receive.
var errGone = errors.New("the other side is gone")

// send sends one message, one at a time, and hangs up if the other side doesn't take it in time.
func (st *stream) send(msg any) error {
	select {
	case st.turn <- struct{}{}:
	case <-st.rpc.Context().Done():
		return errGone
	}
	st.patient.Reset(sendTimeout)
	err := st.rpc.SendMsg(msg)
	st.patient.Stop()
	<-st.turn
	if err != nil {
		if status.Code(err) == codes.Internal { // a message of ours that can't be encoded
			st.srv.log.Error("a stream is ended: what this node said can't be", "caller", st.name(), "err", err)
		}
		return errGone
	}
	return nil
}

// receive is the receiver: it opens the replica's end of the stream, feeds it and ends it.
func (st *stream) receive() {
	opened := false
	for {
		in := incoming{msg: st.side.incoming()}
		err := st.rpc.RecvMsg(&in)
		if st.ctx.Err() != nil {
			break
		}
		switch {
		case errors.Is(err, io.EOF):
			st.end(&ending{how: replica.Lost})
		case err != nil:
			st.end(&ending{how: replica.Lost, silent: true})
		case in.err != nil:
			st.end(failed(in.err))
		case !opened:
			close(st.spoken)
			if err = st.greet(st.side.hello(in.msg)); err != nil {
				st.end(endingOf(err))
			} else {
				opened = true
				close(st.greeted)
			}
		default:
			if err = st.side.handle(in.msg); err != nil {
				st.end(endingOf(err))
			}
		}
		if st.ctx.Err() != nil {
			break
		}
	}
	defer func() { st.srv.shares.close(st.share, st.callers, st.instances) }()
	if opened {
		why, _ := context.Cause(st.ctx).(*ending)
		st.side.end(why.how)
	}
}

// greet answers Hello.
func (st *stream) greet(h *pb.Hello) error {
	if h == nil {
		return eider.Errorf(eider.Invalid, "", "the first message must be Hello")
	}
	if err := checkHello(h); err != nil {
		return &eider.Error{Kind: eider.Invalid, Err: err}
	}
	st.caller = h.GetCaller()
	err := st.side.open(replica.Peer{Caller: h.GetCaller(), Identity: st.who.String(), Observer: h.GetObserver(), Addr: addrOf(st.rpc.Context())})
	if err != nil {
		return err
	}
	node := st.srv.own()
	err = st.send(st.side.welcome(&pb.Welcome{Run: node.Run, Node: node.Name, BeatMs: wire.FromDuration(st.srv.cfg.Beat), LeaseMs: wire.FromDuration(st.srv.cfg.Lease)}))
	if err != nil {
		st.side.end(replica.Lost)
	}
	return err
}

// Bounds of Hello's texts, in bytes.
const (
	maxCaller  = 256
	maxVersion = 64
)

func checkHello(h *pb.Hello) error {
	var errs []error
	if n := len(h.GetCaller()); n == 0 || n > maxCaller || !printable(h.GetCaller()) {
		errs = append(errs, fmt.Errorf("hello: caller %.40q must have 1 to %d bytes of printable UTF-8, it has %d", h.GetCaller(), maxCaller, n))
	}
	if n := len(h.GetVersion()); n > maxVersion || !printable(h.GetVersion()) {
		errs = append(errs, fmt.Errorf("hello: version %.40q may have %d bytes of printable UTF-8, it has %d", h.GetVersion(), maxVersion, n))
	}
	return errors.Join(errs...)
}

// addrOf returns where a stream comes from; the zero value if that isn't IP.
func addrOf(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	at, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
