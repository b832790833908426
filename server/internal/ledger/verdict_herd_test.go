package ledger

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// Two thousand callers whose breakers open within a second are one event, and as they close one more.
func TestAHerdOfVerdictsIsOneEvent(t *testing.T) {
	w := breaking(t)
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprintf("checkout@%04d", i)
		w.follow(names[i], "orders")
	}
	w.events = nil
	for i, c := range names {
		w.judges(c, "orders/1", eider.BreakerOpen)
		if i%2 == 0 {
			w.step(w.now.Add(time.Millisecond))
		}
	}
	w.wantTold("breaker open orders/1 UP checkout@0000: 7 of 10 calls were slow")
	b := w.tb.Breakers("orders")[0]
	if b.Rejecting != 2000 || b.Callers != 2000 || len(b.Seen) != eider.MaxSeen || b.LeftOut != 2000-eider.MaxSeen || b.Seen[0].Caller != "checkout@0000" || b.Seen[15].Caller != "checkout@0015" {
		t.Errorf("it is shown by %d of %d callers, %d named first %v, %d left out", b.Rejecting, b.Callers, len(b.Seen), b.Seen[0], b.LeftOut)
	}
	for _, c := range names {
		w.judges(c, "orders/1", eider.BreakerHalfOpen)
		w.judges(c, "orders/1", eider.BreakerClosed)
	}
	w.wantTold()
	w.advance(verdictEvery + verdictsCalm)
	w.wantTold("breakers closed orders/1 UP")
}

// judges is judged without an audit, for thousands.
func (w *world) judges(caller, k string, state eider.BreakerState) {
	d := w.departure(k)
	w.saw(w.tb.Verdicts(w.now, w.actor(caller).follower, d.Service, []eider.Verdict{{Key: d.Key, Incarnation: d.Incarnation,
		Breaker: eider.Breaker{State: state, Rule: eider.BreakerSlowRate, Count: 7, Of: 10, Since: w.now}}}))
}

// A caller whose breakers flap, of all instances that it may speak of, can't fill the history.
func TestVerdictsThatFlapAreToldNowAndThen(t *testing.T) {
	w := fresh(t)
	w.follow("liar", "orders")
	for i := range 100 {
		w.mustRegister("p", fmt.Sprint("orders/", i), fmt.Sprint("10.0.0.1:", i+1))
	}
	w.advance(time.Second)
	w.events = nil
	flap := func(n int) {
		for i := range 100 {
			w.judges("liar", fmt.Sprint("orders/", i), []eider.BreakerState{eider.BreakerOpen, eider.BreakerClosed}[n%2])
		}
		w.step(w.now.Add(250 * time.Millisecond))
	}
	flap(0)
	if n := len(w.toldOfBreakers()); n != verdictBurst {
		t.Errorf("of 100 instances it was told at once, by %d events; want %d", n, verdictBurst)
	}
	for n := range 240 { // a minute
		flap(n)
	}
	if n := len(w.toldOfBreakers()); n > 7*verdictBurst {
		t.Errorf("a caller that flaps brought about %d events within a minute", n)
	}
	for range 10 {
		w.judges("liar", "orders/99", eider.BreakerOpen)
		w.advance(3 * time.Second)
		w.judges("liar", "orders/99", eider.BreakerClosed)
		w.advance(3 * time.Second)
	}
	n := 0
	for _, e := range w.events {
		n += toInt(e.ID == "99")
	}
	if n > 7 {
		t.Errorf("one breaker that opens every six seconds is %d events a minute", n)
	}
	for i := range 50 {
		w.judges("liar", fmt.Sprint("orders/", i), eider.BreakerOpen)
	}
	w.advance(time.Minute) // the last word is told of each
	if err := auditVerdicts(w.tb); err != nil {
		t.Error(err)
	}
	for _, x := range w.tb.services["orders"].tripped {
		if !x.open {
			t.Errorf("of %s it was never told that it is open", x.id)
		}
	}
	if n := len(w.tb.services["orders"].tripped); n != 50 {
		t.Errorf("%d instances are kept, want 50", n)
	}
}

func herd(tb testing.TB, callers int) (*Table, time.Time, eider.Verdict) {
	t, now := fleet(tb, 1)
	rec, _ := t.Instance(eider.Key{Service: "service-0", ID: "10.0.0.0:8080"})
	for i := range callers {
		f := Follower(i + 1)
		t.Follow(now, f, Peer{Caller: fmt.Sprintf("checkout@%012x", i), Addr: netip.MustParseAddr("10.0.0.1")})
		if _, err := t.Subscribe(now, f, "service-0", nil); err != nil {
			tb.Fatal(err)
		}
	}
	return t, now, eider.Verdict{Key: rec.Key, Incarnation: rec.Incarnation, Breaker: eider.Breaker{State: eider.BreakerOpen, Rule: eider.BreakerSlowRate, Count: 7, Of: 10, Since: now}}
}

// BenchmarkVerdictHerd is what it costs that the breakers of 2,000 callers open for one instance, and close again.
func BenchmarkVerdictHerd(b *testing.B) {
	const callers = 2000
	t, now, v := herd(b, callers)
	said := []eider.Verdict{v}
	b.ReportAllocs()
	for b.Loop() {
		for _, said[0].State = range []eider.BreakerState{eider.BreakerOpen, eider.BreakerClosed} {
			for f := range callers {
				t.Verdicts(now, Follower(f+1), "service-0", said)
			}
			if told := t.verdicts; (told == callers) != (said[0].State == eider.BreakerOpen) {
				b.Fatalf("%d verdicts are kept", told)
			}
			now = now.Add(time.Second)
			t.Beat(now, 1)
			t.Look(now)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(2*callers), "ns/verdict")
}

func BenchmarkBreakersShown(b *testing.B) {
	t, now, v := herd(b, 2000)
	for f := range 2000 {
		t.Verdicts(now, Follower(f+1), "service-0", []eider.Verdict{v})
	}
	b.ReportAllocs()
	for b.Loop() {
		t.Breakers("service-0")
	}
}

// What is said of an instance is cheap to keep, whether by many or one.
func TestMemoryOfVerdicts(t *testing.T) {
	const callers = 20_000
	tb, now, v := herd(t, callers)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for f := range callers {
		tb.Verdicts(now, Follower(f+1), "service-0", []eider.Verdict{v})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / callers
	t.Logf("%d bytes a verdict", each)
	if each > 160 {
		t.Errorf("a verdict takes %d bytes, want at most 160", each)
	}
	runtime.KeepAlive(tb)
}
