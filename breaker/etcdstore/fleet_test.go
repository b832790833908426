package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fleettest"
	"github.com/eiderhq/eider/internal/recovery"
)

var errDown = errors.New("it is down")

func good(context.Context) error { return nil }
func bad(context.Context) error  { return errDown }

// Fifty callers, each with a connection of its own, let what comes back recover: one tries, and nobody pushes it over.
func TestRecovery(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	var stores []fleet.Store
	for range recovery.Callers {
		stores = append(stores, New(dial(t, etcd), Config{}))
	}
	fleettest.Recovery(t, func(caller int) fleet.Store { return stores[caller] })
}

// team is four callers of a key that share a breaker.
type team struct {
	state          breaker.State
	all            []*fleet.Breaker
	parted, joined atomic.Int64
	permit         fleet.Permit // HalfOpen: the trial that is being made
}

// bring has a team come to a state, in which it stays for longer than the test lasts.
func bring(t *testing.T, etcd *member, state breaker.State, before string) *team {
	t.Helper()
	crew := &team{state: state}
	c := fleet.Config{Key: fmt.Sprint(state, " before it is ", before), OpenFor: 20 * time.Minute, Lease: 20 * time.Minute, Ramp: 20 * time.Minute,
		Local:  breaker.Config{SlowLimit: -1, TrialTimeout: 20 * time.Minute},
		Report: 100 * time.Millisecond, Poll: 200 * time.Millisecond, Retry: 100 * time.Millisecond, Wait: time.Second,
		OnEvent: func(ev fleet.Event) {
			if ev.Parted != nil {
				crew.parted.Add(1)
			}
			if ev.Joined {
				crew.joined.Add(1)
			}
		}}
	if state == breaker.HalfOpen || state == breaker.Ramping {
		c.OpenFor, c.MaxOpen = time.Millisecond, time.Millisecond
	}
	for i := range 4 {
		c.Store, c.Caller = New(dial(t, etcd), Config{}), fmt.Sprint("caller-", i)
		b, err := fleet.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		crew.all = append(crew.all, b)
		_ = b.Do(t.Context(), good)
	}
	crew.until(t, "has joined", func(s fleet.Snapshot) bool { return !s.Alone })
	if state != breaker.Closed {
		for _, b := range crew.all {
			for range 30 {
				_ = b.Do(t.Context(), bad)
			}
		}
		crew.until(t, "is open", func(s fleet.Snapshot) bool { return s.State != breaker.Closed })
	}
	if state == breaker.HalfOpen || state == breaker.Ramping {
		eventually(t, "one has the permit", func() bool {
			p, err := crew.all[1].Allow(t.Context())
			crew.permit = p
			return err == nil && p.Trial()
		})
	}
	if state == breaker.Ramping {
		crew.permit.Settle(breaker.Success)
	}
	crew.until(t, fmt.Sprint("is ", state), func(s fleet.Snapshot) bool { return s.State == state && !s.Alone })
	for _, b := range crew.all {
		b.Local().Reset() // else who is on his own rejects for what he has seen himself: rightly
	}
	return crew
}

func (crew *team) until(t *testing.T, what string, yes func(fleet.Snapshot) bool) {
	t.Helper()
	for i, b := range crew.all {
		for late := time.Now().Add(patience); !yes(b.Snapshot()); <-time.After(20 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%v: not within %v: caller %d %s: %+v", crew.state, patience, i, what, b.Snapshot())
			}
		}
	}
}

