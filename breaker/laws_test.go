package breaker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// The machine and the model get the same calls at the same times: the same are let through, for the same reasons, and all
// their numbers are the same after every step. K22: those of a window are the sums of what is in it.
func TestK22TheMachineIsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// Everything is drawn before the bubble, in which time is not rapid's.
		script := rapid.SliceOfN(rapid.IntRange(0, 1<<16), 100, 2000).Draw(rt, "script")
		if fault := playBoth(t, script); fault != "" {
			rt.Fatal(fault)
		}
	})
}

// Whatever comes in which order: late results, results that come twice or never, time that stands still or jumps.
func FuzzTheMachineIsItsModel(f *testing.F) {
	for seed := range 20 {
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(i*i*(seed+7) + i*seed>>3)
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		numbers := make([]int, len(script))
		for i, b := range script {
			numbers[i] = int(b)
		}
		if fault := playBoth(t, numbers); fault != "" {
			t.Fatal(fault)
		}
	})
}

func playBoth(t *testing.T, script []int) (fault string) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{script: script}
		p.start()
		for len(p.script) > 0 && p.fault == "" {
			if d := p.step(); d > 0 {
				time.Sleep(d)
			}
			p.check()
		}
		fault = p.fault
	})
	return fault
}

// pair is a machine and its model.
type pair struct {
	b      *Breaker
	m      model
	script []int
	steps  []string // the last ones
	fault  string
	held   []both
	events []Event
}

type both struct {
	p Permit
	h held
}

// draw takes the next number of the script, below n; 0 at its end.
func (p *pair) draw(n int) int {
	if len(p.script) == 0 {
		return 0
	}
	next := p.script[0]
	p.script = p.script[1:]
	return next % n
}

func pick[T any](p *pair, of ...T) T { return of[p.draw(len(of))] }

func (p *pair) fail(format string, args ...any) {
	if p.fault == "" {
		p.fault = fmt.Sprintf(format, args...) + fmt.Sprintf("\nwith %+v\nafter %q", p.m.set, p.steps)
	}
}

func (p *pair) did(format string, args ...any) {
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
	if len(p.steps) > 30 {
		p.steps = p.steps[1:]
	}
}

func (p *pair) start() {
	c := Config{
		Window:      pick(p, 0, 1, 2, 3, 31, 33, 128, 129, 300),
		Within:      pick(p, 0, 0, 0, 1, time.Second, 10*time.Second, 7*time.Second+3),
		FailureRate: pick(p, 0, -1, 0.1, 0.3, 0.333, 0.7, 1),
		FailureMin:  pick(p, 0, 1, 2, 5, 100),
		Consecutive: pick(p, 0, 0, 1, 2, 3),
		SlowLimit:   pick(p, -1, 0, 1, 15, 16, time.Second, 100*time.Millisecond+7),
		SlowRate:    pick(p, 0, -1, 0.1, 0.9, 1),
		SlowMin:     pick(p, 0, 1, 3, 50),
		OpenFor:     time.Second, MaxOpen: pick(p, time.Second, 3*time.Second, time.Minute), Jitter: -1,
		Trials: pick(p, 0, 2, 3), Successes: pick(p, 0, 2, 3), TrialTimeout: pick(p, 0, 300*time.Millisecond, time.Minute),
		Ramp:    pick(p, 0, 0, time.Second),
		OnEvent: func(ev Event) { p.events = append(p.events, ev) },
	}
	p.b = New(c)
	p.m.set = p.b.set
	p.m.begin(Closed, 0)
}

// step does one thing to both, and returns how long is to be waited.
func (p *pair) step() time.Duration {
	switch now := p.b.now(); p.draw(12) {
	case 0, 1, 2, 3:
		p.allow(now)
	case 4, 5:
		p.settle(now, pick(p, Success, Success, Success, Success, Success, Failure, Neutral))
	case 6:
		p.settle(now, pick(p, Success, Failure, Failure, Failure, Failure, Neutral, Refused))
	case 7:
		if len(p.held) > 0 {
			h := &p.held[p.draw(len(p.held))]
			p.did("answered %+v", h.h)
			h.p, h.h = h.p.Answered(), p.m.answered(h.h, now)
		}
	case 8:
		o := pick(p, Success, Failure, Neutral, Success, Success, Success, Failure, Refused)
		p.did("report %v", o)
		p.b.Report(o)
		p.m.report(o, now)
	case 9:
		if p.draw(8) == 0 {
			to := pick(p, Closed, Closed, ForcedOpen, ForcedClosed, MetricsOnly, MetricsOnly)
			p.did("by hand %v", to)
			p.b.byHand(to)
			p.m.byHand(to, now)
		} else {
			p.look(now)
		}
	default:
		d := p.wait()
		p.did("wait %v", d)
		return d
	}
	return 0
}

func (p *pair) wait() time.Duration {
	slow, within := time.Duration(p.m.set.slow), time.Duration(p.m.set.within)
	return pick(p, 0, 0, 1, time.Millisecond, slow/15, slow/15+1, slow/2, slow, slow+1, within/10, within/10-1, within, 300*time.Millisecond, time.Second, time.Second-1, time.Hour)
}

func (p *pair) allow(now int64) {
	for range pick(p, 1, 1, 2, 5, 40) {
		permit, err := p.b.Allow()
		h, ok := p.m.allow(now, p.b.era.Load().next.Load() > now)
		p.did("allow: %v, %+v", err, h)
		if ok {
			p.held = append(p.held, both{permit, h})
		}
		if (err == nil) != ok {
			p.fail("the machine says %v, the model %v", err, ok)
			return
		}
		if err == nil {
			continue
		}
		p.rejected(err)
	}
}

