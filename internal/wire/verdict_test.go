package wire

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestVerdictsComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(1e12, 2e12).Draw(t, "now"))
		ago := func(label string) time.Duration {
			return time.Duration(rapid.Int64Range(1, 1e9).Draw(t, label)) * time.Millisecond
		}
		want := eider.Verdict{Key: eider.Key{Service: "orders", ID: "1"}, Incarnation: eider.Incarnation{Nonce: rapid.Uint64Min(1).Draw(t, "nonce")},
			Breaker: eider.Breaker{State: eider.BreakerState(rapid.IntRange(0, eider.BreakerStates-1).Draw(t, "state")),
				Rule:  eider.BreakerRule(rapid.IntRange(0, eider.BreakerRules-1).Draw(t, "rule")),
				Count: rapid.Uint64().Draw(t, "count"), Of: rapid.Uint64().Draw(t, "of"), Since: now.Add(-ago("since")), Retry: now.Add(ago("retry"))}}
		got, err := ToVerdict(overTheWire(t, FromVerdict(&want, now), &pb.Verdict{}), "orders", now)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
	})
}

// Distances that lie on the wrong side of now, or beyond what fits, don't become times that nobody meant.
func TestVerdictsTimesAreDistances(t *testing.T) {
	now := time.UnixMilli(1e12)
	m := FromVerdict(&eider.Verdict{Breaker: eider.Breaker{Since: now.Add(time.Hour), Retry: now.Add(-time.Hour)}}, now)
	if m.SinceMs != 0 || m.RetryMs != 0 {
		t.Errorf("since in an hour and retry an hour ago travel as %d and %d", m.SinceMs, m.RetryMs)
	}
	if m := FromVerdict(&eider.Verdict{}, now); m.SinceMs != 0 || m.RetryMs != 0 {
		t.Errorf("no times travel as %d and %d", m.SinceMs, m.RetryMs)
	}
	if m := FromVerdict(&eider.Verdict{Breaker: eider.Breaker{Since: now.AddDate(-100, 0, 0)}}, now); m.SinceMs != math.MaxUint32 {
		t.Errorf("a century travels as %d ms", m.SinceMs)
	}
}

func TestVerdictsOfStrangers(t *testing.T) {
	now := time.UnixMilli(1e12)
	for _, m := range []*pb.Verdict{nil, {}, {Id: "1"}, {Nonce: 1}, {Id: "a\x1b[2J", Nonce: 1}, {Id: "1", Nonce: 1, State: -1}, {Id: "1", Nonce: 1, State: pb.BreakerState(eider.BreakerStates)}, {Id: "1", Nonce: 1, State: math.MinInt32}} {
		if v, err := ToVerdict(m, "orders", now); err == nil {
			t.Errorf("%v was read as %v", m, v)
		}
	}
	for _, rule := range []pb.BreakerRule{-1, pb.BreakerRule(eider.BreakerRules), math.MaxInt32} {
		if v, err := ToVerdict(&pb.Verdict{Id: "1", Nonce: 1, Rule: rule}, "orders", now); err != nil || v.Rule != eider.BreakerNoRule {
			t.Errorf("rule %d was read as %v, %v; want none", rule, v.Rule, err)
		}
	}
}
