package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/breaker/redisstore"
)

func good(context.Context) error { return nil }
func bad(context.Context) error  { return errors.New("it is down") }

// party is some callers, each with a client of its own that dials where the party's master is.
type party struct {
	all            []*fleet.Breaker
	master         atomic.Pointer[string]
	parted, joined []atomic.Int64
	last           atomic.Pointer[string] // why somebody parted
}

func gather(t *testing.T, s *server, c fleet.Config) *party {
	const n = 4
	p := &party{parted: make([]atomic.Int64, n), joined: make([]atomic.Int64, n)}
	p.master.Store(&s.addr)
	for i := range n {
		client := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", *p.master.Load())
		}})
		t.Cleanup(func() { client.Close() })
		c.Store, c.Key, c.Caller = redisstore.New(client, redisstore.Config{}), "orders", fmt.Sprint("caller ", i)
		c.Report, c.Poll, c.Wait, c.Retry = 100*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
		c.OnEvent = func(ev fleet.Event) {
			if ev.Parted != nil {
				why := ev.Parted.Error()
				p.last.Store(&why) // before it counts: who waits for the count reads it
				p.parted[i].Add(1)
			}
			if ev.Joined {
				p.joined[i].Add(1)
			}
		}
		b, err := fleet.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		p.all = append(p.all, b)
	}
	for _, b := range p.all {
		if err := b.Do(t.Context(), good); err != nil {
			t.Fatal(err)
		}
	}
	p.each(t, "has joined", func(_ int, s fleet.Snapshot) bool { return !s.Alone })
	return p
}

func (p *party) each(t *testing.T, what string, is func(i int, s fleet.Snapshot) bool) {
	t.Helper()
	for i, b := range p.all {
		until(t, fmt.Sprintf("caller %d %s; it is %+v", i, what, b.Snapshot()), func() bool { return is(i, b.Snapshot()) })
	}
}

// bring has the fleet come to a state, and returns the permit of the one who tries in HalfOpen.
func (p *party) bring(t *testing.T, state breaker.State) fleet.Permit {
	t.Helper()
	var permit fleet.Permit
	if state == breaker.Closed {
		return permit
	}
	until(t, "the fleet opens", func() bool {
		for _, b := range p.all {
			for range 10 {
				_ = b.Do(t.Context(), bad)
			}
		}
		return p.all[0].Snapshot().State == breaker.Open
	})
	if state != breaker.Open {
		until(t, "somebody may try", func() bool {
			for _, b := range p.all {
				if got, err := b.Allow(t.Context()); err == nil && got.Trial() {
					permit = got
					return true
				} else if err == nil {
					got.Settle(breaker.Neutral)
				}
			}
			return false
		})
	}
	if state == breaker.Ramping {
		permit.Settle(breaker.Success)
	}
	p.each(t, fmt.Sprint("sees ", state), func(_ int, s fleet.Snapshot) bool { return s.State == state && !s.Alone })
	for _, b := range p.all {
		b.Local().Reset() // who parts goes by it, and it would say of itself what it has seen
	}
	return permit
}

