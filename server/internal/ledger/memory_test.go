package ledger

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider"
)

// remembering is a world whose node notes what it is to keep; nobody came before.
func remembering(t testing.TB) *world {
	return newWorld(t, Config{Node: "a", Fresh: true, Memory: true, Retention: time.Hour})
}

// memory is what a node would have on disk now.
func (w *world) memory(closed bool) Memory {
	m := Memory{Written: w.now, Closed: closed}
	if before, waits := w.tb.KeptBefore(); waits {
		m.Before = before
	}
	for _, name := range slices.Sorted(slices.Values(w.tb.Names())) {
		for _, trace := range w.tb.Traces(name) {
			if k, ok := w.tb.Kept(eider.Key{Service: name, ID: trace.ID}); ok {
				m.Instances = append(m.Instances, k)
			}
			if c, ok := w.tb.KeptCaller(name, trace.Caller); ok {
				m.Callers = append(m.Callers, c)
			}
		}
	}
	return m
}

// restart ends the node and starts it again some time later, with what it had kept.
func (w *world) restart(after time.Duration, m Memory) {
	w.now = w.now.Add(after)
	for _, a := range w.processes {
		a.session, a.follower, a.beats = 0, 0, false
	}
	cfg := w.tb.cfg
	cfg.Fresh = false
	w.tb, w.dials = New(cfg, w.now), nil
	w.saw(w.tb.Restore(w.now, m))
	if err := audit(w.tb); err != nil {
		w.t.Fatal(err)
	}
}

// R17: what a node remembers is there from its first moment, doubted, until it has attached again; and it has a
// whole lease for that, however long the node was away.
func TestR17RestoredInstancesHaveAWholeLease(t *testing.T) {
	w := remembering(t)
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	w.mustRegister("p2", "orders/2", "10.0.0.1:2")
	w.advance(3 * time.Second)
	w.restart(5*time.Minute, w.memory(false))
	w.want("orders/1", eider.Up, eider.Restored)
	w.want("orders/2", eider.Up, eider.Restored)
	if w.tb.Complete(w.now) {
		t.Error("the view is complete: whoever came in the last moments may be missing")
	}
	w.advance(time.Second)
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	w.want("orders/1", eider.Up, 0)
	w.want("orders/2", eider.Up, eider.Restored)
	w.advance(18900 * time.Millisecond)
	w.want("orders/2", eider.Up, eider.Restored|eider.BeatsMissed)
	w.advance(200 * time.Millisecond)
	w.want("orders/2", eider.Lapsed, 0)
	w.want("orders/1", eider.Up, 0)
	if n := w.count(eider.EventReattached); n != 1 {
		t.Errorf("%d reattached, want 1", n)
	}
}

// A port that refuses after the restart is the end of its process; one that accepts proves nothing; one that never
// could be reached isn't dialled.
func TestRestoredInstancesAreDialled(t *testing.T) {
	w := remembering(t)
	for i := range 8 {
		w.mustRegister("p", fmt.Sprint("orders/", i), fmt.Sprint("10.0.0.1:", i+1))
	}
	w.ports["10.0.0.1:9"] = NoAnswer
	w.mustRegister("p", "orders/9", "10.0.0.1:9")
	w.advance(time.Second)
	m := w.memory(true)
	w.ports["10.0.0.1:1"], w.ports["10.0.0.1:9"] = Refused, Refused
	w.restart(time.Second, m)
	if n := len(w.dials); n != 8 {
		t.Errorf("%d dials, want one of each that had accepted one", n)
	}
	w.advance(50 * time.Millisecond)
	w.want("orders/0", eider.Dead, 0)
	w.want("orders/1", eider.Up, eider.Restored)
	w.want("orders/9", eider.Up, eider.Restored)
	w.mustRegister("p", "orders/0", "10.0.0.1:1") // it was wrong: the process lives
	w.want("orders/0", eider.Up, 0)
}

// Many refusals at once are this node's network as well, also after a restart.
func TestRestoredInstancesThatAllRefuseAreKept(t *testing.T) {
	w := remembering(t)
	for i := range 10 {
		w.mustRegister(fmt.Sprint("p", i), fmt.Sprint("orders/", i), fmt.Sprint("10.0.0.1:", i+1))
	}
	w.advance(time.Second)
	m := w.memory(false)
	for address := range w.ports {
		w.ports[address] = Refused
	}
	w.restart(time.Second, m)
	w.advance(25 * time.Second)
	if c := w.tb.Counts(); c.Instances != 8 || c.Suspects != 8 {
		t.Errorf("of ten that refuse at once %d are listed, %d of them doubted; want 8: two may be their own ends", c.Instances, c.Suspects)
	}
}

