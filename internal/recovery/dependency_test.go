package recovery

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// cold makes a dependency that has just come back.
func cold(t *testing.T) *Dependency {
	d := NewDependency()
	t.Cleanup(d.Close)
	d.Break()
	d.Mend()
	return d
}

// at begins so many calls at once; the channel has what became of each.
func (d *Dependency) at(n int) <-chan error {
	out := make(chan error, n)
	for range n {
		go func() { out <- d.Call(context.Background()) }()
	}
	synctest.Wait()
	return out
}

// all takes what became of them.
func all(t *testing.T, out <-chan error, want error) {
	t.Helper()
	for range cap(out) {
		if err := <-out; !errors.Is(err, want) {
			t.Errorf("a call: %v, want %v", err, want)
		}
	}
}

func TestAColdDependencyBearsFiveCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, begun := cold(t), time.Now()
		all(t, d.at(AtOnce), nil)
		if took := time.Since(begun); took != ColdWork {
			t.Errorf("they took %v, want %v", took, ColdWork)
		}
		if want := (Tally{Probes: AtOnce, Parallel: AtOnce}); d.Tally() != want {
			t.Errorf("%+v, want %+v", d.Tally(), want)
		}
	})
}

// One too many: nobody is answered, also not who comes before it dies; then it is down, and then as cold as before.
func TestADependencyRelapsesAboveFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, begun := cold(t), time.Now()
		first := d.at(AtOnce + 1)
		time.Sleep(Chokes - 1)
		late := d.at(2)
		all(t, first, ErrDied)
		all(t, late, ErrDied)
		if took := time.Since(begun); took != Chokes {
			t.Errorf("it died after %v, want %v", took, Chokes)
		}
		all(t, d.at(1), ErrDown)
		time.Sleep(Restarts - 1)
		all(t, d.at(1), ErrDown)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if want := (Tally{Probes: AtOnce + 3, Parallel: AtOnce + 3, Relapses: 1}); d.Tally() != want {
			t.Errorf("%+v, want %+v", d.Tally(), want)
		}
		all(t, d.at(AtOnce+1), ErrDied)
		if got := d.Tally().Relapses; got != 2 {
			t.Errorf("%d relapses, want another", got)
		}
	})
}

// Each answer lets it bear five more, until it has warmed up: a caller that comes back at full rate too soon pushes it over too.
func TestADependencyWarmsUpWithEachAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := cold(t)
		all(t, d.at(1), nil)
		begun := time.Now()
		all(t, d.at(1), nil)
		if took := time.Since(begun); took != Work {
			t.Errorf("it took %v, want %v", took, Work)
		}
		all(t, d.at(3*AtOnce+1), ErrDied)
		if want := (Tally{Probes: 1, Parallel: 1, Warming: 3*AtOnce + 1, Relapses: 1}); d.Tally() != want {
			t.Errorf("%+v, want %+v", d.Tally(), want)
		}
		time.Sleep(Restarts)
		synctest.Wait()
		for n := AtOnce; n < Callers; n += AtOnce {
			all(t, d.at(1), nil)
		}
		all(t, d.at(4*Callers), nil)
	})
}

// Who gives up is no longer in it.
func TestACallThatIsGivenUpLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := cold(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- d.Call(ctx) }()
		others := d.at(AtOnce - 1)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("it says %v", err)
		}
		all(t, d.at(1), nil)
		all(t, others, nil)
		if want := (Tally{Probes: AtOnce + 1, Parallel: AtOnce}); d.Tally() != want {
			t.Errorf("%+v, want %+v", d.Tally(), want)
		}
	})
}

// What is broken stays down until it is mended, whatever it was about to do; and before that nothing is a probe.
func TestABrokenDependencyStaysDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := cold(t)
		all(t, d.at(AtOnce+1), ErrDied)
		inIt := d.at(1)
		all(t, inIt, ErrDown)
		d.Break()
		time.Sleep(Restarts)
		synctest.Wait()
		all(t, d.at(1), ErrDown)
		if d.Mend(); d.Tally() != (Tally{}) {
			t.Errorf("%+v of before", d.Tally())
		}
		flying := d.at(1)
		d.Break()
		all(t, flying, ErrDied)
	})
}

func TestAllIsBackWhenEveryCallGoesWell(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	bad := errors.New("bad")
	wells := func(b *book, caller, from, n int) {
		for i := range n {
			b.hear(caller, at(from+i), nil)
		}
	}
	fill := func(b *book) { // everybody but the first caller
		for i := 1; i < Callers; i++ {
			wells(b, i, 1, InARow)
		}
	}
	for name, c := range map[string]struct {
		play func(*book)
		want []float64 // none: never
	}{
		"all well":           {func(b *book) { fill(b); wells(b, 0, 3, InARow) }, []float64{3}},
		"one too few":        {func(b *book) { fill(b); wells(b, 0, 3, InARow-1) }, nil},
		"one bad in between": {func(b *book) { fill(b); wells(b, 0, 1, 2); b.hear(0, at(3), bad); wells(b, 0, 4, InARow) }, []float64{4}},
		"one of the others":  {func(b *book) { fill(b); b.hear(7, at(5), bad); wells(b, 0, 1, InARow) }, nil},
		"and well again":     {func(b *book) { fill(b); b.hear(7, at(5), bad); wells(b, 0, 1, InARow); wells(b, 7, 6, InARow) }, []float64{6}},
		"never called":       {fill, nil},
	} {
		b := newBook()
		b.hear(0, at(0), bad)
		b.turn()
		c.play(b)
		var got []float64
		if r := b.result(Tally{}, start); r.Back != nil {
			got = append(got, *r.Back)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: back after %v, want %v", name, got, c.want)
		}
		if c.want != nil && !b.waitWell(t.Context(), time.Minute) {
			t.Errorf("%s: still waited for", name)
		}
	}
}
