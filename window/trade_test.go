package window_test

import (
	"math"
	"strings"
	"testing"

	"github.com/eiderhq/eider/window"
)

func trade(t *testing.T, all []window.Trade, setting string) window.Trade {
	t.Helper()
	for _, trade := range all {
		if trade.Setting == setting {
			return trade
		}
	}
	t.Fatalf("no trade of %s among %+v", setting, all)
	return window.Trade{}
}

// W9: a window can't be tuned to nothing. What is polled half as long is read twice as often, what is leased half as
// long is evicted more often.
func TestTradesOfEureka(t *testing.T) {
	fleet := window.Fleet{Callers: 2000, Instances: 300}
	before := derive(t, "eureka", fleet)
	if got := before.Load.ReadsPerSecond; math.Abs(got-66.7) > 0.1 {
		t.Errorf("2,000 callers at 30s are 67 reads a second, not %.1f", got)
	}
	all := trades(t, "eureka", fleet)
	poll := trade(t, all, "client-cache")
	if poll.From != "30s" || poll.To != "15s" || poll.Planned != 15*s || poll.Crash != 15*s || poll.Load.ReadsPerSecond != 2*before.Load.ReadsPerSecond {
		t.Errorf("a poll twice as often: %+v", poll)
	}
	if !strings.Contains(poll.Note, "reads/s 66.7 → 133") || !strings.Contains(poll.Note, "buys mean planned 47.75s → 40.25s") {
		t.Errorf("the note says neither what it buys nor what it costs: %s", poll.Note)
	}
	lease := trade(t, all, "lease")
	if lease.Planned != 0 || lease.Crash != 90*s {
		t.Errorf("half a lease counts twice: %+v", lease)
	}
	// A pause has to outlast two leases but for a beat, of each of 300 instances.
	if got, want := lease.Load.FalseEvictionsPerDay, 300*(window.Pauses{}).Beyond(60*s); got != want || !(got > before.Load.FalseEvictionsPerDay) {
		t.Errorf("healthy ones evicted: %g a day, want %g, more than %g", got, want, before.Load.FalseEvictionsPerDay)
	}
	beat := trade(t, all, "renew")
	if beat.Crash != 0 || beat.Load.BeatsPerSecond != 20 || !strings.Contains(beat.Note, "beats/s 10 → 20") {
		t.Errorf("a renewal twice as often buys nothing at the worst: %+v", beat)
	}
	off := trade(t, all, "self-preservation")
	if off.To != "off" || !strings.Contains(off.Note, "crash window no longer void by self-preservation: more than 44 of 300 instances lost at once; costs a network that parts") {
		t.Errorf("without self-preservation: %+v", off)
	}
	if note := trade(t, all, "renewal-percent").Note; !strings.Contains(note, "buys crash window void by self-preservation: more than 44 of 300 instances lost at once → more than 173 of 300 ") {
		t.Errorf("a lower threshold: %s", note)
	}
}

