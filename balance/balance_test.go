package balance

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// one is a candidate of tests.
type one struct {
	load  int
	since time.Duration
	near  bool
	out   bool // skipped
}

func (o *one) Load() int            { return o.load }
func (o *one) Since() time.Duration { return o.since }

func skip(o *one) bool { return o.out }

const now = time.Hour

// draw makes a set of up to eight candidates, new and old ones, in two zones.
func draw(t *rapid.T) ([]*one, Set[*one]) {
	ones := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *one {
		return &one{
			load:  rapid.IntRange(0, 20).Draw(t, "load"),
			since: rapid.SampledFrom([]time.Duration{Warm, 0, now - 9*time.Second, now - time.Second, now}).Draw(t, "since"),
			near:  rapid.Bool().Draw(t, "near"),
			out:   rapid.Bool().Draw(t, "out"),
		}
	}), 0, 8).Draw(t, "candidates")
	zone := Zone[*one]{Own: func(o *one) bool { return o.near }, Known: rapid.IntRange(0, 10).Draw(t, "known")}
	if rapid.Bool().Draw(t, "no zone") {
		zone = Zone[*one]{}
	}
	return ones, NewSet(slices.Clone(ones), zone, Ramp{}, now)
}

func TestK17NeverOneThatIsExcluded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ones, set := draw(t)
		eligible := slices.ContainsFunc(ones, func(o *one) bool { return !o.out })
		for range 20 {
			got, ok := set.Pick(rapid.Uint64().Draw(t, "rnd"), now, skip)
			if ok != eligible || ok && (got.out || !slices.Contains(ones, got)) {
				t.Fatalf("picked %+v, %v; there is somebody eligible: %v", got, ok, eligible)
			}
		}
	})
}

func TestMoreLoadIsNeverMoreLikely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ones, set := draw(t)
		if len(ones) == 0 {
			return
		}
		x := ones[rapid.IntRange(0, len(ones)-1).Draw(t, "x")]
		more := rapid.IntRange(1, 20).Draw(t, "more")
		for range 20 {
			rnd := rapid.Uint64().Draw(t, "rnd")
			before, _ := set.Pick(rnd, now, skip)
			x.load += more
			after, _ := set.Pick(rnd, now, skip)
			x.load -= more
			if after == x && before != x {
				t.Fatalf("with %d calls more %+v is picked, and wasn't before", more, *x)
			}
			if again, _ := set.Pick(rnd, now, skip); again != before {
				t.Fatal("equal arguments and loads gave another choice")
			}
		}
	})
}

// shares picks often and returns how many of a hundred picks each candidate got. load is called after each pick.
func shares(set *Set[*one], ones []*one, load func(*one)) []float64 {
	const n = 40_000
	rnd := rand.New(rand.NewPCG(1, 2))
	got := make([]float64, len(ones))
	for range n {
		c, _ := set.Pick(rnd.Uint64(), now, nil)
		got[slices.Index(ones, c)] += 100.0 / n
		if load != nil {
			load(c)
		}
	}
	return got
}

func within(t *testing.T, what string, got, want, band float64) {
	t.Helper()
	if got < want-band || got > want+band {
		t.Errorf("%s: %.2f, want %.2f ± %.2f", what, got, want, band)
	}
}

// TestFairness: of n that are equally loaded each gets its share, to a tenth of it.
func TestFairness(t *testing.T) {
	for n := 1; n <= 12; n++ {
		ones := fleet(n)
		set := NewSet(slices.Clone(ones), Zone[*one]{}, Ramp{}, now)
		for _, share := range shares(&set, ones, nil) {
			within(t, "share", share, 100/float64(n), 10/float64(n))
		}
	}
}

// TestTheLessLoadedOfTwo keeps forty thousand calls in flight together: one draw alone would spread
// them by hundreds.
func TestTheLessLoadedOfTwo(t *testing.T) {
	ones := fleet(10)
	set := NewSet(slices.Clone(ones), Zone[*one]{}, Ramp{}, now)
	shares(&set, ones, func(o *one) { o.load++ })
	byLoad := func(a, b *one) int { return a.load - b.load }
	if most, least := slices.MaxFunc(ones, byLoad).load, slices.MinFunc(ones, byLoad).load; most-least > 6 {
		t.Fatalf("loads from %d to %d, want them within 6", least, most)
	}
}

