package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eiderhq/eider/breaker/fleet"
)

// watcher is one Watch. What it is told of is only that there may be something new: it reads that itself, one read after the
// other, so that no late message takes it back to what was.
type watcher struct {
	key   string
	nudge chan struct{} // holds one

	// under the Store's mu
	version uint64    // of what it has read last
	rumour  uint64    // another version that this Store has heard of since it began to read
	hearsay bool      // there is a rumour
	unsure  bool      // it must read whatever the rumour: it was not subscribed, or rumours differ
	heard   time.Time // when this Store last heard of the key
	refused error     // why there will be no push
}

// Watch is [fleet.Store.Watch]: one command at its begin, one more once its Store's subscription is there, and then one for
// each swap of somebody else.
func (s *Store) Watch(ctx context.Context, key string) iter.Seq2[fleet.Sight, error] {
	return func(yield func(fleet.Sight, error) bool) {
		if err := s.fits(ctx, key, "", nil); err != nil {
			yield(fleet.Sight{}, err)
			return
		}
		w := s.join(key)
		defer s.part(w)
		timer := time.NewTimer(s.poll)
		defer timer.Stop()
		for first := true; ; first = false {
			before := w.version
			seen, err := s.read(ctx, w)
			if err != nil {
				yield(fleet.Sight{}, err)
				return
			}
			if (first || seen.Version != before) && !yield(seen, nil) {
				return
			}
			for quiet := true; quiet; {
				select {
				case <-w.nudge:
					quiet = !s.news(w)
				case <-timer.C:
					left := s.poll - s.silence(w)
					quiet = left > 0
					timer.Reset(max(left, s.poll/10))
				case <-ctx.Done():
					yield(fleet.Sight{}, ctx.Err())
					return
				}
			}
		}
	}
}

// read asks Redis what is there, unless it is known that nobody would say when that changes.
func (s *Store) read(ctx context.Context, w *watcher) (fleet.Sight, error) {
	s.mu.Lock()
	err := w.refused
	w.hearsay, w.unsure = false, false
	s.mu.Unlock()
	if err != nil {
		return fleet.Sight{}, explained(ctx, "Watch", w.key, err)
	}
	seen, err := s.lookAt(ctx, w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.version, w.heard = seen.Version, time.Now()
	return seen, err
}

// news is whether a nudge was for something that it hasn't read meanwhile.
func (s *Store) news(w *watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.unsure || w.hearsay && w.rumour != w.version
}

func (s *Store) silence(w *watcher) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(w.heard)
}

// join adds a watcher; the first begins the subscription.
func (s *Store) join(key string) *watcher {
	w := &watcher{key: key, nudge: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[key] = append(s.watchers[key], w)
	if s.watching++; s.watching == 1 {
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go s.subscribe(ctx)
	}
	return w
}

// part takes it away; with the last the subscription ends, as soon as the client lets go of it.
func (s *Store) part(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w.key] = slices.DeleteFunc(s.watchers[w.key], func(other *watcher) bool { return other == w })
	if len(s.watchers[w.key]) == 0 {
		delete(s.watchers, w.key)
	}
	if s.watching--; s.watching == 0 {
		s.stop()
	}
}

// saw is told of each version of a key that this Store learns of: who watches the key and has read another reads again.
func (s *Store) saw(key string, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers[key] {
		w.heard = time.Now()
		if w.version != version {
			w.unsure = w.unsure || w.hearsay && w.rumour != version
			w.rumour, w.hearsay = version, true
			w.wake()
		}
	}
}

func (s *Store) wakeAll(refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watchers := range s.watchers {
		for _, w := range watchers {
			w.refused, w.unsure = refused, true
			w.wake()
		}
	}
}

func (w *watcher) wake() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// subscribe keeps one subscription, as long as anybody watches.
func (s *Store) subscribe(ctx context.Context) {
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, s.poll) {
		begun := time.Now()
		err := s.listen(ctx)
		if ctx.Err() != nil {
			return // what watches now has a subscription of its own
		}
		var refusal redis.Error
		if !errors.As(err, &refusal) || strings.HasPrefix(err.Error(), "LOADING") {
			err = nil // of a connection: there will be another
		}
		s.wakeAll(err) // if Redis has died, each finds that out now
		if time.Since(begun) > s.poll {
			wait = 50 * time.Millisecond
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
		}
	}
}

// listen is one connection's life. A connection that has been silent is asked for an answer; go-redis would ask, but not
// wait for it.
func (s *Store) listen(ctx context.Context) error {
	sub := s.client.Subscribe(ctx)
	heard, ended := make(chan any), make(chan error, 1)
	over, stop := context.WithCancel(ctx)
	go func() { ended <- receive(over, sub, s.channel(), heard) }()
	defer func() {
		stop()
		sub.Close()
		<-ended
	}()
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	for asked := false; ; {
		select {
		case what := <-heard:
			asked = false
			switch what := what.(type) {
			case *redis.Subscription:
				s.wakeAll(nil) // what was swapped before it is there is told to nobody
			case *redis.Message:
				if version, key, ok := strings.Cut(what.Payload, " "); ok {
					v, _ := strconv.ParseUint(version, 10, 64)
					s.saw(strings.TrimPrefix(key, s.prefix), v)
				}
			}
		case <-tick.C:
			if asked {
				return fmt.Errorf("silent for %v", s.poll)
			}
			asked = true
			if err := sub.Ping(over); err != nil {
				return err
			}
		case err := <-ended:
			ended <- nil
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func receive(ctx context.Context, sub *redis.PubSub, channel string, heard chan<- any) error {
	if err := sub.Subscribe(ctx, channel); err != nil {
		return err
	}
	for {
		what, err := sub.Receive(ctx)
		if err != nil {
			return err
		}
		select {
		case heard <- what:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