// Whatever etcd does in whichever state: its callers go on alone, and say so; no call is rejected or waits for it; and they
// join again.
func TestEtcdGoesAway(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	for name, fault := range map[string]struct{ away, back func() }{
		"killed":  {func() { etcd.end(syscall.SIGKILL) }, func() { etcd.again(t) }},
		"stopped": {func() { etcd.stop(t) }, func() { etcd.goOn(t) }},
		"killed, without its disk": {func() { etcd.end(syscall.SIGKILL) }, func() {
			if err := os.RemoveAll(etcd.dir); err != nil {
				t.Fatal(err)
			}
			etcd.again(t)
		}},
	} {
		var teams []*team
		for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Ramping} {
			teams = append(teams, bring(t, etcd, state, name))
		}
		fault.away()
		for _, crew := range teams {
			crew.until(t, "goes on alone", func(s fleet.Snapshot) bool {
				return s.Alone
			})
			for i, b := range crew.all {
				for range 100 {
					if err := b.Do(t.Context(), good); err != nil {
						t.Fatalf("%s, %v: caller %d, alone: %v", name, crew.state, i, err)
					}
				}
			}
			eventually(t, "all have said so", func() bool { return crew.parted.Load() >= 4 }) // events come beside what they tell of
			if n := crew.parted.Load(); n != 4 {
				t.Errorf("%s, %v: %d of 4 callers have said that they are alone", name, crew.state, n)
			}
		}
		fault.back()
		for _, crew := range teams {
			crew.comeBack(t, name == "killed, without its disk")
		}
	}
}

// comeBack holds that a team joins again, to what etcd has kept: a trial that was made meanwhile is heard.
func (crew *team) comeBack(t *testing.T, lost bool) {
	t.Helper()
	crew.until(t, "joins again", func(s fleet.Snapshot) bool { return !s.Alone })
	want := crew.state
	if lost {
		want = breaker.Closed
	}
	crew.until(t, fmt.Sprint("is again ", want), func(s fleet.Snapshot) bool { return s.State == want && s.Epoch == crew.all[0].Snapshot().Epoch })
	if crew.state == breaker.HalfOpen {
		crew.permit.Settle(breaker.Success)
		if !lost {
			crew.until(t, "hears that the trial went well", func(s fleet.Snapshot) bool { return s.State == breaker.Ramping })
		}
	}
	for _, b := range crew.all {
		b.Close()
	}
}

// Permits of one key, of which two must never be live.
type permits struct {
	mu    sync.Mutex
	held  fleet.Permit
	any   bool
	given int
	twice int
}

func (p *permits) take(permit fleet.Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.any && p.held.Live() && permit.Live() {
		p.twice++
	}
	p.held, p.any = permit, true
	p.given++
}

func (p *permits) settle(permit fleet.Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == permit {
		p.any = false
	}
	permit.Settle(breaker.Failure)
}

func TestNeverTwoLivePermits(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	var p permits
	for i := range 8 {
		b, err := fleet.New(fleet.Config{Store: New(dial(t, etcd), Config{}), Key: "orders", Caller: fmt.Sprint("caller-", i), OpenFor: 20 * time.Millisecond, MaxOpen: 20 * time.Millisecond,
			Lease: 4 * time.Second, Wait: 500 * time.Millisecond, Local: breaker.Config{TrialTimeout: 300 * time.Millisecond},
			Report: 50 * time.Millisecond, Poll: 100 * time.Millisecond, Retry: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		calling.Go(func() {
			for ctx.Err() == nil {
				permit, err := b.Allow(ctx)
				switch {
				case err != nil:
				case !permit.Trial():
					permit.Settle(breaker.Failure)
				case permit.Live():
					p.take(permit)
					<-time.After(rand.N(50 * time.Millisecond))
					if rand.IntN(3) > 0 { // else it is abandoned
						p.settle(permit)
					}
				}
				<-time.After(time.Millisecond)
			}
		})
	}
	given := func(more int) {
		t.Helper()
		p.mu.Lock()
		before := p.given
		p.mu.Unlock()
		eventually(t, "permits are given", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.given >= before+more
		})
	}
	given(5)
	for range 2 {
		etcd.stop(t)
		<-time.After(rand.N(2 * time.Second))
		etcd.goOn(t)
		given(5)
		etcd.end(syscall.SIGKILL)
		etcd.again(t)
		given(5)
	}
	cancel()
	calling.Wait()
	if p.twice > 0 {
		t.Errorf("%d of %d permits were given while another one was live", p.twice, p.given)
	}
}