func TestTradesThatAreNone(t *testing.T) {
	for _, p := range window.Presets() {
		for _, got := range trades(t, p.Name, window.Fleet{}) {
			if got.Note == "" || got.Load.Assumed == "" || got.From == got.To {
				t.Errorf("%s: %+v", p.Name, got)
			}
			switch got.Setting {
			case "nodes", "quorum", "peers", "elections", "keep-alive", "node-lost", "wakeup-lost", "peer-batch", "silent", "cut-off":
				if p.Name != "nacos-2" { // whose keep-alive is a beat
					t.Errorf("%s: %s is a fact and not for sale", p.Name, got.Setting)
				}
			case "node-grace", "client-expiry", "deregister-after", "sync-interval":
				t.Errorf("%s: %s isn't in the window, so that nothing comes of it", p.Name, got.Setting)
			}
		}
	}
	// A push system has nothing to sell for a planned departure.
	for _, name := range []string{"consul-ttl", "etcd", "zookeeper", "serf"} {
		for _, got := range trades(t, name, window.Fleet{}) {
			if got.Planned != 0 || !strings.Contains(got.Note, "a planned departure is pushed: nothing to buy") {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	if got := trade(t, trades(t, "eureka", window.Fleet{}, "lease=20s"), "lease"); !strings.HasPrefix(got.Note, "can't be done: eureka.lease = 10s is over after 20s") ||
		got.Crash != 0 || got.Load.BeatsPerSecond == 0 {
		t.Errorf("half of the shortest lease: %+v", got)
	}
	if got := trade(t, trades(t, "eureka", window.Fleet{Lost: 2}), "self-preservation"); !strings.Contains(got.Note, "buys crash window no longer void by self-preservation: more than 1 of 10") ||
		strings.Count(got.Note, "no longer void") != 1 {
		t.Errorf("what is void now: %s", got.Note)
	}
	if got := trade(t, trades(t, "eureka", window.Fleet{Lost: 2}, "self-preservation=off"), "self-preservation"); !strings.Contains(got.Note, "crash window void: self-preservation: with 2 of 10") {
		t.Errorf("what would be void: %s", got.Note)
	}
	if _, err := lookup(t, "eureka").Trades(pairs("x=1"), window.Fleet{}); err == nil {
		t.Error("an unknown setting passes")
	}
	if _, err := lookup(t, "eureka").Trades(pairs("lease=1s"), window.Fleet{}); err == nil {
		t.Error("a lease below the beat passes")
	}
}

// The shortest timers are still paid for: no read rate is infinite, no number is none.
func TestLoadIsANumber(t *testing.T) {
	f := derive(t, "dns", window.Fleet{}, "record-ttl=0s")
	if f.Load.ReadsPerSecond != 0 || f.Planned.Terms.Worst() != 0 {
		t.Errorf("a TTL of 0: %+v", f)
	}
	if got := derive(t, "eureka", window.Fleet{}, "client-cache=1ms").Load.ReadsPerSecond; got != 50_000 {
		t.Errorf("50 callers a thousand times a second: %g", got)
	}
}

// What somebody would change is weighed like a trade: also what gets worse by it, and only what a shorter one costs.
func TestWeigh(t *testing.T) {
	preset := "eureka"
	weigh := func(from, to map[string]string) string {
		t.Helper()
		p := lookup(t, preset)
		before, errBefore := p.Derive(from, window.Fleet{})
		after, errAfter := p.Derive(to, window.Fleet{})
		said, err := p.Weigh(from, to, before, after)
		if errBefore != nil || errAfter != nil || err != nil {
			t.Fatal(errBefore, errAfter, err)
		}
		return said
	}
	short, long := weigh(nil, pairs("renew=10s")), weigh(pairs("renew=10s"), nil)
	for _, part := range []string{"crash window void by self-preservation: more than 1 of 10 instances lost at once → more than 7 of 10 ", "; costs mean crash 242.5s → 252.5s, beats/s 0.333 → 1", "more of the lease is left"} {
		if !strings.Contains(short, part) {
			t.Errorf("renewals three times as often: %s; want %q", short, part)
		}
	}
	if !strings.Contains(long, "; costs crash window void by self-preservation: more than 7 of 10 instances lost at once → more than 1 of 10 ") || strings.Contains(long, "of the lease is left") {
		t.Errorf("renewals a third as often: %s", long)
	}
	if off, on := weigh(nil, pairs("self-preservation=off")), weigh(pairs("self-preservation=off"), nil); !strings.Contains(off, "a network that parts") || strings.Contains(on, "a network that parts") {
		t.Errorf("self-preservation off: %s; on: %s", off, on)
	}
	for _, bad := range [][2]map[string]string{{pairs("x=1"), nil}, {nil, pairs("x=1")}} {
		if _, err := lookup(t, preset).Weigh(bad[0], bad[1], window.Forecast{}, window.Forecast{}); err == nil {
			t.Errorf("%v are weighed", bad)
		}
	}
	preset = "envoy-eds"
	if said := weigh(nil, pairs("debounce-after=50ms", "debounce-max=5s")); strings.Count(said, "more pushes while many pods change") != 1 {
		t.Errorf("what two settings cost alike: %s", said)
	}
}
