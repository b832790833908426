package registrytest

import (
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var instanceCases = []testCase{
	{name: "D15RegisteredIsListedWithABound", run: func(w *world) {
		p := w.process("p")
		rec := record("orders", "1", 1)
		g, err := p.tryRegister(rec)
		w.must(err)
		if g.Lease != lease || g.Bound != longest {
			w.Errorf("granted a lease of %s and a bound of %s, want %s and %s", g.Lease, g.Bound, lease, longest)
		}
		want := rec
		want.Incarnation.Number, want.Version = 1, g.Record.Version
		if !g.Record.Equal(&want) || g.Record.Version == 0 {
			w.Errorf("granted %+v, want %+v", g.Record, want)
		}
		v := w.view("orders")
		if len(v.Instances) != 1 || !v.Instances[0].Record.Equal(&want) || v.Instances[0].Suspicion != 0 {
			w.Errorf("the view has %+v, want %+v", v.Instances, want)
		}
		if s := w.reg.Services(); len(s) != 1 || s[0].Service != "orders" || s[0].Up != 1 || s[0].Cursor.Number == 0 {
			w.Errorf("the services are %+v", s)
		}
	}},
	{name: "EveryFaultIsReportedAndNothingListed", run: func(w *world) {
		p := w.process("p")
		_, err := p.tryRegister(eider.Record{Key: eider.Key{Service: "Orders", ID: "a b"}, Address: "nowhere"})
		w.kind("a registration with three faults", err, eider.Invalid)
		if len(w.reg.Services()) != 0 {
			w.Error("it is listed nevertheless")
		}
	}},
	{name: "AServiceThatHasLeftIsListedAtNought", run: func(w *world) {
		p := w.serve("orders", "1")
		p.leave()
		p.left()
		w.pass(time.Second) // what was said in one batch is published
		v := w.view("orders")
		s := w.reg.Services()
		if len(s) != 1 || s[0].Service != "orders" || s[0].Up+s[0].Draining+s[0].Callers != 0 || s[0].Gone != 1 {
			w.Errorf("the services are %+v", s)
		}
		if s[0].Cursor.Number == 0 || v.Cursor != s[0].Cursor {
			w.Errorf("it is listed at %s, its view is %s", s[0].Cursor, v.Cursor)
		}
	}},
	{name: "StatusIsTheInstancesOwn", run: func(w *world) {
		p := w.serve("orders", "1")
		for _, s := range []eider.Status{eider.Down, eider.Up, eider.Starting, eider.Up} {
			w.must(p.at.SetStatus(p.rec.Key, s))
			w.stands("orders", "1", s, 0)
		}
		other := w.process("other")
		if err := other.at.SetStatus(p.rec.Key, eider.Down); err == nil {
			w.Error("another process may set the status")
		}
		w.kind("DEAD as own status", p.at.SetStatus(p.rec.Key, eider.Dead), eider.Invalid)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "BeatsKeepTheLease", run: func(w *world) {
		w.serve("orders", "1")
		before := w.view("orders").Cursor
		w.pass(10 * lease)
		w.stands("orders", "1", eider.Up, 0)
		if after := w.view("orders").Cursor; after != before {
			w.Errorf("beats moved the view from %s to %s", before, after)
		}
	}},
	{name: "R1SilenceSuspectsThenLapsesOnce", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		w.pass(3 * lease)
		p.silence()
		heard := time.Now() // at most: the last beat may be up to 2 s old
		w.pass(doubted)
		w.stands("orders", "1", eider.Up, eider.BeatsMissed)
		c.read().sees("orders", "1", eider.Up, eider.BeatsMissed)
		w.pass(lease - doubted)
		w.stands("orders", "1", eider.Lapsed, 0)
		c.read().sees("orders", "1", eider.Lapsed, 0)
		n, at := w.happened(eider.EventLapsed, "1")
		if took := at.Sub(heard); n != 1 || took > lease || took < lease-beat {
			w.Errorf("lapsed %d times, %s after it was silenced; the lease is %s", n, took, lease)
		}
	}},
	{name: "SuspectByDoubtIsCuredByABeat", run: func(w *world) {
		p := w.serve("orders", "1")
		p.silence()
		w.pass(doubted)
		w.stands("orders", "1", eider.Up, eider.BeatsMissed)
		p.speak()
		w.pass(moment)
		w.stands("orders", "1", eider.Up, 0)
		w.pass(2 * lease)
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "R5ALateBeatRevivesNobody", run: func(w *world) {
		p := w.serve("orders", "1")
		p.silence()
		w.pass(lease + time.Second)
		w.stands("orders", "1", eider.Lapsed, 0)
		p.at.Beat()
		w.pass(moment)
		w.stands("orders", "1", eider.Lapsed, 0)
		_, err := p.next(moment)
		w.kind("Next, once a lapsed instance beats", err, eider.Stale)
		p.again()
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "D17ALiveDuplicateIsRefused", run: func(w *world) {
		w.serve("orders", "1")
		other := w.process("other")
		_, err := other.tryRegister(record("orders", "1", 77))
		w.kind("the id of a live instance", err, eider.Conflict)
		if v := w.view("orders"); v.Instances[0].Incarnation.Nonce == 1077 {
			w.Error("the second has taken the first's place")
		}
	}},
	{name: "D16AnOlderAttachIsStale", run: func(w *world) {
		p := w.serve("orders", "1")
		late := p.rec
		p.again()
		other := w.process("late")
		_, err := other.tryRegister(late)
		w.kind("an attachment from before", err, eider.Stale)
		p.leave()
		p.left()
		p.rec.Attachment++
		_, err = p.tryRegister(p.rec)
		w.kind("an incarnation that has left", err, eider.Stale)
		w.stands("orders", "1", eider.Left, 0)
	}},
	{name: "AnIncarnationShowsItsSecret", run: func(w *world) {
		p := w.serve("orders", "1")
		if p.secret == ([16]byte{}) {
			w.Fatal("it was given none")
		}
		thief := w.process("thief")
		stolen := p.rec
		stolen.Attachment, stolen.Version, stolen.Address = 1000, 0, "127.0.0.1:66"
		for _, shown := range [][16]byte{{}, {1}} {
			thief.secret = shown
			_, err := thief.tryRegister(stolen)
			w.kind("an incarnation without its secret", err, eider.Stale)
		}
		if v := w.view("orders"); v.Instances[0].Address != p.rec.Address {
			w.Error("the thief has taken its place")
		}
		p.again()
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "TheNextIncarnationHasTheNextNumber", run: func(w *world) {
		p := w.serve("orders", "1")
		p.leave()
		p.left()
		next := w.process("next")
		g, err := next.tryRegister(record("orders", "1", 77))
		w.must(err)
		if g.Record.Incarnation.Number != 2 {
			w.Errorf("the second incarnation is %s, want number 2", g.Record.Incarnation)
		}
		w.stands("orders", "1", eider.Up, 0)
	}},
	{name: "ANewStreamTakesOverFromTheOld", run: func(w *world) {
		p := w.serve("orders", "1")
		old := p.at
		p.again()
		old.End(replica.Lost)
		w.pass(2 * lease)
		w.stands("orders", "1", eider.Up, 0)
		if n, _ := w.happened(eider.EventSuspect, "1"); n != 0 {
			w.Error("the end of a replaced stream raised a suspicion")
		}
	}},
	{name: "PostponedLeaseIsLonger", run: func(w *world) {
		post, ok := w.reg.(replica.Postponer)
		if !ok {
			w.Fatal("it doesn't hear of retry-afters")
		}
		p := w.serve("orders", "1")
		p.silence()
		post.Postpone(p.rec.Key, [16]byte{1}, time.Minute) // somebody else, who isn't believed
		post.Postpone(p.rec.Key, p.secret, 10*time.Second)
		w.pass(lease + time.Second)
		if s, _ := w.status("orders", "1"); s != eider.Up {
			w.Errorf("%s a lease after the last beat, though told to come back 10 s later", s)
		}
		w.pass(10 * time.Second)
		w.stands("orders", "1", eider.Lapsed, 0)
	}},
}
