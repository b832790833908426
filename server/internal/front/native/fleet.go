package native

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/server/internal/access"
)

// Tell keeps what a caller has counted.
func (s *Server) Tell(ctx context.Context, m *pb.TellRequest) (*pb.Sight, error) {
	origin, err := s.turn(ctx, "tell fleet breaker")
	if err != nil {
		return nil, answered(err)
	}
	sight, err := s.cfg.Panel.Tell(ctx, m.GetKey(), m.GetCaller(), origin, m.GetCount(), m.GetAll())
	if err != nil {
		return nil, answered(err)
	}
	out := wire.FromSight(&sight)
	if proto.Size(out) > window/2 { // more than is sent to who reads nothing
		if hangup, ok := ctx.Value(tapped{}).(context.CancelFunc); ok {
			time.AfterFunc(sendTimeout, hangup)
		}
	}
	return out, nil
}

// Swap replaces a record.
func (s *Server) Swap(ctx context.Context, m *pb.SwapRequest) (*pb.SwapReply, error) {
	if _, err := s.turn(ctx, "swap fleet breaker"); err != nil {
		return nil, answered(err)
	}
	sight, swapped, err := s.cfg.Panel.Swap(ctx, m.GetKey(), m.GetVersion(), m.GetRecord(), identityOf(ctx).MayOperate())
	if err != nil {
		return nil, answered(err)
	}
	return &pb.SwapReply{Swapped: swapped, Sight: wire.FromSight(&sight)}, nil
}

// turn admits a question, and returns its origin.
func (s *Server) turn(ctx context.Context, op string) (origin string, err error) {
	who := identityOf(ctx)
	if !who.MayShare() {
		err := access.Denial(op, who, "register")
		s.cfg.Audit.Denied(who, from(ctx), op, err)
		return "", err
	}
	origin = originOf(who, addrOf(ctx))
	after, ok := jitter(minRetryAfter), s.origins.admit(origin, time.Now())
	if ok {
		after, ok = s.fleet.admit(time.Now(), rand.Float64())
	}
	if !ok {
		s.limited.Add(1)
		return "", &eider.Error{Kind: eider.Limited, RetryAfter: after,
			Err: fmt.Errorf("too much is asked of fleet breakers at once; come back in %s", after.Round(time.Millisecond))}
	}
	return origin, nil
}

// originOf is what callers that share it count as one by: a machine, and the identity that it shows. The identity alone
// would make one of a fleet that shares a certificate; names alone would let one process that gives itself three be a
// quorum. On this machine nobody is doubted: it is "", and names count.
func originOf(who *access.Identity, at netip.Addr) string {
	if !at.IsValid() || at.IsLoopback() {
		return ""
	}
	place := at.String()
	if at.Is6() { // a machine has all addresses of its network
		if net, err := at.WithZone("").Prefix(64); err == nil {
			place = net.String()
		}
	}
	if name := who.String(); name != "" {
		return name + " at " + place
	}
	return place
}

// answered turns an error into the status of an answer, with the error beside it.
func answered(err error) error {
	st, ok := status.FromError(statusOf(err))
	if !ok {
		return err
	}
	if full, err := st.WithDetails(wireError(err)); err == nil {
		st = full
	}
	return st.Err()
}

// origins bound how much one origin asks, so that one in a loop leaves turns to the others.
type origins struct {
	each Rate

	mu  sync.Mutex
	has map[string]*rate.Limiter
}

// mostOrigins is how many are remembered before those are forgotten that have asked for nothing lately.
const mostOrigins = 4_096

func newOrigins(each Rate) *origins { return &origins{each: each, has: make(map[string]*rate.Limiter)} }

func (o *origins) admit(origin string, now time.Time) bool {
	if origin == "" {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.has[origin]
	if l == nil {
		if len(o.has) >= mostOrigins {
			maps.DeleteFunc(o.has, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(o.each.Burst) })
		}
		l = rate.NewLimiter(rate.Limit(o.each.PerSecond), o.each.Burst)
		o.has[origin] = l
	}
	return l.AllowN(now, 1)
}

// identifiedOnce is identified for a question that isn't a stream.
func (s *Server) identifiedOnce(ctx context.Context, m any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	who, err := s.who(ctx)
	if err != nil {
		s.cfg.Audit.Denied(nil, from(ctx), "ask "+info.FullMethod, err)
		return nil, answered(err)
	}
	return next(context.WithValue(ctx, knownAs{}, who), m)
}