// A leave is final, also across a restart.
func TestALeaveGoesOnAfterARestart(t *testing.T) {
	w := remembering(t)
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	w.mustRegister("p2", "orders/2", "10.0.0.1:2")
	w.follow("c", "orders")
	w.leave("p1", "orders/1")
	w.restart(time.Second, w.memory(false))
	w.want("orders/1", eider.Draining, eider.Restored)
	if d := w.drain("orders/1"); d.Reached || w.member("orders/1", string(eider.FromBefore)) != eider.Waiting {
		t.Errorf("%+v", d)
	}
	w.follow("c", "orders")
	w.letGo("c", "orders/1")
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	w.want("orders/1", eider.Draining, 0)
	w.advance(8 * time.Second)
	if d := w.drain("orders/1"); !d.Reached || d.Barrier != 8*time.Second {
		t.Errorf("%+v", d)
	}
	w.left("p1", "orders/1")
	w.restart(time.Second, w.memory(false))
	w.want("orders/1", eider.Left, 0)
	if _, err := w.register("p1", "orders/1", "10.0.0.1:1"); eider.KindOf(err) != eider.Stale {
		t.Errorf("it came back from LEFT: %v", err)
	}
}

// A tombstone has what is left of its retention, by the wall's clock; what is older isn't loaded, nor is anything
// of a memory that is older as a whole.
func TestTombstonesKeepTheirAge(t *testing.T) {
	w := remembering(t)
	w.mustRegister("p", "orders/old", "10.0.0.1:1")
	w.left("p", "orders/old")
	w.advance(40 * time.Minute)
	w.mustRegister("p", "orders/new", "10.0.0.1:2")
	w.left("p", "orders/new")
	w.mustRegister("q", "orders/live", "10.0.0.1:3")
	m := w.memory(true)
	w.restart(15*time.Minute, m)
	w.want("orders/old", eider.Left, 0)
	w.advance(6 * time.Minute)
	w.want("orders/old", eider.StatusUnknown, 0)
	w.want("orders/new", eider.Left, 0)

	w.restart(0, m) // 21 minutes later by now
	w.want("orders/old", eider.StatusUnknown, 0)
	w.want("orders/new", eider.Left, 0)

	w.restart(-24*time.Hour, m) // a clock that was set back makes nothing older
	w.want("orders/old", eider.Left, 0)
	w.advance(59 * time.Minute)
	w.want("orders/old", eider.Left, 0)

	w.restart(48*time.Hour, m)
	if c := w.tb.Counts(); c.Instances+c.Tombstones > 0 {
		t.Errorf("a day later than its retention there are %+v", c)
	}
}

// D16: superseded incarnations and numbers are known after a restart: a late process of before doesn't come back.
func TestD16FormerIncarnationsOutliveARestart(t *testing.T) {
	w := remembering(t)
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	w.kill("p1")
	w.mustRegister("p2", "orders/1", "10.0.0.1:2")
	w.restart(time.Second, w.memory(false))
	if _, err := w.register("p1", "orders/1", "10.0.0.1:1", func(r *eider.Record) { r.Incarnation.Number = 0 }); eider.KindOf(err) != eider.Stale {
		t.Errorf("the superseded incarnation came back: %v", err)
	}
	w.mustRegister("p2", "orders/1", "10.0.0.1:2")
	w.left("p2", "orders/1")
	w.restart(time.Second, w.memory(false))
	if grant := w.mustRegister("p3", "orders/1", "10.0.0.1:3"); grant.Record.Incarnation.Number != 3 {
		t.Errorf("the next incarnation is %s, want number 3", grant.Record.Incarnation)
	}
}

// Another instance at the address of a restored one ends it; the process' own siblings are only late.
func TestR16ARestoredHolderOfAnAddressEnds(t *testing.T) {
	w := remembering(t)
	w.mustRegister("p1", "orders/1", "10.0.0.1:1")
	w.mustRegister("p1", "billing/1", "10.0.0.1:1")
	w.restart(time.Second, w.memory(false))
	w.mustRegister("p1", "billing/1", "10.0.0.1:1")
	w.want("orders/1", eider.Up, eider.Restored)
	w.mustRegister("p2", "users/1", "10.0.0.1:1")
	w.want("orders/1", eider.Dead, 0)
}

