package etcdstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/eiderhq/eider/breaker/fleet"
)

// Watch is [fleet.Store.Watch]: etcd pushes, and each ten seconds the watch looks for itself. That finds what no push tells: an
// etcd that hangs, and one that has lost its disk or was restored, whose revisions are those of another history.
func (s *Store) Watch(ctx context.Context, key string) iter.Seq2[fleet.Sight, error] {
	return func(yield func(fleet.Sight, error) bool) {
		if err := fits(ctx, key, "", nil); err != nil {
			yield(fleet.Sight{}, err)
			return
		}
		p, err := s.book.at(key, time.Now())
		if err != nil {
			yield(fleet.Sight{}, err)
			return
		}
		w := &watch{store: s, page: p, key: key, yield: yield}
		if err := w.run(ctx); err != nil && !w.left {
			yield(fleet.Sight{}, s.failed(ctx, "the watch", key, err))
		}
	}
}

type watch struct {
	store *Store
	page  *page
	key   string
	yield func(fleet.Sight, error) bool

	revision int64  // up to which nothing was missed
	version  uint64 // that was yielded last
	begun    bool
	left     bool // by who reads it
}

// run looks, and follows the pushes from there on, until they must be begun anew.
func (w *watch) run(ctx context.Context) error {
	for !w.left {
		if _, err := w.lookAnew(ctx); err != nil || w.left {
			return err
		}
		if err := w.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lookAnew asks for what is there. It tells whether that is what pushes have shown, in the same history.
func (w *watch) lookAnew(ctx context.Context) (same bool, err error) {
	inTime, cancel := context.WithTimeout(ctx, w.store.wait)
	defer cancel()
	got, err := w.store.client.Get(inTime, w.store.record(w.key))
	if err != nil {
		return false, err
	}
	seen, err := w.page.sight(got.Kvs, time.Now())
	if err != nil {
		return false, err
	}
	same = w.begun && seen.Version == w.version && got.Header.Revision >= w.revision
	w.revision = got.Header.Revision
	w.show(seen)
	return same, nil
}

func (w *watch) show(seen fleet.Sight) {
	if w.begun && seen.Version == w.version {
		return
	}
	w.begun, w.version = true, seen.Version
	w.left = !w.yield(seen, nil)
}

// follow yields what is pushed; nil: begin anew.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	pushed := w.pushes(ctx)
	defer func() {
		cancel()
		for range pushed { // until who sends there has ended
		}
	}()
	look := time.NewTicker(w.store.look)
	defer look.Stop()
	for !w.left {
		select {
		case push, open := <-pushed:
			switch {
			case !open && ctx.Err() != nil:
				return ctx.Err()
			case !open:
				return errors.New("the client has ended it")
			case push.CompactRevision != 0:
				return nil
			case push.Err() != nil:
				return push.Err()
			}
			if err := w.event(push); err != nil {
				return err
			}
		case <-look.C:
			if same, err := w.lookAnew(ctx); err != nil || !same {
				return err
			}
		}
	}
	return nil
}

func (w *watch) event(push clientv3.WatchResponse) error {
	if len(push.Events) == 0 {
		return nil
	}
	last := push.Events[len(push.Events)-1]
	w.revision = max(w.revision, last.Kv.ModRevision)
	if last.Type == clientv3.EventTypeDelete {
		w.show(fleet.Sight{})
		return nil
	}
	seen, err := w.page.sight([]*mvccpb.KeyValue{last.Kv}, time.Now())
	if err == nil {
		w.show(seen)
	}
	return err
}

// pushes are etcd's from the next revision on, of which only the newest waits for who reads. A member without a leader ends
// them, as it wouldn't hear of anything.
func (w *watch) pushes(ctx context.Context) <-chan clientv3.WatchResponse {
	newest, from := make(chan clientv3.WatchResponse, 1), w.revision+1
	go func() {
		defer close(newest)
		for push := range w.store.client.Watch(clientv3.WithRequireLeader(ctx), w.store.record(w.key), clientv3.WithRev(from)) {
			if len(push.Events) == 0 && push.Err() == nil {
				continue // the progress that somebody asked this client for: what waits to be read is news
			}
			select {
			case <-newest:
			default:
			}
			newest <- push
		}
	}()
	return newest
}
