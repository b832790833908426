package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Sony is what gobreaker's distributed breaker costs, and what it does when its Redis isn't well.
func Sony() ([]Row, error) {
	var rows []Row
	for _, part := range []func(*redisServer) ([]Row, error){sonyAlone, sonyOpen, sonyTogether, sonyLong, sonyFlushed, sonyStopped} {
		server, err := startRedis()
		if err != nil {
			return rows, err
		}
		more, err := part(server)
		if err := errors.Join(err, server.Close()); err != nil {
			return rows, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func nothing() (int, error) { return 0, nil }

func sonyAlone(server *redisServer) ([]Row, error) {
	c, err := openSony(server.addr, "closed", gobreaker.Settings{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return sonyCalls(server, c, "closed, one caller", func() error {
		_, err := c.breaker.Execute(nothing)
		return err
	})
}

func sonyOpen(server *redisServer) ([]Row, error) {
	c, err := openSony(server.addr, "open", gobreaker.Settings{ReadyToTrip: func(gobreaker.Counts) bool { return true }, Timeout: time.Hour})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.breaker.Execute(func() (int, error) { return 0, errors.New("failed") }); err == nil {
		return nil, errors.New("the call that opens gobreaker hasn't failed")
	}
	return sonyCalls(server, c, "open, one caller", func() error {
		if _, err := c.breaker.Execute(nothing); !errors.Is(err, gobreaker.ErrOpenState) {
			return fmt.Errorf("gobreaker should be open, and says: %w", err)
		}
		return nil
	})
}

// sonyCalls makes calls one after the other, in turns with round trips.
func sonyCalls(server *redisServer, c *sonyCaller, name string, call func() error) ([]Row, error) {
	const rounds, each = 10, 100
	var trips, calls []time.Duration
	for range each { // a connection and the scripts are there
		if err := call(); err != nil {
			return nil, err
		}
	}
	inBefore, outBefore, err := server.bytes(context.Background())
	if err != nil {
		return nil, err
	}
	sent := c.store.trips.Load()
	used, err := server.during(func() error {
		for range rounds {
			trip, err := server.roundTrip(each)
			if err != nil {
				return err
			}
			trips = append(trips, trip)
			for range each {
				start := time.Now()
				if err := call(); err != nil {
					return err
				}
				calls = append(calls, time.Since(start))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	in, out, err := server.bytes(context.Background())
	if err != nil {
		return nil, err
	}
	// A PING is 14 bytes and 7; what INFO says of itself is some kilobytes in a thousand calls.
	const n = rounds * each
	took, trip := median(calls), median(trips)
	return []Row{
		{name + ": round trips a call", fmt.Sprintf("%.1f", float64(c.store.trips.Load()-sent)/n)},
		{name + ": commands a call, those in a script too", perCall(used, n)},
		{name + ": bytes a call to Redis, from Redis", fmt.Sprintf("%d, %d", (in-inBefore)/n-14, (out-outBefore)/n-7)},
		{name + ": time a call, a PING, calls in PINGs", fmt.Sprintf("%s, %s, %.1f", nanoseconds(took), nanoseconds(trip), float64(took)/float64(trip))},
	}, nil
}

func perCall(used map[string]int, n int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		parts = append(parts, fmt.Sprintf("%s %.1f", name, float64(used[name])/float64(n)))
	}
	return fmt.Sprintf("%.1f (%s)", float64(sum(used))/float64(n), strings.Join(parts, ", "))
}

// sonyTogether has fifty callers call as fast as they may.
func sonyTogether(server *redisServer) ([]Row, error) {
	var rows []Row
	for _, takes := range []time.Duration{0, 5 * time.Millisecond} {
		more, err := sonyFifty(server, takes)
		if err != nil {
			return rows, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func sonyFifty(server *redisServer, takes time.Duration) ([]Row, error) {
	const lasts = 20 * time.Second
	name := fmt.Sprintf("%d callers, calls of %v", fleetCallers, takes)
	callers := make([]*sonyCaller, fleetCallers)
	for i := range callers {
		c, err := openSony(server.addr, name, gobreaker.Settings{ReadyToTrip: func(gobreaker.Counts) bool { return false }})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		callers[i] = c
	}
	var c crowd
	used, err := server.during(func() error {
		c = crowded(len(callers), lasts, 0, takes, func(i int, work func()) error {
			_, err := callers[i].breaker.Execute(func() (int, error) { work(); return 0, nil })
			return err
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	counted, err := sonyCounted(server, name)
	if err != nil {
		return nil, err
	}
	return append(c.rows(name, lasts),
		Row{name + ": commands a call, those in a script too", perCall(used, max(c.made, 1))},
		Row{name + ": calls made, calls that the shared count has", fmt.Sprintf("%d, %d", c.made, counted)},
	), nil
}

// sonyCounted reads how many calls the shared state has.
func sonyCounted(server *redisServer, name string) (uint32, error) {
	var state gobreaker.SharedState
	text, err := server.client.Get(context.Background(), "gobreaker:state:"+name).Bytes()
	if err != nil {
		return 0, err
	}
	err = json.Unmarshal(text, &state)
	return state.Counts.Requests, err
}

// sonyLong makes one call that takes longer than the lock that it is made under, and lets another caller call meanwhile.
func sonyLong(server *redisServer) ([]Row, error) {
	a, err := openSony(server.addr, "long", gobreaker.Settings{})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := openSony(server.addr, "long", gobreaker.Settings{})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var first, second error
	var waited time.Duration
	begun, meanwhile := make(chan struct{}), false
	var wg sync.WaitGroup
	wg.Go(func() {
		_, first = a.breaker.Execute(func() (int, error) { close(begun); <-time.After(7 * time.Second); return 0, nil })
	})
	<-begun
	start := time.Now()
	_, second = b.breaker.Execute(func() (int, error) { meanwhile = true; return 0, nil })
	waited = time.Since(start)
	wg.Wait()
	return []Row{
		{"a call of 7 s that succeeds returns", said(first)},
		{"another caller's call during it: made meanwhile, returns after", fmt.Sprintf("%v, %s, %s", meanwhile, nanoseconds(waited), said(second))},
	}, nil
}

func said(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("%q", err)
}

// sonyFlushed forgets everything, and looks for as long as five of its timeouts whether a call gets through.
func sonyFlushed(server *redisServer) ([]Row, error) {
	c, err := openSony(server.addr, "flushed", gobreaker.Settings{Timeout: time.Second})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := server.client.FlushAll(context.Background()).Err(); err != nil {
		return nil, err
	}
	made, let := 0, 0
	var last error
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		made++
		if _, last = c.breaker.Execute(nothing); last == nil {
			let++
		}
	}
	return []Row{{"after FLUSHALL, 5 s with a Timeout of 1 s: calls let through", fmt.Sprintf("%d of %d; %s", let, made, said(last))}}, nil
}

// sonyStopped makes calls while the server hangs, and while there is none.
func sonyStopped(server *redisServer) ([]Row, error) {
	c, err := openSony(server.addr, "stopped", gobreaker.Settings{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.breaker.Execute(nothing); err != nil {
		return nil, err
	}
	call := func() (string, time.Duration) {
		start, ran := time.Now(), false
		_, err := c.breaker.Execute(func() (int, error) { ran = true; return 0, nil })
		return fmt.Sprintf("made: %v, %s", ran, said(err)), time.Since(start)
	}
	if err := server.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	hung, hangs := call()
	_ = server.cmd.Process.Kill()
	var gone string
	var took []time.Duration
	for range 20 {
		var t time.Duration
		gone, t = call()
		took = append(took, t)
	}
	return []Row{
		{"Redis hangs: one call", fmt.Sprintf("%s, %s", nanoseconds(hangs), hung)},
		{"Redis is gone: the last of twenty calls, the median of them", fmt.Sprintf("%s, %s", nanoseconds(median(took)), gone)},
	}, nil
}
