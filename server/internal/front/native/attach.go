package native

import (
	"context"
	"errors"
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

// Attach serves a process' stream for its instances.
func (s *Server) Attach(rpc grpc.BidiStreamingServer[pb.AttachRequest, pb.AttachReply]) error {
	st := s.newStream(rpc)
	return s.serve(st, &attachment{srv: s, st: st, send: st.send})
}

// attachment is the Attach side of a stream.
type attachment struct {
	srv  *Server
	st   *stream
	send func(any) error
	at   replica.Attachment
	keys map[eider.Key]struct{} // the instances on this stream
}

func (a *attachment) incoming() proto.Message { return new(pb.AttachRequest) }

func (a *attachment) hello(m proto.Message) *pb.Hello { return m.(*pb.AttachRequest).GetHello() }

func (a *attachment) welcome(w *pb.Welcome) proto.Message {
	return &pb.AttachReply{Kind: &pb.AttachReply_Welcome{Welcome: w}}
}

func (a *attachment) ended(e *pb.End) proto.Message {
	return &pb.AttachReply{Kind: &pb.AttachReply_End{End: e}}
}

func (a *attachment) open(p replica.Peer) (err error) {
	if !a.st.who.Registers() {
		return a.st.deny("attach", "register:SERVICE")
	}
	p.Observer = false
	a.at, err = a.srv.reg.Attach(p)
	return err
}

func (a *attachment) end(how replica.Ending) { a.at.End(how) }

func (a *attachment) handle(m proto.Message) error {
	switch kind := m.(*pb.AttachRequest).GetKind().(type) {
	case *pb.AttachRequest_Beat:
		a.at.Beat(a.work(kind.Beat.GetWork())...)
		if kind.Beat.GetEcho() {
			return a.send(&pb.AttachReply{Kind: &pb.AttachReply_Beaten{Beaten: &pb.Beaten{}}})
		}
		return nil
	case *pb.AttachRequest_Register:
		return a.register(kind.Register)
	case *pb.AttachRequest_SetStatus:
		key := eider.Key{Service: kind.SetStatus.GetService(), ID: kind.SetStatus.GetId()}
		return a.answer(key, a.setStatus(key, kind.SetStatus.GetStatus()))
	case *pb.AttachRequest_Leave:
		key := eider.Key{Service: kind.Leave.GetService(), ID: kind.Leave.GetId()}
		return a.answer(key, a.on(key, "leave", func(key eider.Key) error {
			return a.at.Leave(key, wire.ToDuration(kind.Leave.GetUnknownMs()))
		}))
	case *pb.AttachRequest_Left:
		return a.left(eider.Key{Service: kind.Left.GetService(), ID: kind.Left.GetId()})
	case *pb.AttachRequest_Moving:
		return &ending{how: replica.Moving}
	case *pb.AttachRequest_Hello:
		return eider.Errorf(eider.Invalid, "", "Hello came twice; a stream has one")
	default:
		return eider.Errorf(eider.Invalid, "", "a message on Attach is empty or of a kind unknown here")
	}
}

// answer tells the process what was wrong with one of its messages; nothing is said when nothing was.
func (a *attachment) answer(key eider.Key, err error) error {
	if err == nil {
		return nil
	}
	if eider.KindOf(err) == eider.Limited {
		a.srv.limited.Add(1)
	}
	return a.send(&pb.AttachReply{Kind: &pb.AttachReply_Refused{Refused: &pb.Refused{
		Service: clip(key.Service), Id: clip(key.ID), Error: wireError(err)}}})
}

func (a *attachment) register(m *pb.Register) error {
	key := eider.Key{Service: m.GetRecord().GetService(), ID: m.GetRecord().GetId()}
	grant, err := a.admit(key, m)
	if err != nil {
		return a.answer(key, err)
	}
	if a.keys == nil {
		a.keys = make(map[eider.Key]struct{})
	}
	a.keys[key] = struct{}{}
	a.st.instances = len(a.keys)
	return a.send(&pb.AttachReply{Kind: &pb.AttachReply_Registered{Registered: &pb.Registered{
		Service: key.Service, Id: key.ID, Number: grant.Record.Incarnation.Number, Attachment: grant.Record.Attachment,
		LeaseMs: wire.FromDuration(grant.Lease), BoundMs: wire.FromDuration(grant.Bound),
		Secret: grant.Secret[:],
	}}})
}

// admit checks a registration, lets it pass or tells it when to come back, and hands it to the replica.
func (a *attachment) admit(key eider.Key, m *pb.Register) (replica.Grant, error) {
	op := "register " + clip(key.Service) + "/" + clip(key.ID)
	rec, err := wire.ToRecord(m.GetRecord(), "")
	if err == nil {
		err = checkRecord(&rec)
	}
	shown := m.GetSecret()
	if n := len(shown); n == 0 {
		shown = make([]byte, 16)
	} else if n != 16 {
		err = errors.Join(err, fmt.Errorf("secret: has %d bytes; it has 16, or none before there is one", n))
	}
	if err != nil {
		return replica.Grant{}, &eider.Error{Op: op, Kind: eider.Invalid, Err: err}
	}
	if !a.st.who.MayRegister(key.Service) {
		return replica.Grant{}, a.st.deny(op, "register:"+key.Service)
	}
	_, again := a.keys[key]
	if !again && len(a.keys) >= a.srv.cfg.Limits.Instances {
		return replica.Grant{}, eider.Errorf(eider.Limited, op, "this stream has %d instances and takes no more; open another stream", len(a.keys))
	}
	if err := a.pass(op, key, [16]byte(shown), rec.Incarnation.Number != 0); err != nil {
		return replica.Grant{}, err
	}
	if !again {
		if err := a.srv.shares.list(a.st.share); err != nil {
			return replica.Grant{}, err
		}
	}
	grant, err := a.at.Register(rec, wire.ToDuration(m.GetLeaseMs()), [16]byte(shown))
	if err != nil && !again {
		a.srv.shares.give(a.st.share)
	}
	return grant, err
}

// pass lets a registration pass, or tells it when to come back: first by its identity's own rate, so that one that
// is too fast takes nobody else's turn.
func (a *attachment) pass(op string, key eider.Key, secret [16]byte, known bool) error {
	// Who carries a number was here, or on another run of this node, before: its lease is at stake. To
	// look it up instead would cost a view each time, and a liar gains no more than that class.
	class := a.srv.register
	if known {
		class = a.srv.reattach
	}
	after, ok := time.Duration(0), true
	if a.st.share != nil {
		after, ok = a.st.share.register.admit(time.Now(), rand.Float64())
	}
	if ok {
		after, ok = class.admit(time.Now(), rand.Float64())
	}
	if ok {
		return nil
	}
	if p, can := a.srv.reg.(replica.Postponer); can && known {
		p.Postpone(key, secret, after)
	}
	return &eider.Error{Op: op, Kind: eider.Limited, RetryAfter: after,
		Err: fmt.Errorf("too many instances register at once; come back in %s", after.Round(time.Millisecond))}
}

// work reads what instances of this stream have done; what is said of any other is left out.
func (a *attachment) work(ms []*pb.Work) []replica.Work {
	if len(ms) == 0 {
		return nil
	}
	out := make([]replica.Work, 0, min(len(ms), len(a.keys)))
	for _, m := range ms {
		if key, done := wire.ToWork(m); len(out) < len(a.keys) {
			if _, ok := a.keys[key]; ok {
				out = append(out, replica.Work{Key: key, Done: done})
			}
		}
	}
	return out
}

func checkRecord(rec *eider.Record) error {
	err := rec.Check()
	if rec.Status != eider.Starting && rec.Status != eider.Up && rec.Status != eider.Down && rec.Status != eider.Draining {
		err = errors.Join(err, fmt.Errorf("status: %s is no status to register with; STARTING, UP, DOWN and DRAINING are", rec.Status))
	}
	if rec.Attachment == 0 {
		err = errors.Join(err, fmt.Errorf("attachment: 0; a process counts its attaches from 1"))
	}
	return err
}

func (a *attachment) setStatus(key eider.Key, m pb.Status) error {
	return a.on(key, "set status of", func(key eider.Key) error {
		status, err := wire.ToStatus(m)
		if err == nil && status != eider.Starting && status != eider.Up && status != eider.Down {
			err = fmt.Errorf("status: %s can't be set; STARTING, UP and DOWN can, and Leave begins a departure", status)
		}
		if err != nil {
			return &eider.Error{Op: "set status of " + key.String(), Kind: eider.Invalid, Err: err}
		}
		return a.at.SetStatus(key, status)
	})
}

// on does something with an instance of this stream; with no other.
func (a *attachment) on(key eider.Key, what string, do func(eider.Key) error) error {
	if _, ok := a.keys[key]; !ok {
		return eider.Errorf(eider.NotFound, what+" "+clip(key.Service)+"/"+clip(key.ID), "it isn't registered on this stream; register it first")
	}
	return do(key)
}

func (a *attachment) left(key eider.Key) error {
	if err := a.on(key, "end", a.at.Left); err != nil {
		return a.answer(key, err)
	}
	delete(a.keys, key)
	a.st.instances = len(a.keys)
	a.srv.shares.give(a.st.share)
	return a.send(&pb.AttachReply{Kind: &pb.AttachReply_Left{Left: &pb.Left{Service: key.Service, Id: key.ID}}})
}

func (a *attachment) next(ctx context.Context) error {
	n, err := a.at.Next(ctx)
	if err != nil {
		return err
	}
	return a.send(noticeOf(&n))
}

func noticeOf(n *replica.Notice) *pb.AttachReply {
	d := &n.Drain
	if d.Key == (eider.Key{}) {
		return &pb.AttachReply{Kind: &pb.AttachReply_Bound{Bound: &pb.Bound{
			Service: n.Key.Service, Id: n.Key.ID, BoundMs: wire.FromDuration(n.Bound)}}}
	}
	p := &pb.Progress{Service: d.Service, Id: d.ID, BoundMs: wire.FromDuration(d.Bound), Barrier: d.Reached,
		Total: uint32(d.Total), Open: uint32(d.Open)}
	for i := range d.Members[:min(len(d.Members), eider.MaxMembers)] {
		p.Members = append(p.Members, wire.FromMember(&d.Members[i]))
	}
	return &pb.AttachReply{Kind: &pb.AttachReply_Progress{Progress: p}}
}
