package registry

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

// Fleet is the registry as the store of breakers that many processes share: a Store of package breaker/fleet. A node
// keeps them in memory alone. One that is restarted has forgotten them, and of several nodes each has its own: then
// each side of the fleet agrees within itself.
//
// It uses the handle's connection. Nothing is tried again: a breaker whose store is away is on its own at once, and
// comes back by itself.
type Fleet struct {
	reg   *Registry
	watch *fleetWatcher
}

func newFleet(r *Registry) *Fleet { return &Fleet{reg: r, watch: newFleetWatcher(r)} }

// Fleet returns the registry as the store of fleet breakers. It does no I/O.
func (r *Registry) Fleet() *Fleet { return r.fleet }

// errOlder is what a node that has no Fleet is.
var errOlder = errors.New("this node is older than fleet breakers and keeps none: start a newer `eider server`, or give the breakers another store")

// Tell keeps what a caller has counted of a key, in the place of what it told before; an empty count takes that away. It
// returns what there is, with what all callers have told if all is set. It waits as long as ctx lets it, 10s at most.
func (f *Fleet) Tell(ctx context.Context, key, caller string, count []byte, all bool) (eider.FleetSight, error) {
	m := &pb.TellRequest{Key: key, Caller: caller, Count: count, All: all}
	if !utf8.ValidString(caller) {
		return eider.FleetSight{}, eider.Errorf(eider.Invalid, "tell fleet breaker", "the caller's name %.64q isn't UTF-8; choose another", caller)
	}
	reply, err := ask(ctx, f.reg, "tell", key, func(ctx context.Context, c pb.FleetClient) (*pb.Sight, error) { return c.Tell(ctx, m) })
	if err != nil {
		return eider.FleetSight{}, err
	}
	return wire.ToSight(reply), nil
}

// Swap puts a record in the place of the one with this version, as one step; of version 0: where there is none. False:
// somebody else was faster. The sight is what is there afterwards. It waits as Tell does; after an error the record may be
// there or not.
func (f *Fleet) Swap(ctx context.Context, key string, version uint64, record []byte) (eider.FleetSight, bool, error) {
	m := &pb.SwapRequest{Key: key, Version: version, Record: record}
	reply, err := ask(ctx, f.reg, "swap", key, func(ctx context.Context, c pb.FleetClient) (*pb.SwapReply, error) { return c.Swap(ctx, m) })
	if err != nil {
		return eider.FleetSight{}, false, err
	}
	return wire.ToSight(reply.GetSight()), reply.GetSwapped(), nil
}

// ask asks the current node once.
func ask[Reply any](ctx context.Context, r *Registry, what, key string, rpc func(context.Context, pb.FleetClient) (*Reply, error)) (*Reply, error) {
	op := fmt.Sprintf("%s fleet breaker %.64q", what, key)
	if !utf8.ValidString(key) {
		return nil, eider.Errorf(eider.Invalid, op, "the key isn't UTF-8; name the target in letters")
	}
	if ctx.Err() != nil {
		return nil, &eider.Error{Op: op, Kind: eider.Unavailable, Err: ctx.Err()}
	}
	asked, leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	k, err := r.links.take()
	if err != nil {
		return nil, &eider.Error{Op: op, Kind: eider.KindOf(err), Err: err}
	}
	reply, err := rpc(asked, pb.NewFleetClient(k.cc))
	if err == nil {
		k.stood.Store(true)
		r.links.give(k, false, false)
		return reply, nil
	}
	r.links.give(k, k.lost(), false)
	switch {
	case r.isClosed():
		return nil, errClosed
	case ctx.Err() != nil:
		return nil, &eider.Error{Op: op, Kind: eider.Unavailable, Err: fmt.Errorf("registry %s gave no answer in time: %w", k.addr, ctx.Err())}
	case asked.Err() != nil:
		return nil, eider.Errorf(eider.Unavailable, op, "registry %s gave no answer for %s", k.addr, answerWithin)
	}
	err = k.explain(err)
	return nil, &eider.Error{Op: op, Kind: eider.KindOf(err), Err: err, RetryAfter: retryAfter(err)}
}

// enter has Close wait for a question that is asked, and ends it when Close begins.
func (r *Registry) enter(ctx context.Context) (asked context.Context, leave func(), err error) {
	if r.fault != nil {
		return nil, nil, r.fault
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isClosed() {
		return nil, nil, errClosed
	}
	r.running.Add(1)
	asked, cancel := context.WithTimeout(ctx, answerWithin)
	stop := context.AfterFunc(r.closing, cancel)
	return asked, func() {
		stop()
		cancel()
		r.running.Done()
	}, nil
}

// lost tells whether a link over which a question failed is to be given up. One that has lost its connection makes
// another by itself, once; one whose node doesn't say its first word has as long as a stream would give it.
func (k *link) lost() bool {
	switch k.cc.GetState() {
	case connectivity.Ready, connectivity.Idle:
		return false
	case connectivity.Connecting:
		return time.Since(k.made) > k.greet
	}
	return true
}

// beside is the error that a node has put beside a status, nil if there is none.
func beside(st *status.Status) *eider.Error {
	for _, d := range st.Details() {
		if m, ok := d.(*pb.Error); ok {
			e, _ := errors.AsType[*eider.Error](wire.ToError("", m))
			return e
		}
	}
	if st.Code() == codes.Unimplemented {
		return &eider.Error{Kind: eider.Invalid, Err: errOlder}
	}
	return nil
}

func retryAfter(err error) time.Duration {
	e, _ := errors.AsType[*eider.Error](err)
	if e == nil {
		return 0
	}
	return e.RetryAfter
}