func (p *pair) rejected(err error) {
	var r *Rejected
	if !errors.As(err, &r) {
		p.fail("rejected by %v", err)
		return
	}
	want := p.m.why
	want.State = p.m.state
	retry := p.m.until
	switch p.m.state {
	case HalfOpen:
		retry = 1 << 62
		for _, deadline := range p.m.trials {
			retry = min(retry, deadline)
		}
	case Ramping:
		want = Rejected{State: Ramping}
		retry = p.m.began
	}
	if want.State != ForcedOpen {
		want.Retry = p.b.base.Add(time.Duration(retry))
	}
	if *r != want {
		p.fail("rejected with %+v, want %+v", *r, want)
	}
}

// settle ends one permit or several, in any order; some are kept and settled again.
func (p *pair) settle(now int64, o Outcome) {
	for range pick(p, 1, 1, 3, 40) {
		if len(p.held) == 0 {
			return
		}
		i := p.draw(len(p.held))
		h := p.held[i]
		p.did("%v of %+v", o, h.h)
		h.p.Settle(o)
		p.m.settle(h.h, o, now, p.b.era.Load().next.Load() > now || p.b.era.Load() != h.p.era)
		if p.draw(10) > 0 {
			p.held = slices.Delete(p.held, i, i+1)
		}
	}
}

func (p *pair) look(now int64) {
	p.did("look")
	s := p.b.Snapshot()
	p.m.touch(now)
	c := p.m.counts(now)
	want := Snapshot{State: p.m.state, Since: p.b.base.Add(time.Duration(p.m.began)), Total: c.total, Failures: c.failures(), Slow: c.slows(),
		InFlight: p.m.overdue + uint64(len(p.m.trials)), Overdue: p.m.overdue, Outcomes: uint64(len(p.m.seen)), Opened: p.m.opened}
	for _, n := range p.m.flying {
		want.InFlight += n
	}
	for _, o := range p.m.seen {
		if o.failed {
			want.Failed++
		}
		if o.slow {
			want.Slowed++
		}
	}
	if p.m.state == Open || p.m.state == HalfOpen || p.m.state == ForcedOpen {
		want.Rule, want.Count, want.Of = p.m.why.Rule, p.m.why.Count, p.m.why.Of
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreFields(Snapshot{}, "Retry")); diff != "" {
		p.fail("snapshot, - model + machine: %s", diff)
	}
}

// check compares what can be seen without having the machine look at the clock.
func (p *pair) check() {
	e := p.b.era.Load()
	now := p.b.now()
	if got := State(e.state.Load()); got != p.m.state {
		p.fail("it is %v, the model %v", got, p.m.state)
		return
	}
	same := func(a, b Event) bool {
		return a.From == b.From && a.To == b.To && a.Rule == b.Rule && a.Count == b.Count && a.Of == b.Of && a.Missed == b.Missed
	}
	if !slices.EqualFunc(p.events, p.m.events, same) {
		p.fail("events %+v, model %+v", p.events, p.m.events)
	}
	p.events, p.m.events = nil, nil
	if !p.m.counting() {
		return
	}
	w := copied(e)
	if quick, slowly := w.counts(e.total()), w.buckets(e.total()); quick.total != slowly.total || quick.failures() != slowly.failures() || quick.slows() != slowly.slows() {
		p.fail("the window holds %+v, its buckets %+v", quick, slowly)
	}
	if e.next.Load() <= now {
		return // it hasn't looked
	}
	got, want := w.counts(e.total()), p.m.counts(now)
	if got.marks[0] = 0; got != want {
		p.fail("the window holds %+v, the model's %+v", got, want)
	}
	flying, _ := e.fly.sums()
	for _, n := range p.m.flying {
		flying -= n
	}
	if flying != 0 || uint64(e.overdue) != p.m.overdue || e.total() != uint64(len(p.m.seen)) {
		p.fail("in flight %+d, overdue %d and %d, in all %d and %d", int64(flying), e.overdue, p.m.overdue, e.total(), len(p.m.seen))
	}
}

// copied is an era's window that may be looked at without changing it.
func copied(e *era) window {
	if e.times != nil {
		w := *e.times
		return &w
	}
	w := e.last
	if w.more != nil {
		more := slices.Clone(*w.more)
		w.more = &more
	}
	return &w
}

// A call counts as slow when it has been under way for longer than the limit: never before, and a fifteenth of it later at the latest.
func TestSlowSoFarIsNeverEarlyAndAFifteenthLateAtMost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(rt, "limit"))
		begins := rapid.SliceOfN(rapid.Int64Range(0, int64(limit)), 1, 20).Draw(rt, "pauses before each call")
		looks := rapid.SliceOfN(rapid.Int64Range(0, int64(limit)/20+2), 1, 200).Draw(rt, "pauses before each look")
		within := time.Duration(rapid.SampledFrom([]int64{0, int64(time.Hour)}).Draw(rt, "within"))
		fault := ""
		synctest.Test(t, func(*testing.T) {
			b := New(Config{Window: 100, Within: within, SlowLimit: limit, SlowRate: -1})
			var starts []time.Time
			for _, pause := range begins {
				time.Sleep(time.Duration(pause))
				_, _ = b.Allow()
				starts = append(starts, time.Now())
			}
			for _, pause := range looks {
				time.Sleep(time.Duration(pause))
				var may, must uint64
				for _, start := range starts {
					if time.Since(start) > limit {
						may++
					}
					if time.Since(start) > limit+limit/15+2*words {
						must++
					}
				}
				if s := b.Snapshot(); s.Slow < must || s.Slow > may || s.InFlight != uint64(len(starts)) || s.Overdue != s.Slow {
					fault = fmt.Sprintf("limit %v: %d may be slow by now and %d must: %+v", limit, may, must, s)
					return
				}
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}