func TestWarmingUp(t *testing.T) {
	for age, want := range map[time.Duration]float64{-time.Second: .1, 0: .1, 5 * time.Second: .55, 10 * time.Second: 1, now: 1} {
		within(t, "weight at "+age.String(), Ramp{}.Weight(age), want, .01)
	}
	within(t, "half of 4s from 1/2", Ramp{Over: 4 * time.Second, Floor: .5}.Weight(2*time.Second), .75, .01)
	// A newcomer among nine warm ones, all idle: its share is its weight's.
	for _, age := range []time.Duration{0, 5 * time.Second, 9 * time.Second, 10 * time.Second} {
		ones := fleet(10)
		ones[3].since = now - age
		set := NewSet(slices.Clone(ones), Zone[*one]{}, Ramp{}, now)
		w := Ramp{}.Weight(age)
		within(t, "share at "+age.String(), shares(&set, ones, nil)[3], 100*w/(9+w), 1)
		if until, warming := set.Warming(); warming != (age < 10*time.Second) || warming && until != now-age+10*time.Second {
			t.Errorf("at %s: warming %v until %s", age, warming, until)
		}
	}
	// Busy ones: it carries its weight of what the others carry.
	ones := fleet(2)
	ones[0].since = now - 5*time.Second
	set := NewSet(slices.Clone(ones), Zone[*one]{}, Ramp{}, now)
	shares(&set, ones, func(o *one) { o.load++ })
	within(t, "load compared with a warm one's", float64(ones[0].load)/float64(ones[1].load), .55, .03)
	// All are new: nobody is.
	ones = fleet(4)
	for _, o := range ones {
		o.since = now
	}
	set = NewSet(slices.Clone(ones), Zone[*one]{}, Ramp{}, now)
	for _, share := range shares(&set, ones, nil) {
		within(t, "share among newcomers", share, 25, 2.5)
	}
}

func TestZones(t *testing.T) {
	own := func(o *one) bool { return o.near }
	for _, row := range []struct {
		near, far, known int
		load             int     // of those near
		stay             float64 // of a hundred calls
	}{
		{4, 4, 4, 0, 100},
		{3, 4, 4, 0, 100}, // a quarter may be missing
		{2, 4, 4, 0, 70},
		{1, 4, 4, 0, 35},
		{0, 4, 4, 0, 0},
		{4, 0, 8, 0, 100}, // there is nobody elsewhere
		{2, 2, 0, 0, 100}, // an unknown number known is what there is
		{2, 2, 2, 4, 100}, // a few more in flight are no reason
		{2, 2, 2, 5, 0},
	} {
		ones := fleet(row.near + row.far)
		for i := range row.near {
			ones[len(ones)-1-i].near, ones[len(ones)-1-i].load = true, row.load
		}
		set := NewSet(slices.Clone(ones), Zone[*one]{Own: own, Known: row.known}, Ramp{}, now)
		stay := 0.0
		for i, share := range shares(&set, ones, nil) {
			if ones[i].near {
				stay += share
			}
		}
		within(t, "calls that stay in the zone", stay, row.stay, 1.5)
	}
}

// TestK15AFloorInHosts: for one to nine hosts, and any number, some stay.
func TestK15AFloorInHosts(t *testing.T) {
	for n, want := range []int{0, 1, 1, 2, 2, 3, 3, 4, 4, 5} {
		if got := Floor(n); got != want {
			t.Errorf("Floor(%d) = %d, want %d", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		for _, refused := range []bool{false, true} {
			aside := 0
			for MaySetAside(n, aside, refused) {
				aside++
			}
			want := min(n, 1)
			if !refused {
				want = Floor(n)
			}
			if left := n - aside; left != want {
				t.Fatalf("of %d, %d stay (refused: %v), want %d", n, left, refused, want)
			}
		}
	})
}

func fleet(n int) []*one {
	ones := make([]*one, n)
	for i := range ones {
		ones[i] = &one{since: Warm}
	}
	return ones
}

func TestPickAllocatesNothing(t *testing.T) {
	ones := fleet(8)
	ones[1].since, ones[2].near, ones[3].out = now, true, true
	set := NewSet(ones, Zone[*one]{Own: func(o *one) bool { return o.near }, Known: 3}, Ramp{}, now)
	if n := testing.AllocsPerRun(1000, func() { set.Pick(rand.Uint64(), now, skip) }); n != 0 {
		t.Fatalf("%v allocations a pick, want 0", n)
	}
}

func BenchmarkPick(b *testing.B) {
	for name, skip := range map[string]func(*one) bool{"all": nil, "excluding": skip} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			set := NewSet(fleet(10), Zone[*one]{}, Ramp{}, now)
			rnd := uint64(1)
			for b.Loop() {
				rnd = mix(rnd)
				set.Pick(rnd, now, skip)
			}
		})
	}
}