// call has every caller make good calls until stop, and counts who was rejected while on its own: nobody ever is.
func (p *party) call(t *testing.T) (alone *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	alone = &atomic.Int64{}
	var running sync.WaitGroup
	for i, b := range p.all {
		running.Go(func() {
			for ctx.Err() == nil {
				before := b.Snapshot()
				err := b.Do(context.Background(), good)
				after := b.Snapshot()
				if before.Alone && after.Alone && before.Joined == after.Joined {
					alone.Add(1)
					if err != nil {
						t.Errorf("caller %d is on its own (%v), and its call: %v", i, after.Why, err)
					}
				} else if err != nil && before.State == breaker.Closed && after.State == breaker.Closed && before.Parted == after.Parted {
					t.Errorf("caller %d, closed: %v", i, err)
				}
				<-time.After(time.Millisecond)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return alone, stop
}

// long lets each state last as long as the test.
func long(state breaker.State) fleet.Config {
	c := fleet.Config{OpenFor: 20 * time.Minute, Lease: 20 * time.Minute, Ramp: 20 * time.Minute, Least: 10, Local: breaker.Config{SlowLimit: 10 * time.Minute}}
	if state != breaker.Open {
		c.OpenFor = 100 * time.Millisecond
	}
	return c
}

// ill is what befalls a server, and how it gets well again.
type ill struct {
	name   string
	befall func(t *testing.T, s *server, p *party) (heal func())
	loses  bool // what was written last
	aloof  bool // callers stay on their own until it is well
}

func ills() []ill {
	return []ill{
		{"killed", func(t *testing.T, s *server, _ *party) func() {
			s.kill()
			return func() { s.restart(t) }
		}, true, true},
		{"stopped", func(t *testing.T, s *server, _ *party) func() {
			s.signal(t, syscall.SIGSTOP)
			return func() { s.signal(t, syscall.SIGCONT) }
		}, false, true},
		{"flushed", func(t *testing.T, s *server, _ *party) func() {
			s.do(t, "FLUSHALL")
			return func() {}
		}, true, false},
	}
}

// What befalls the store in the middle of each state rejects nobody: callers are on their own, say so, and join again by
// themselves.
func TestAStoreThatIsIllRejectsNobody(t *testing.T) {
	for _, ill := range ills() {
		for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Ramping} {
			t.Run(fmt.Sprint(ill.name, " ", state), func(t *testing.T) {
				t.Parallel()
				befalls(t, ill, state)
			})
		}
	}
}

func befalls(t *testing.T, ill ill, state breaker.State) {
	s := start(t)
	p := gather(t, s, long(state))
	permit := p.bring(t, state)
	epoch := p.all[0].Snapshot().Epoch
	alone, stop := p.call(t)
	parted, joined := counts(p.parted), counts(p.joined)
	begun := time.Now()
	heal := ill.befall(t, s, p)
	p.each(t, "has parted", func(i int, _ fleet.Snapshot) bool { return p.parted[i].Load() > parted[i] })
	t.Logf("all parted after %v: %s", time.Since(begun).Round(time.Millisecond), *p.last.Load())
	if ill.aloof {
		enough := alone.Load() + 100
		until(t, "a hundred calls of callers on their own", func() bool { return alone.Load() > enough })
	}
	begun = time.Now()
	heal()
	p.each(t, "has joined again", func(i int, now fleet.Snapshot) bool {
		return !now.Alone && p.joined[i].Load() > joined[i] && now.Epoch == p.all[0].Snapshot().Epoch
	})
	t.Logf("all joined again after %v", time.Since(begun).Round(time.Millisecond))
	stop()
	if now := p.all[0].Snapshot(); (now.Epoch == epoch) == ill.loses {
		t.Errorf("the record was lost: %v; epoch %d, before %d", ill.loses, now.Epoch, epoch)
	} else if now.State != state && !ill.loses {
		t.Errorf("the record wasn't lost; it is %v, was %v", now.State, state)
	}
	if state == breaker.HalfOpen {
		verdictAfter(t, p, permit, ill.loses)
	}
}

// verdictAfter is the half-open state's own end: a permit that the store still knows is the only one, and its verdict closes; one
// that was lost closes nothing.
func verdictAfter(t *testing.T, p *party, permit fleet.Permit, lost bool) {
	t.Helper()
	if permit.Live() == lost {
		t.Errorf("the permit was lost: %v; it is live: %v", lost, permit.Live())
	}
	for i, b := range p.all {
		if other, err := b.Allow(t.Context()); err == nil && other.Trial() {
			t.Errorf("caller %d has got a second permit", i)
		} else if err == nil {
			other.Settle(breaker.Neutral)
		}
	}
	before := p.all[0].Snapshot()
	permit.Settle(breaker.Success)
	if !lost {
		p.each(t, "lets calls in again", func(_ int, s fleet.Snapshot) bool { return s.State == breaker.Ramping })
		return
	}
	until(t, "the verdict is refused", func() bool { return p.refused() > 0 })
	if now := p.all[0].Snapshot(); now.Generation != before.Generation || now.State != breaker.Closed {
		t.Errorf("a verdict that was lost has changed %+v to %+v", before.Record, now.Record)
	}
}

func (p *party) refused() (n uint64) {
	for _, b := range p.all {
		n += b.Snapshot().Refused
	}
	return n
}

func counts(of []atomic.Int64) []int64 {
	out := make([]int64, len(of))
	for i := range of {
		out[i] = of[i].Load()
	}
	return out
}

// A failover that loses the last write takes the fleet one state back, whichever that was, and no call is rejected by those that
// find that out.
func TestAFailoverThatLosesTheLastState(t *testing.T) {
	for _, state := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Ramping} {
		t.Run(fmt.Sprint(state), func(t *testing.T) {
			t.Parallel()
			loses(t, state)
		})
	}
}

func loses(t *testing.T, state breaker.State) {
	master, replica := start(t), start(t)
	host, port, _ := net.SplitHostPort(master.addr)
	replica.do(t, "REPLICAOF", host, port)
	p := gather(t, master, long(state))
	before := breaker.Closed
	var permit fleet.Permit
	switch state {
	case breaker.HalfOpen:
		before = breaker.Open
	case breaker.Ramping:
		before = breaker.HalfOpen
	}
	if before != breaker.Closed {
		permit = p.bring(t, before)
	}
	behind := master.do(t, "HGET", "eider:fleet:orders", "v")
	until(t, "the replica has the record", func() bool { return replica.do(t, "HGET", "eider:fleet:orders", "v") == behind })
	replica.do(t, "REPLICAOF", "NO", "ONE")
	switch state {
	case breaker.Open:
		p.bring(t, breaker.Open)
	case breaker.HalfOpen:
		until(t, "somebody may try", func() bool {
			var err error
			permit, err = p.all[0].Allow(t.Context())
			return err == nil && permit.Trial()
		})
	case breaker.Ramping:
		permit.Settle(breaker.Success)
	}
	p.each(t, fmt.Sprint("sees ", state), func(_ int, s fleet.Snapshot) bool { return s.State == state })
	for _, b := range p.all {
		b.Local().Reset()
	}
	parted, joined := counts(p.parted), counts(p.joined)
	stop := func() {}
	if state != breaker.HalfOpen { // where any call would be the second trial
		_, stop = p.call(t)
	}
	begun := time.Now()
	p.master.Store(&replica.addr)
	master.kill()
	p.each(t, "has parted and joined", func(i int, s fleet.Snapshot) bool {
		return p.parted[i].Load() > parted[i] && p.joined[i].Load() > joined[i] && !s.Alone
	})
	t.Logf("all back after %v: %s", time.Since(begun).Round(time.Millisecond), *p.last.Load())
	stop()
	if state != breaker.HalfOpen {
		p.each(t, fmt.Sprint("sees ", before), func(_ int, s fleet.Snapshot) bool { return s.State == before })
		return
	}
	twoPermits(t, p, permit)
}

// twoPermits is the limit that the package's documentation states: the permit that the new master doesn't know of is given again.
// One verdict is heard: that of the second.
func twoPermits(t *testing.T, p *party, first fleet.Permit) {
	t.Helper()
	var second fleet.Permit
	until(t, "another may try", func() bool {
		for _, b := range p.all {
			got, err := b.Allow(t.Context())
			if err == nil && got.Trial() {
				second = got
				return true
			} else if err == nil {
				got.Settle(breaker.Neutral)
			}
		}
		return false
	})
	if first.Live() {
		t.Error("its holder knows that the first permit is the store's no more, and it is live: a call that isn't made yet would be")
	}
	refused := p.refused()
	first.Settle(breaker.Success)
	until(t, "the first verdict is refused", func() bool { return p.refused() > refused })
	p.each(t, "isn't closed by it", func(_ int, s fleet.Snapshot) bool { return s.Alone || s.State == breaker.HalfOpen })
	second.Settle(breaker.Success)
	p.each(t, "lets calls in again", func(_ int, s fleet.Snapshot) bool { return s.State == breaker.Ramping })
}
