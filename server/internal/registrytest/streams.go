package registrytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

var streamCases = []testCase{
	{name: "BeforeRunItIsUnavailable", unstarted: true, run: func(w *world) {
		_, err := w.reg.Attach(replica.Peer{Caller: "p"})
		w.kind("Attach before Run", err, eider.Unavailable)
		_, err = w.reg.Watch(replica.Peer{Caller: "c"})
		w.kind("Watch before Run", err, eider.Unavailable)
		w.kind("EventsWait before Run", w.reg.EventsWait(context.Background(), 0), eider.Unavailable)
		if w.reg.Node().Ready || len(w.reg.Services()) != 0 {
			w.Errorf("before Run the node says %+v", w.reg.Node())
		}
	}},
	{name: "AfterRunItIsUnavailable", run: func(w *world) {
		p := w.serve("orders", "1")
		c := w.caller("caller").follow("orders")
		p.notices()
		ends := make(chan error, 3)
		go func() { _, err := p.at.Next(context.Background()); ends <- err }()
		go func() { _, err := c.Next(context.Background()); ends <- err }()
		go func() { ends <- w.reg.EventsWait(context.Background(), 1<<40) }()
		w.pass(moment)
		w.stop()
		for range 3 {
			w.kind("who waited when Run ended", <-ends, eider.Unavailable)
		}
		_, err := p.at.Register(p.rec, 0, p.secret)
		w.kind("Register after Run", err, eider.Unavailable)
		w.kind("SetStatus after Run", p.at.SetStatus(p.rec.Key, eider.Down), eider.Unavailable)
		w.kind("Leave after Run", p.at.Leave(p.rec.Key, 0), eider.Unavailable)
		w.kind("Left after Run", p.at.Left(p.rec.Key), eider.Unavailable)
		w.kind("Subscribe after Run", c.Subscribe("orders", eider.Cursor{}, nil), eider.Unavailable)
		_, err = w.reg.Attach(replica.Peer{Caller: "p"})
		w.kind("Attach after Run", err, eider.Unavailable)
		w.kind("EventsWait after Run", w.reg.EventsWait(context.Background(), 1<<40), eider.Unavailable)
		p.at.Beat()
		p.at.End(replica.Lost)
		c.Ack("orders", eider.Cursor{}, nil, nil)
		c.Doubt(eider.Departure{})
		c.Unsubscribe("orders")
		c.End(replica.Lost)
		if w.reg.Node().Ready {
			w.Error("after Run the node says that it's ready")
		}
		if _, suspicion := w.status("orders", "1"); suspicion != 0 {
			w.Error("a node that stopped suspects its instances")
		}
		if n, _ := w.happened(eider.EventStreamEnded, ""); n != 0 {
			w.Error("a node that stopped says that streams were lost")
		}
	}},
	{name: "NextEndsWithItsContext", run: func(w *world) {
		p, c := w.serve("orders", "1"), w.caller("caller").follow("orders")
		p.notices()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		if _, err := p.at.Next(ctx); !errors.Is(err, why) {
			w.Errorf("Attachment.Next: %v, want its context's cause", err)
		}
		if _, err := c.Next(ctx); !errors.Is(err, why) {
			w.Errorf("Watcher.Next: %v, want its context's cause", err)
		}
		if err := w.reg.EventsWait(ctx, 1<<40); !errors.Is(err, why) {
			w.Errorf("EventsWait: %v, want its context's cause", err)
		}
	}},
	{name: "AnEndedStreamSaysSo", run: func(w *world) {
		p, c := w.serve("orders", "1"), w.caller("caller").follow("orders")
		p.silence()
		p.end(replica.Moving)
		p.end(replica.Lost)
		c.End(replica.Bye)
		c.End(replica.Lost)
		_, err := p.next(moment)
		w.kind("Attachment.Next", err, eider.Closed)
		_, err = p.tryRegister(p.rec)
		w.kind("Register", err, eider.Closed)
		_, err = c.Next(context.Background())
		w.kind("Watcher.Next", err, eider.Closed)
		w.kind("Subscribe", c.Subscribe("orders", eider.Cursor{}, nil), eider.Closed)
	}},
	{name: "R12ThousandsOfWatchersLeaveNothing", run: func(w *world) {
		w.serve("orders", "1")
		const n = 3000
		cs := make([]*client, n)
		over := make(chan error, n)
		for i := range cs {
			p := replica.Peer{Caller: fmt.Sprint("c", i), Observer: i%2 == 0}
			cs[i] = w.client(p).follow("orders")
			w.must(cs[i].Subscribe(fmt.Sprint("other", i%50), eider.Cursor{}, nil))
		}
		if have := len(w.reg.Callers("orders")); have != n/2 {
			w.Errorf("%d callers, want %d: an observer isn't one", have, n/2)
		}
		for i, c := range cs {
			go func() {
				var err error
				for err == nil {
					_, err = c.Next(context.Background())
				}
				over <- err
			}()
			if i%3 == 0 {
				c.Unsubscribe("orders")
			}
		}
		w.pass(moment)
		for _, c := range cs {
			c.End(replica.Bye)
		}
		for range cs {
			w.kind("Next of an ended stream", <-over, eider.Closed)
		}
		if callers := w.reg.Callers(""); len(callers) != 0 {
			w.Errorf("%d callers are left after all said goodbye, as %+v", len(callers), callers[0])
		}
		w.pass(2 * time.Minute)
		if n := w.reg.Node(); n.Services != 1 || n.Callers != 0 {
			w.Errorf("the node still knows %d services and %d callers, want 1 and 0", n.Services, n.Callers)
		}
	}},
}
