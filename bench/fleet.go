package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// shared are callers of one key, all joined.
type shared struct {
	key      string
	place    *place
	callers  []*fleet.Breaker
	observer fleet.Store // of a client that does nothing else
	done     []func() error
	opened   finish
	closed   finish
}

func openShared(p *place, n int, config fleet.Config) (*shared, error) {
	s := &shared{key: "orders", place: p}
	var err error
	if s.observer, err = s.client(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	config.Key = s.key
	config.OnEvent = s.event
	for i := range n {
		config.Caller = "caller" + strconv.Itoa(i)
		if config.Store, err = s.client(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		b, err := fleet.New(config)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.callers = append(s.callers, b)
	}
	if err := s.join(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *shared) client() (fleet.Store, error) {
	store, done, err := s.place.open()
	if err == nil && done != nil {
		s.done = append(s.done, done)
	}
	return store, err
}

// join has each make a call that says nothing, and waits until all go by the store.
func (s *shared) join() error {
	for _, b := range s.callers {
		permit, err := b.Allow(context.Background())
		if err != nil {
			return err
		}
		permit.Settle(breaker.Neutral)
	}
	for _, b := range s.callers {
		for end := time.Now().Add(patience); b.Snapshot().Alone; <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("a caller hasn't joined after %v: %w", patience, b.Snapshot().Why)
			}
		}
	}
	return nil
}

func (s *shared) event(ev fleet.Event) {
	switch {
	case ev.Parted != nil || ev.Joined || ev.From == ev.To:
	case ev.To == breaker.Open:
		s.opened.one()
	case ev.To == breaker.Closed:
		s.closed.one()
	}
}

var errFailing = errors.New("failed")

// sicken has a caller's calls fail until its own breaker opens, and returns when the last of them began.
func (s *shared) sicken(i int) (began time.Time) {
	b := s.callers[i]
	for b.Local().State() == breaker.Closed {
		began = time.Now()
		_ = b.Do(context.Background(), func(context.Context) error { return errFailing })
	}
	return began
}

// trip has the last of a quorum see that calls fail, and returns how long it took from its last failed call until the last of all
// callers rejects. The others of the quorum have said so before.
func (s *shared) trip(quorum int) (time.Duration, error) {
	for i := range quorum - 1 {
		s.sicken(i)
	}
	if err := s.told(context.Background(), quorum-1); err != nil {
		return 0, err
	}
	s.opened.expect(len(s.callers))
	began := s.sicken(quorum - 1)
	err := s.opened.wait()
	return time.Since(began), err
}

// told waits until so many callers' own breakers have been told of as open.
func (s *shared) told(ctx context.Context, n int) error {
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		seen, err := s.observer.Tell(ctx, s.key, "observer", nil, true)
		if err != nil {
			return err
		}
		open := 0
		for _, c := range fleet.ReadCounts(seen) {
			if c.Open {
				open++
			}
		}
		if open == n {
			return nil
		}
	}
	return fmt.Errorf("not all of %d callers have told that theirs is open after %v", n, patience)
}

// reset closes it by hand, and waits until all callers have that.
func (s *shared) reset() error {
	s.closed.expect(len(s.callers))
	if _, err := fleet.Force(context.Background(), s.observer, s.key, breaker.Closed); err != nil {
		return err
	}
	return s.closed.wait()
}

// roundTrip is the median time that the store takes to answer what a caller tells it in quiet.
func (s *shared) roundTrip(n int) (time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		if _, err := s.observer.Tell(context.Background(), s.key, "observer", nil, false); err != nil {
			return 0, err
		}
		times[i] = time.Since(start)
	}
	return median(times), nil
}

// Close ends callers and clients, and then the place.
func (s *shared) Close() error {
	var wg sync.WaitGroup
	for _, b := range s.callers {
		wg.Go(b.Close)
	}
	wg.Wait()
	var errs []error
	for _, done := range slices.Backward(s.done) {
		errs = append(errs, done())
	}
	if s.place.end != nil {
		errs = append(errs, s.place.end())
	}
	return errors.Join(errs...)
}
