package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/eiderhq/eider/breaker/fleet"
)

// looking is a watch that has looked for the first time.
func looking(t *testing.T, s *Store, key string) *watch {
	t.Helper()
	p, err := s.book.at(key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{store: s, page: p, key: key, yield: func(fleet.Sight, error) bool { return true }}
	if same, err := w.lookAnew(t.Context()); same || err != nil {
		t.Fatal(same, err)
	}
	return w
}

// What happens between the first look and the first push isn't missed.
func TestAWatchHasNoGap(t *testing.T) {
	s := New(common(t))
	s.look = time.Hour
	w := looking(t, s, "orders")
	put := swap(t, s, "orders", 0, "open")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var seen fleet.Sight
	w.yield = func(s fleet.Sight, _ error) bool {
		seen = s
		return false
	}
	if err := w.follow(ctx); err != nil || seen.Version != put.Version {
		t.Errorf("%+v, %v; put was %+v", seen, err, put)
	}
}

func TestAWatchIsPushed(t *testing.T) {
	s := New(common(t))
	s.look = time.Hour
	other := New(s.client, Config{Prefix: s.prefix})
	watch := follow(t, s, "orders")
	watch.until(t, "nothing", 0)
	put := swap(t, other, "orders", 0, "open")
	watch.until(t, "the first", put.Version)
	watch.until(t, "the second", swap(t, other, "orders", put.Version, "closed").Version)
	if _, err := s.client.Delete(t.Context(), s.prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	watch.until(t, "its end", 0)
	watch.until(t, "another", swap(t, other, "orders", 0, "open").Version)
}

// pushing is a client's Watcher, as a test pushes.
type pushing struct {
	clientv3.Watcher
	pushes chan clientv3.WatchResponse
}

func (p pushing) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	return p.pushes
}

// Who shares the client may ask it for progress, which every watch is told.
func TestAWatchKeepsItsEventWhenProgressIsPushed(t *testing.T) {
	p := pushing{pushes: make(chan clientv3.WatchResponse)}
	w := &watch{store: New(&clientv3.Client{Watcher: p}, Config{}), key: "orders"}
	unread := w.pushes(t.Context())
	p.pushes <- clientv3.WatchResponse{Events: []*clientv3.Event{{}}}
	p.pushes <- clientv3.WatchResponse{}
	p.pushes <- clientv3.WatchResponse{} // taken: the one before it is done with
	if push := <-unread; len(push.Events) != 1 {
		t.Error("progress has displaced an event")
	}
	close(p.pushes)
}

// Who doesn't read for long goes on with the newest, and nothing has piled up for him.
func TestASlowReaderSkips(t *testing.T) {
	s := New(common(t))
	last := swap(t, s, "orders", 0, "0")
	slow, quick := follow(t, s, "orders"), follow(t, s, "orders")
	slow.until(t, "the first", last.Version)
	last = swap(t, s, "orders", last.Version, "1") // pushes to the slow one begin
	slow.until(t, "the second", last.Version)
	quick.until(t, "the second", last.Version)
	for i := range 100 {
		last = swap(t, s, "orders", last.Version, fmt.Sprint(i))
	}
	quick.until(t, "the newest", last.Version)
	if sights := slow.until(t, "the newest", last.Version); sights > 90 {
		t.Errorf("%d of 100 are yielded to who was away", sights)
	}
}

// One who watches for hours has a page, whoever else is quiet.
func TestAWatchKeepsItsKey(t *testing.T) {
	s := New(common(t))
	s.look = 10 * time.Millisecond
	put := swap(t, s, "orders", 0, "open")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, over := make(chan struct{}), make(chan struct{})
	var ended error
	go func() {
		defer close(over)
		for _, ended = range s.Watch(ctx, "orders") {
			if ended == nil {
				close(begun) // nothing else is yielded
			}
		}
	}()
	<-begun
	p, _ := s.book.at("orders", time.Now())
	p.touch(time.Now().Add(-fleet.Keep))
	eventually(t, "a look is a touch", func() bool { return p.quiet(time.Now()) < fleet.Keep/2 })
	cancel()
	<-over
	if !errors.Is(ended, context.Canceled) || put.Version == 0 {
		t.Error(ended)
	}
}

// Somebody else's request for a lease may hang; whoever waits for it keeps to his own time.
func TestWaitingForALeaseEndsWithTheContext(t *testing.T) {
	s := New(common(t))
	s.leases.turn <- struct{}{}
	told := make(chan error)
	go func() {
		_, err := s.Tell(soon(t), "orders", "a", []byte("1"), false)
		told <- err
	}()
	select {
	case err := <-told:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-s.leases.turn
	case <-time.After(patience / 2):
		t.Error("it waits on")
		<-s.leases.turn
		<-told
	}
	tell(t, s, "orders", "a", "1")
}

// A look that shows what was yielded before yields nothing.
func TestALookIsSilent(t *testing.T) {
	s := New(common(t))
	put := swap(t, s, "orders", 0, "open")
	w := looking(t, s, "orders")
	w.yield = func(seen fleet.Sight, _ error) bool {
		t.Errorf("%+v is yielded once more", seen)
		return true
	}
	if same, err := w.lookAnew(t.Context()); !same || err != nil || w.version != put.Version {
		t.Error(same, err)
	}
}
