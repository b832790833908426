package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
)

// load is how fifty callers of a key use it, one call each 5 ms each: 10,000 calls a second together.
type load struct {
	name  string
	quiet bool // no calls at all
	fails func(caller, call int) bool
	state breaker.State // forced; Closed: it isn't
}

func loads() []load {
	return []load{
		{name: "no calls", quiet: true},
		{name: "10,000 calls/s, all well", fails: func(int, int) bool { return false }},
		{name: "10,000 calls/s, one in ten fails", fails: func(_, call int) bool { return call%10 == 0 }},
		{name: "10,000 calls/s, two callers of fifty see nothing but failures", fails: func(caller, _ int) bool { return caller < fleetQuorum-1 }},
		{name: "10,000 calls/s, open by hand", fails: func(int, int) bool { return false }, state: breaker.ForcedOpen},
	}
}

// fleetLoad is what Redis has to do for them.
func fleetLoad() ([]Row, error) {
	var rows []Row
	for _, l := range loads() {
		u, err := l.use(20 * time.Second)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", l.name, err)
		}
		rows = append(rows, u.rows(l.name)...)
	}
	return rows, nil
}

// use is what a load has used, in a length of time.
type use struct {
	crowd
	lasts    time.Duration
	trips    int64
	commands map[string]int // those in a script too
	in, out  int            // bytes, to Redis and from it
}

func (u use) each(n float64) float64 { return n / fleetCallers / u.lasts.Seconds() }

func (u use) rows(name string) []Row {
	rows := []Row{
		{name + ": round trips a caller and second", fmt.Sprintf("%.2f", u.each(float64(u.trips)))},
		{name + ": commands a caller and second, those in a script too", perCall(u.commands, fleetCallers*int(u.lasts.Seconds()))},
		{name + ": bytes a caller and second to Redis, from Redis", fmt.Sprintf("%.0f, %.0f", u.each(float64(u.in)), u.each(float64(u.out)))},
	}
	if u.calls > 0 {
		rows = append(rows, u.crowd.rows(name, u.lasts)[:2]...)
	}
	return rows
}

func (l load) use(lasts time.Duration) (u use, err error) {
	ctx := context.Background()
	server, err := startRedis()
	if err != nil {
		return u, err
	}
	p, err := placeOf(server, 0)
	if err != nil {
		return u, err
	}
	s, err := openShared(p, fleetCallers, fleet.Config{})
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if l.state != breaker.Closed {
		if _, err := fleet.Force(ctx, s.observer, s.key, l.state); err != nil {
			return u, err
		}
	}
	if !l.quiet { // the first reports have been made
		l.call(s, 3*time.Second)
	}
	in, out, err := server.bytes(ctx)
	if err != nil {
		return u, err
	}
	sent := p.sent.Load()
	u.lasts = lasts
	if u.commands, err = server.during(func() error {
		u.crowd = l.call(s, lasts)
		return nil
	}); err != nil {
		return u, err
	}
	u.trips = p.sent.Load() - sent
	u.in, u.out, err = server.bytes(ctx)
	u.in, u.out = u.in-in, u.out-out
	return u, err
}

func (l load) call(s *shared, lasts time.Duration) crowd {
	if l.quiet {
		<-time.After(lasts)
		return crowd{}
	}
	calls := make([]int, len(s.callers))
	return crowded(len(s.callers), lasts, 5*time.Millisecond, 0, func(i int, work func()) error {
		calls[i]++
		return s.callers[i].Do(context.Background(), func(context.Context) error {
			work()
			if l.fails(i, calls[i]) {
				return errFailing
			}
			return nil
		})
	})
}

// fleetFifty has fifty callers make calls of 5 ms one after the other, as gobreaker's do beside it.
func fleetFifty() ([]Row, error) {
	const lasts, takes = 20 * time.Second, 5 * time.Millisecond
	p, err := redisPlace(0)
	if err != nil {
		return nil, err
	}
	s, err := openShared(p, fleetCallers, fleet.Config{})
	if err != nil {
		return nil, err
	}
	c := crowded(len(s.callers), lasts, 0, takes, func(i int, work func()) error {
		return s.callers[i].Do(context.Background(), func(context.Context) error { work(); return nil })
	})
	return c.rows(fmt.Sprintf("%d callers, calls of %v", fleetCallers, takes), lasts), s.Close()
}
