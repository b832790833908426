package registry

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

func TestWorkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWork()
		if w.Read() != (eider.Work{}) {
			t.Errorf("at first: %+v", w.Read())
		}
		slow, quick, lost := w.Arrive(), w.Arrive(), w.Arrive()
		w.Arrive()
		time.Sleep(30 * time.Millisecond)
		w.End(quick, true)
		time.Sleep(3 * time.Second)
		w.End(slow, true)
		w.End(lost, false)
		if got, want := w.Read(), (eider.Work{Arrived: 4, Completed: 2, Ended: 3, Slowest: 3030 * time.Millisecond}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		time.Sleep(56 * time.Second) // a minute has passed since the quick one began, less since the slow one ended
		w.End(w.Arrive(), true)
		if got := w.Read().Slowest; got != 3030*time.Millisecond {
			t.Errorf("within a minute the slowest took %s", got)
		}
		time.Sleep(15 * time.Second)
		if got := w.Read().Slowest; got != 0 {
			t.Errorf("after more than a minute the slowest took %s", got)
		}
	})
}

func TestWorkForgetsTheUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWork()
		w.Unknown()
		time.Sleep(4 * time.Minute)
		w.Unknown()
		time.Sleep(5*time.Minute - 1)
		if !w.Read().Unknown {
			t.Error("an unknown caller is forgotten within five minutes")
		}
		time.Sleep(time.Nanosecond)
		if w.Read().Unknown {
			t.Error("an unknown caller is remembered for longer than five minutes")
		}
	})
}

func TestNilWorkCountsNothing(t *testing.T) {
	var w *Work
	w.End(w.Arrive(), true)
	w.Unknown()
	if w.Read() != (eider.Work{}) {
		t.Error("nothing was counted, and something is")
	}
}

// However the counts are read, no request has ended before it arrived, nor completed before it ended.
func TestWorkIsNeverAheadOfItself(t *testing.T) {
	w := NewWork()
	var busy sync.WaitGroup
	for range 4 {
		busy.Go(func() {
			for range 20_000 {
				w.End(w.Arrive(), true)
			}
		})
	}
	done := make(chan struct{})
	go func() { busy.Wait(); close(done) }()
	for isOpen(done) {
		if r := w.Read(); r.Ended > r.Arrived || r.Completed > r.Ended {
			t.Fatalf("%+v", r)
		}
	}
	if r := w.Read(); r.Arrived != 80_000 || r.Ended != 80_000 || r.Completed != 80_000 {
		t.Errorf("%+v", r)
	}
}

func TestWorkAllocatesNothing(t *testing.T) {
	w := NewWork()
	if n := testing.AllocsPerRun(100, func() { w.Unknown(); w.End(w.Arrive(), true) }); n != 0 {
		t.Errorf("%g allocations a request", n)
	}
}

// working registers an instance that counts its work, and has it granted.
func working(node *fake, reg *Registry, tune func(*Registration)) (*Listing, *attachTalk, *Work) {
	r := orders
	r.Work = NewWork()
	if tune != nil {
		tune(&r)
	}
	l, err := reg.Register(r)
	if err != nil {
		node.t.Fatal(err)
	}
	c := node.attach()
	c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
	synctest.Wait()
	return l, c, r.Work
}

// worked returns the next work that a beat carries, and how many beats came without before it.
func worked(c *attachTalk) (w eider.Work, without int) {
	c.t.Helper()
	b := until(c, func(m *pb.AttachRequest) *pb.Beat {
		if b := m.GetBeat(); len(b.GetWork()) > 0 {
			return b
		} else if b != nil {
			without++
		}
		return nil
	})
	key, w := wire.ToWork(b.GetWork()[0])
	if len(b.GetWork()) != 1 || key != (eider.Key{Service: "orders", ID: "1"}) {
		c.t.Errorf("a beat carries %v", b.GetWork())
	}
	answer(c, &pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: b}})
	return w, without
}

// U3: the beats carry what has changed, and nothing else; a new node is told anew.
func TestBeatsCarryWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		_, c, work := working(node, node.open(Config{}), nil)
		first := work.Arrive()
		if w, _ := worked(c); w.Arrived != 1 || w.Ended != 0 {
			t.Errorf("the first: %+v", w)
		}
		go func() {
			time.Sleep(9 * time.Second)
			work.End(first, true)
		}()
		if w, without := worked(c); w.Completed != 1 || w.Ended != 1 || w.Slowest < 9*time.Second || without < 4 {
			t.Errorf("after %d beats that had nothing to tell: %+v", without, w)
		}
		c.bye <- errRefused // the stream ends
		c = node.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		if w, _ := worked(c); w.Arrived != 1 || w.Completed != 1 {
			t.Errorf("on the next stream: %+v", w)
		}
	})
}

// A leave says how long the unknown are to be waited for, if there are any: before it, or since.
// Whoever doesn't count its requests has unknown callers at any time.
func TestUncountedIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWork()
		w.Uncounted()
		w.Unknown()
		time.Sleep(100 * time.Hour)
		if got := w.Read(); got != (eider.Work{Unknown: true}) {
			t.Errorf("%+v", got)
		}
	})
	var none *Work
	none.Uncounted()
}

func TestLeaveTellsOfUnknownCallers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		unknown time.Duration
		before  bool
		want    []uint32
	}{
		{"nobody", 0, false, []uint32{0}},
		{"before", 0, true, []uint32{8000}},
		{"before, and they aren't waited for", -1, true, []uint32{0}},
		{"before, with a pause of its own", 3 * time.Second, true, []uint32{3000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := newFake(t)
				l, c, work := working(node, node.open(Config{}), func(r *Registration) { r.Unknown = tt.unknown })
				if tt.before {
					work.Unknown()
				}
				l.Leave()
				if got := until(c, (*pb.AttachRequest).GetLeave).GetUnknownMs(); got != tt.want[0] {
					t.Errorf("unknown_ms is %d, want %d", got, tt.want[0])
				}
				if said := idle(c, 10*time.Second); len(said) != 0 {
					t.Errorf("and then it says %v", said)
				}
			})
		})
	}
	t.Run("since", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			node := newFake(t)
			l, c, work := working(node, node.open(Config{}), nil)
			l.Leave()
			until(c, (*pb.AttachRequest).GetLeave)
			work.Unknown()
			if got := until(c, (*pb.AttachRequest).GetLeave).GetUnknownMs(); got != 8000 {
				t.Errorf("unknown_ms is %d of those who came since", got)
			}
			if said := idle(c, 6*time.Minute); len(said) != 0 {
				t.Errorf("and then it says %v", said)
			}
		})
	})
}

// What counting costs a request, alone and with every core at it.
func BenchmarkWork(b *testing.B) {
	b.Run("one", func(b *testing.B) {
		w := NewWork()
		b.ReportAllocs()
		for b.Loop() {
			w.End(w.Arrive(), true)
		}
	})
	b.Run("all", func(b *testing.B) {
		w := NewWork()
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				w.End(w.Arrive(), true)
			}
		})
	})
}
