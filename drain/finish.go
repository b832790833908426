package drain

import (
	"context"
	"net/http"
	"time"

	"github.com/eiderhq/eider"
)

// finish ends the serving once the pause is over: empty the accept queue, close the listener, tell
// HTTP/2 connections, and let what is in flight end, under its deadline.
func (d *drainer) finish(barrier time.Duration, enough <-chan struct{}) {
	d.barred.Store(true)
	close(d.ending)
	for _, c := range d.book.upgraded() {
		c.farewell()
	}
	if d.beside != nil {
		d.finishProgram(d.beside, barrier, enough)
		return
	}
	if !d.ended {
		d.ln.end()
		if d.ended = await(d.served, time.Second); !d.ended {
			d.log.Error("the listener's Accept doesn't end; going on without it", "service", d.set.Service)
		}
	}
	if d.other != nil {
		d.finishOther(barrier, enough)
		return
	}
	quit, cancel := context.WithCancel(context.Background())
	var shut chan struct{} // the real Shutdown, once it runs
	defer func() { cancel(); d.close(shut) }()
	d.tellHTTP2(quit)
	deadline, streams := barrier+d.set.InFlight, barrier+d.set.Streams
	for {
		due, plain, all := d.book.sweep(barrier)
		if all == 0 && (streams == 0 || d.book.saying.Load() == 0) {
			return
		}
		if plain == 0 && d.ended && shut == nil { // nobody's request can be dropped now: let an HTTP/2 of the user's own hear of it
			shut = make(chan struct{})
			go func() { defer close(shut); d.srv.Shutdown(quit) }()
		}
		now := d.now()
		if streams != 0 && now >= streams {
			streams = 0
			d.cutStreams()
		}
		if streams == 0 && d.cutUpgraded("the streams' budget") > 0 { // also what was upgraded since
			continue
		}
		if now >= deadline {
			d.force("the in-flight deadline", &d.tally.r.OverranCount, &d.tally.r.Overran)
			return
		}
		t := time.NewTimer(earliest(deadline, due, streams) - now)
		select {
		case <-d.book.changed:
		case <-t.C:
		case <-d.unserved():
			d.ended = true
		case <-enough:
			t.Stop()
			d.force("a second SIGINT", &d.tally.r.CutCount, &d.tally.r.Cut)
			return
		}
		t.Stop()
	}
}

// tellHTTP2 sends GOAWAY on the HTTP/2 connections of now. Those that begin later, silent until now, are
// told by their first answer: a GOAWAY at once would lose the request that they come with.
func (d *drainer) tellHTTP2(ctx context.Context) {
	for _, c := range d.book.all() {
		if c.h2.Load() && http.ConnState(c.state.Load()) != http.StateNew {
			c.away.Store(true)
		}
	}
	if d.goaway != nil { // else the real Shutdown does it
		d.goaway.Shutdown(ctx) // it serves nobody, so it returns at once
	}
}

// earliest of times of which 0 is none.
func earliest(first time.Duration, more ...time.Duration) time.Duration {
	for _, at := range more {
		if at != 0 && at < first {
			first = at
		}
	}
	return first
}

// endWatches ends the streams that only look, as a watch of health is. They were told at the leave what they look for,
// and have no end of their own: nobody loses by it, and their budget would only pass unused.
func (d *drainer) endWatches() {
	for _, x := range d.book.inFlight() {
		if x.probe && x.stream.Load() {
			x.cut()
		}
	}
}

// cutStreams ends the streams whose budget is over.
func (d *drainer) cutStreams() {
	for _, x := range d.book.inFlight() {
		if x.stream.Load() && x.cut() && !x.probe {
			d.tally.name(x, &d.tally.r.CutCount, &d.tally.r.Cut)
			d.log.Warn("a stream is cut: it was told at the leave and hasn't ended", "service", d.set.Service,
				"streams", d.set.Streams, "request", d.describe(x).String())
		}
	}
}

// force names what is still in flight and closes every connection. Handlers that heed their context
// get a moment to end.
func (d *drainer) force(why string, count *int, list *[]Request) {
	for _, x := range d.book.inFlight() {
		if x.named.Swap(true) {
			continue
		}
		d.tally.name(x, count, list)
		d.log.Error("a request is cut by "+why, "service", d.set.Service, "request", d.describe(x).String())
	}
	d.cutUpgraded(why)
	conns := d.book.all()
	for _, c := range conns {
		c.kill()
	}
	d.tally.forced(len(conns))
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	for !d.book.empty() {
		select {
		case <-d.book.changed:
		case <-t.C:
			return
		}
	}
}

// close lets the server itself end: its RegisterOnShutdown functions, its books. While the accept loop
// hangs it would too, and is left alone.
func (d *drainer) close(shut <-chan struct{}) {
	if shut != nil {
		<-shut // its context has ended
	}
	if !d.ended {
		return
	}
	if shut == nil {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		d.srv.Shutdown(over)
	}
	d.srv.Close()
}

// teller calls the user's Progress in a goroutine of its own, newest wins.
type teller struct {
	news chan eider.Drain // of 1
	done chan struct{}
}

// newTeller returns nil, which tells nobody, if nobody wants to know.
func newTeller(progress func(eider.Drain)) *teller {
	if progress == nil {
		return nil
	}
	t := &teller{news: make(chan eider.Drain, 1), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		for news := range t.news {
			progress(news)
		}
	}()
	return t
}

func (t *teller) tell(news eider.Drain) {
	if t == nil || news.Since.IsZero() && news.Total == 0 && !news.Reached {
		return
	}
	select {
	case <-t.news: // not fetched in time: replaced
	default:
	}
	t.news <- news // there is room: nobody else sends
}

// end waits for the user's last call, but not for ever.
func (t *teller) end() {
	if t == nil {
		return
	}
	close(t.news)
	await(t.done, time.Second)
}
