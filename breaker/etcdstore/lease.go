package etcdstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leases end what nobody looks after any more.
//
// Counts hang on one of this Store, which is never kept alive but granted anew in good time: so a count ends although its
// process lives on and tells others. A record has a lease of its own, which stays with it whoever swaps, and which each
// Store that tells of it keeps alive once in a while.
type leases struct {
	client           *clientv3.Client
	keepCounts, keep time.Duration

	turn   chan struct{} // to grant
	counts lease         // while one has the turn

	mu    sync.Mutex
	spare lease // granted for a record that somebody else was faster with
}

type lease struct {
	id clientv3.LeaseID
	at time.Time // before it was asked for, or kept alive
}

// ofCounts is a lease that lasts for keepCounts at least, and half of that more at most. It isn't the lost one, which etcd
// didn't know.
func (l *leases) ofCounts(ctx context.Context, lost clientv3.LeaseID) (clientv3.LeaseID, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if l.counts.id != lost && time.Since(l.counts.at) < l.keepCounts/2 {
		return l.counts.id, nil
	}
	granted, err := l.grant(ctx, l.keepCounts+l.keepCounts/2)
	if err != nil {
		return 0, err
	}
	l.counts = granted
	return granted.id, nil
}

// ofRecord is a lease for one record. It lasts for longer than keep by how seldom it is kept alive.
func (l *leases) ofRecord(ctx context.Context) (lease, error) {
	l.mu.Lock()
	spare := l.spare
	l.spare = lease{}
	l.mu.Unlock()
	if spare.id != 0 && time.Since(spare.at) < l.keep/4 {
		return spare, nil
	}
	return l.grant(ctx, l.keep+l.keep/4)
}

func (l *leases) unused(spare lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = spare
}

func (l *leases) grant(ctx context.Context, ttl time.Duration) (lease, error) {
	asked := time.Now()
	granted, err := l.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return lease{}, err
	}
	return lease{granted.ID, asked}, nil
}

// touch keeps the lease of a page's record alive, if nobody has from here for a while. It is no error if that fails: the
// next who tells tries again, and there is a quarter of keep to do it in.
func (l *leases) touch(ctx context.Context, p *page) {
	asked := time.Now()
	id, due := p.keepAlive(asked, l.keep/4)
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := l.client.KeepAliveOnce(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		p.notKept(id)
	}
}
