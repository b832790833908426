package native

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/server/internal/replica"
)

// maxDepartures bounds the departures that one message names.
const maxDepartures = 1_000

// Watch serves a process' stream for the services that it follows.
func (s *Server) Watch(rpc grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	st := s.newStream(rpc)
	return s.serve(st, &watcher{srv: s, st: st, send: st.send})
}

// watcher is the Watch side of a stream.
type watcher struct {
	srv      *Server
	st       *stream
	send     func(any) error
	at       replica.Watcher
	services map[string]struct{} // subscribed to
	observer bool
	out      raw // what is being sent; the handler's alone
}

func (w *watcher) incoming() proto.Message { return new(pb.WatchRequest) }

func (w *watcher) hello(m proto.Message) *pb.Hello { return m.(*pb.WatchRequest).GetHello() }

func (w *watcher) welcome(m *pb.Welcome) proto.Message {
	m.Verdicts = true
	return &pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: m}}
}

func (w *watcher) ended(e *pb.End) proto.Message {
	return &pb.WatchReply{Kind: &pb.WatchReply_End{End: e}}
}

func (w *watcher) open(p replica.Peer) (err error) {
	if !w.st.who.MayFollow() {
		return w.st.deny("watch", "read")
	}
	if after, ok := w.srv.watch.admit(time.Now(), rand.Float64()); !ok {
		w.srv.limited.Add(1)
		if r, can := w.srv.reg.(replica.Postponer); can && !p.Observer {
			r.PostponeCaller(p, after)
		}
		return &eider.Error{Kind: eider.Limited, RetryAfter: after,
			Err: fmt.Errorf("too many callers connect at once; come back in %s", after.Round(time.Millisecond))}
	}
	w.observer = p.Observer
	if !p.Observer {
		if err := w.srv.shares.follow(w.st.share); err != nil {
			return err
		}
		w.st.callers = 1
	}
	w.at, err = w.srv.reg.Watch(p)
	return err
}

func (w *watcher) end(how replica.Ending) { w.at.End(how) }

func (w *watcher) handle(m proto.Message) error {
	switch kind := m.(*pb.WatchRequest).GetKind().(type) {
	case *pb.WatchRequest_Ack:
		w.ack(kind.Ack)
		return nil
	case *pb.WatchRequest_Ping:
		return w.send(&pb.WatchReply{Kind: &pb.WatchReply_Pong{Pong: kind.Ping}})
	case *pb.WatchRequest_Subscribe:
		return w.subscribe(kind.Subscribe)
	case *pb.WatchRequest_Unsubscribe:
		if w.follows(kind.Unsubscribe.GetService()) {
			delete(w.services, kind.Unsubscribe.GetService())
			w.at.Unsubscribe(kind.Unsubscribe.GetService())
		}
		return nil
	case *pb.WatchRequest_Doubt:
		if d := kind.Doubt; !w.observer && d.GetNonce() != 0 && w.follows(d.GetService()) {
			w.at.Doubt(eider.Departure{Key: eider.Key{Service: d.GetService(), ID: d.GetId()},
				Incarnation: eider.Incarnation{Nonce: d.GetNonce()}})
		}
		return nil
	case *pb.WatchRequest_Verdicts:
		if v := kind.Verdicts; !w.observer && w.follows(v.GetService()) {
			w.at.Verdicts(v.GetService(), verdicts(v, time.Now()))
		}
		return nil
	case *pb.WatchRequest_Goodbye:
		return &ending{how: replica.Bye}
	case *pb.WatchRequest_Moving:
		return &ending{how: replica.Moving}
	case *pb.WatchRequest_Hello:
		return eider.Errorf(eider.Invalid, "", "Hello came twice; a stream has one")
	default:
		return eider.Errorf(eider.Invalid, "", "a message on Watch is empty or of a kind unknown here")
	}
}

func (w *watcher) follows(service string) bool {
	_, ok := w.services[service]
	return ok
}

// ack hands an acknowledgement on. One for a service that isn't followed crossed its Unsubscribe, and
// an observer owes none: both say nothing.
func (w *watcher) ack(m *pb.Ack) {
	if w.observer || !w.follows(m.GetService()) {
		return
	}
	w.at.Ack(m.GetService(), wire.ToCursor(m.GetCursor()),
		departures(m.GetLetGo(), m.GetService()), departures(m.GetNoAlternative(), m.GetService()))
}

// departures reads departures and leaves out those that can't exist, before anybody remembers them.
func departures(ms []*pb.Departure, service string) []eider.Departure {
	out := wire.ToDepartures(ms[:min(len(ms), maxDepartures)], service)
	kept := out[:0]
	for _, d := range out {
		if eider.CheckID(d.ID) == nil {
			kept = append(kept, d)
		}
	}
	return kept
}

// verdicts reads as many verdicts as one may tell, and leaves out those that say nothing.
func verdicts(m *pb.Verdicts, now time.Time) []eider.Verdict {
	ms := m.GetVerdicts()
	ms = ms[:min(len(ms), eider.MaxVerdicts)]
	out := make([]eider.Verdict, 0, len(ms))
	for _, one := range ms {
		if v, err := wire.ToVerdict(one, m.GetService(), now); err == nil {
			out = append(out, v)
		}
	}
	return out
}

func (w *watcher) subscribe(m *pb.Subscribe) error {
	service := m.GetService()
	err := w.admit(service, m)
	if err == nil {
		return nil
	}
	return w.send(&pb.WatchReply{Kind: &pb.WatchReply_Problem{Problem: &pb.Problem{
		Service: clip(service), Error: wireError(err)}}})
}

func (w *watcher) admit(service string, m *pb.Subscribe) error {
	op := "subscribe " + clip(service)
	if err := eider.CheckService(service); err != nil {
		return &eider.Error{Op: op, Kind: eider.Invalid, Err: err}
	}
	known := w.follows(service)
	if !known && len(w.services) >= w.srv.cfg.Limits.Subscriptions {
		w.srv.limited.Add(1)
		return eider.Errorf(eider.Limited, op, "this stream follows %d services and takes no more; unsubscribe from one or open another stream", len(w.services))
	}
	var letGo []eider.Departure
	if !w.observer {
		letGo = departures(m.GetLetGo(), service)
	}
	if err := w.at.Subscribe(service, wire.ToCursor(m.GetCursor()), letGo); err != nil {
		return err
	}
	if w.services == nil {
		w.services = make(map[string]struct{})
	}
	w.services[service] = struct{}{}
	return nil
}

func (w *watcher) next(ctx context.Context) error {
	views, err := w.at.Next(ctx)
	if err != nil {
		return err
	}
	for _, view := range views {
		w.out = view
		if err := w.send(&w.out); err != nil {
			return err
		}
	}
	w.out = nil
	return nil
}