// Silence after a restart is preserved as any: a registry that comes back before the network does ends nobody.
func TestRestoredInstancesArePreserved(t *testing.T) {
	w := remembering(t)
	for i := range 10 {
		w.mustRegister(fmt.Sprint("p", i), fmt.Sprint("orders/", i), fmt.Sprint("10.0.0.1:", i+1))
	}
	m := w.memory(false)
	clear(w.ports) // nobody answers
	w.restart(time.Second, m)
	w.advance(time.Minute)
	if c := w.tb.Counts(); c.Instances != 10 {
		t.Errorf("%d of 10 are listed", c.Instances)
	}
}

// A renewal, a doubt and its cure change nothing of what is kept; everything else is noted.
func TestRenewalsAreNotNoted(t *testing.T) {
	w := remembering(t)
	a := w.attach("p")
	w.mustRegister("p", "orders/1", "10.0.0.1:1")
	if want := []Trace{{Service: "orders", ID: "1"}}; !slices.Equal(w.last.Memory, want) {
		t.Errorf("a registration notes %v", w.last.Memory)
	}
	w.advance(time.Second)
	a.beats = false
	noted := 0
	for range 10 {
		w.advance(6 * time.Second)
		noted += len(w.last.Memory)
		fx := w.tb.Beat(w.now, a.session)
		w.saw(fx)
		noted += len(fx.Memory)
	}
	if w.count(eider.EventCured) < 5 || noted > 0 {
		t.Errorf("%d cures, %d notes", w.count(eider.EventCured), noted)
	}
}

// TestNotesAreComplete does anything to a table: what was noted, asked again after each step, is all there is to keep.
// What comes back from it is whole, and its counts hold.
func TestNotesAreComplete(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &chaos{t: rt, now: time.Unix(0, 0), numbers: map[uint64]eider.Record{}}
		c.tb = New(Config{Node: "a", Memory: true, Retention: 90 * time.Second, MaxTombstones: 4}, c.now)
		disk := map[Trace]any{{}: c.tb.cfg.Cap}
		c.saw = func(fx Effects) {
			for _, trace := range fx.Memory {
				if before, ok := c.tb.KeptBefore(); ok && trace == (Trace{}) {
					disk[trace] = before
				} else if k, ok := c.tb.Kept(eider.Key{Service: trace.Service, ID: trace.ID}); ok {
					disk[trace] = legible(k)
				} else if _, ok := c.tb.KeptCaller(trace.Service, trace.Caller); ok {
					disk[trace] = true
				} else {
					delete(disk, trace)
				}
			}
		}
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			did := c.step()
			c.saw(c.tb.Look(c.now))
			now := map[Trace]any{}
			if before, ok := c.tb.KeptBefore(); ok {
				now[Trace{}] = before
			}
			for _, name := range c.tb.Names() {
				for _, trace := range c.tb.Traces(name) {
					if k, ok := c.tb.Kept(eider.Key{Service: trace.Service, ID: trace.ID}); ok {
						now[trace] = legible(k)
					} else if trace.Caller != "" {
						now[trace] = true
					}
				}
			}
			if !maps.Equal(disk, now) {
				rt.Fatalf("after %s there are kept %v, and are to be %v", did, disk, now)
			}
		}
		w := &world{t: t, now: c.now, tb: c.tb}
		before := w.memory(false)
		again := New(Config{Node: "a", Memory: true, Retention: 90 * time.Second, MaxTombstones: 4}, c.now)
		again.Restore(c.now, before)
		if err := audit(again); err != nil {
			rt.Fatal(err)
		}
		w.tb = again
		if got, want := kept(w.memory(false)), kept(before); !maps.Equal(got, want) {
			rt.Fatalf("%v came back as %v", want, got)
		}
	})
}

// legible is a piece without its maps and times.
func legible(k Kept) string {
	return fmt.Sprint(k.Record.Key, k.Record.Incarnation, k.Record.Attachment, k.Record.Version, k.Record.Status, k.Record.Address, k.Reachable, k.Former, k.Unknown, k.Pause)
}

func kept(m Memory) map[eider.Key]string {
	out := map[eider.Key]string{}
	for _, k := range m.Instances {
		out[k.Record.Key] = legible(k) + k.Caller + k.Ended.Format(time.StampMilli)
	}
	return out
}
