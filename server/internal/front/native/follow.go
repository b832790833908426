package native

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/server/internal/panel"
	"github.com/eiderhq/eider/server/internal/replica"
)

// Follow serves a process' stream for the fleet breakers that it watches.
func (s *Server) Follow(rpc grpc.BidiStreamingServer[pb.FollowRequest, pb.FollowReply]) error {
	st := s.newStream(rpc)
	return s.serve(st, &follower{srv: s, st: st, rung: make(chan struct{}, 1), keys: map[uint64]*followed{}})
}

// follower is the Follow side of a stream. One bell rings for all of its keys, so that ten thousand processes cost no
// goroutine for any of them.
type follower struct {
	srv  *Server
	st   *stream
	rung chan struct{}

	mu   sync.Mutex
	keys map[uint64]*followed
}

type followed struct {
	key     string
	stop    func()
	said    bool
	version uint64 // that was said
}

func (f *follower) incoming() proto.Message { return new(pb.FollowRequest) }

func (f *follower) hello(m proto.Message) *pb.Hello { return m.(*pb.FollowRequest).GetHello() }

func (f *follower) welcome(m *pb.Welcome) proto.Message {
	return &pb.FollowReply{Kind: &pb.FollowReply_Welcome{Welcome: m}}
}

func (f *follower) ended(e *pb.End) proto.Message {
	return &pb.FollowReply{Kind: &pb.FollowReply_End{End: e}}
}

func (f *follower) open(replica.Peer) error {
	if !f.st.who.MayFollow() {
		return f.st.deny("watch fleet breakers", "read")
	}
	if after, ok := f.srv.follow.admit(time.Now(), rand.Float64()); !ok {
		f.srv.limited.Add(1)
		return &eider.Error{Kind: eider.Limited, RetryAfter: after,
			Err: fmt.Errorf("too many callers connect at once; come back in %s", after.Round(time.Millisecond))}
	}
	return nil
}

func (f *follower) end(replica.Ending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.keys {
		k.stop()
	}
	clear(f.keys)
}

func (f *follower) handle(m proto.Message) error {
	switch kind := m.(*pb.FollowRequest).GetKind().(type) {
	case *pb.FollowRequest_Ping:
		return f.st.send(&pb.FollowReply{Kind: &pb.FollowReply_Pong{Pong: kind.Ping}})
	case *pb.FollowRequest_Follow:
		number, key := kind.Follow.GetNumber(), kind.Follow.GetKey()
		if err := f.follow(number, key); err != nil {
			return f.st.send(&pb.FollowReply{Kind: &pb.FollowReply_Seen{Seen: &pb.Seen{Number: number, Error: wireError(err)}}})
		}
		return nil
	case *pb.FollowRequest_Unfollow:
		f.mu.Lock()
		defer f.mu.Unlock()
		if k := f.keys[kind.Unfollow]; k != nil {
			k.stop()
			delete(f.keys, kind.Unfollow)
		}
		return nil
	case *pb.FollowRequest_Hello:
		return eider.Errorf(eider.Invalid, "", "Hello came twice; a stream has one")
	default:
		return eider.Errorf(eider.Invalid, "", "a message on Follow is empty or of a kind unknown here")
	}
}

func (f *follower) follow(number uint64, key string) error {
	if err := panel.Check(key); err != nil {
		return &eider.Error{Kind: eider.Invalid, Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[number] != nil {
		return eider.Errorf(eider.Invalid, "", "number %d is given to another key; each key of a stream has its own", number)
	}
	if len(f.keys) >= f.srv.cfg.Limits.Subscriptions {
		f.srv.limited.Add(1)
		return eider.Errorf(eider.Limited, "", "this stream follows %d keys and takes no more; stop watching one", len(f.keys))
	}
	f.keys[number] = &followed{key: key, stop: f.srv.cfg.Panel.Ring(key, f.rung)}
	select {
	case f.rung <- struct{}{}: // what there is already
	default:
	}
	return nil
}

func (f *follower) next(ctx context.Context) error {
	select {
	case <-f.rung:
	case <-ctx.Done():
		return nil
	}
	for _, m := range f.news() {
		if err := f.st.send(m); err != nil {
			return err
		}
	}
	return nil
}

// news is what has changed since it was said.
func (f *follower) news() (say []*pb.FollowReply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for number, k := range f.keys {
		sight := f.srv.cfg.Panel.Look(k.key)
		if k.said && sight.Version == k.version {
			continue
		}
		k.said, k.version = true, sight.Version
		say = append(say, &pb.FollowReply{Kind: &pb.FollowReply_Seen{Seen: &pb.Seen{Number: number, Sight: wire.FromSight(&sight)}}})
	}
	return say
}
