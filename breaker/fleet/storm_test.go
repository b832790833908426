package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/breaker"
)

// Whole callers over ways to the store that fail, hang, lose and repeat, and over a store that forgets, fails over and is overruled:
// no call waits for longer than Wait, no two permits are live at once, no write is against the arrows, and once all is well every
// caller is back, with the others and closed, in the time that the settings say.
func TestStorms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "callers")
		deeds := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) deed {
			return deed{rapid.IntRange(0, 12).Draw(rt, "what"), rapid.IntRange(0, n-1).Draw(rt, "who"), rapid.IntRange(0, 999).Draw(rt, "number")}
		}), 20, 80).Draw(rt, "deeds")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			s := begun(t, n)
			for _, d := range deeds {
				s.does(d)
				s.look()
			}
			s.getsBack()
			s.w.mu.Lock()
			wrong = s.w.wrong
			s.w.mu.Unlock()
		})
		if len(wrong) > 0 {
			rt.Fatalf("%d: %v", len(wrong), wrong[:min(len(wrong), 4)])
		}
	})
}

type deed struct{ what, who, number int }

// storm is what the callers of one target live through.
type storm struct {
	t    *testing.T
	w    *weather
	ways []*way
	all  []*Breaker
	live []trying
	was  *kept
}

type trying struct {
	p     Permit
	since time.Time
}

func begun(t *testing.T, n int) *storm {
	s := &storm{t: t, w: newWeather(t)}
	for i := range n {
		to := s.w.way(fmt.Sprint("caller-", i))
		b, err := New(Config{Store: to, Key: "orders", Caller: to.name, Quorum: 2, Lease: 4 * time.Second, MaxOpen: 8 * time.Second, OpenFor: 2 * time.Second, Ramp: 2 * time.Second,
			Local: breaker.Config{OpenFor: time.Second, MaxOpen: 2 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		s.ways, s.all = append(s.ways, to), append(s.all, b)
	}
	return s
}

func (s *storm) allow(i int) (Permit, error) {
	began := time.Now()
	p, err := s.all[i].Allow(s.t.Context())
	if took := time.Since(began); took > 250*time.Millisecond {
		s.w.say("a call of caller %d waited for %v", i, took)
	}
	return p, err
}

// calls are as many that end at once.
func (s *storm) calls(i, n int, o breaker.Outcome) {
	for range n {
		if p, err := s.allow(i); err == nil {
			p.Settle(o)
		}
	}
}

func (s *storm) does(d deed) {
	switch d.what {
	case 0, 1:
		pass(time.Duration(d.number) * 5 * time.Millisecond)
	case 2, 3:
		s.calls(d.who, 1+d.number%15, breaker.Failure)
	case 4:
		for i := range s.all {
			s.calls(i, 12, breaker.Failure)
		}
	case 5, 6: // takes what there is, and keeps a trial
		if p, err := s.allow(d.who); err == nil && p.Trial() {
			s.live = append(s.live, trying{p, time.Now()})
		} else if err == nil {
			p.Settle(breaker.Success)
		}
	case 7:
		if len(s.live) > 0 {
			i := d.number % len(s.live)
			s.live[i].p.Settle([]breaker.Outcome{breaker.Success, breaker.Failure, breaker.Neutral}[d.number%3])
			s.live = append(s.live[:i], s.live[i+1:]...)
		}
	case 8, 9:
		s.ways[d.who].is.Store(int32(d.number % ways))
	case 10:
		for _, to := range s.ways {
			to.is.Store(well)
		}
	case 11:
		if was := s.w.failover(s.was); was == nil && s.was != nil {
			s.w.isLost()
			s.was = nil
		} else {
			s.was = was
		}
	case 12:
		s.w.isLost()
		if d.number%2 == 0 {
			s.w.Flush()
		} else if _, err := Force(s.t.Context(), s.w.Memory, "orders", []breaker.State{breaker.ForcedOpen, breaker.ForcedClosed, breaker.Closed}[d.number%3]); err != nil {
			s.t.Fatal(err)
		}
	}
}

// look counts the permits that are live, of those that were had since the store last lost something.
func (s *storm) look() {
	s.w.mu.Lock()
	lost := s.w.lost
	s.w.mu.Unlock()
	n := 0
	for _, h := range s.live {
		if h.p.Live() && h.since.After(lost) {
			n++
		}
	}
	if n > 1 {
		s.w.say("%d permits are live", n)
	}
}

// getsBack: the weather is fine, and every call goes well.
func (s *storm) getsBack() {
	for _, h := range s.live {
		h.p.Settle(breaker.Neutral)
	}
	for _, to := range s.ways {
		to.is.Store(well)
	}
	s.unforce()
	// The longest pause before it is tried again, the lease of somebody lost, open, the ramp, and the own breaker's.
	const within = 10*time.Second + 4*time.Second + 8*time.Second + 2*time.Second + 2*time.Second + 5*time.Second
	for began := time.Now(); time.Since(began) < within; pass(50 * time.Millisecond) {
		if s.back() {
			return
		}
		for i := range s.all {
			s.calls(i, 1, breaker.Success)
		}
	}
	for i, b := range s.all {
		n := b.Snapshot()
		s.w.say("%v after all is well caller %d: alone %v (%v) %+v, its own is %v", within, i, n.Alone, n.Why, n.Record, n.Local.State)
	}
}

func (s *storm) back() bool {
	for _, b := range s.all {
		if n := b.Snapshot(); n.Alone || n.State != breaker.Closed || n.Local.State != breaker.Closed {
			return false
		}
	}
	return true
}

// unforce takes an operator's word back.
func (s *storm) unforce() {
	sight, err := s.w.Memory.Tell(s.t.Context(), "orders", "looks", nil, false)
	if err != nil {
		s.t.Fatal(err)
	}
	if r, err := Read(sight); err == nil && r.State != breaker.ForcedOpen && r.State != breaker.ForcedClosed {
		return
	}
	if _, err := Force(s.t.Context(), s.w.Memory, "orders", breaker.Closed); err != nil {
		s.t.Fatal(err)
	}
}
