package drain

import (
	"net/http"
	"strings"
)

// arrived counts a request that the handler is about to get; meant tells that it names this process in Eider-To.
// Who doesn't name himself can't be told of a leave. Since the leave that takes more: who names himself and not this
// process, as when a proxy passes a name on, may not be the one who has let go.
func (d *drainer) arrived(x *exchange, r *http.Request, meant bool) {
	if d.work == nil && d.leave.Load() == nil {
		return
	}
	known := x.caller != ""
	d.took(x, known, meant, asksForStream(r))
}

// took counts a request; known tells that its caller names himself, meant that he names this process, stream that
// the request's end says nothing.
func (d *drainer) took(x *exchange, known, meant, stream bool) {
	leaving := d.leave.Load() != nil
	if leaving {
		d.tally.arrived(x)
	}
	switch {
	case x.probe:
		return // it is answered by a process that does nothing else any more
	case !known:
		d.work.Unknown()
	}
	if leaving {
		d.since.met(x, known && meant)
	}
	if d.work != nil && !stream {
		x.arrival = d.work.Arrive()
		x.counted.Store(true)
	}
}

// asksForStream tells whether a request says from the start that its answer won't end by itself: then it is no
// measure of the work. Others that turn out to be streams count as completed by their beginning.
func asksForStream(r *http.Request) bool {
	if r.Method == http.MethodConnect || len(r.Header["Upgrade"]) > 0 {
		return true
	}
	accept := r.Header["Accept"]
	return len(accept) == 1 && strings.HasPrefix(accept[0], "text/event-stream")
}

// over ends the counting of a request, once.
func (x *exchange) over(completed bool) {
	if x.counted.CompareAndSwap(true, false) {
		x.conn.book.d.work.End(x.arrival, completed)
	}
}
