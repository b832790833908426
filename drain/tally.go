package drain

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tally gathers what the report tells. Nothing is counted before the leave.
type tally struct {
	d  *drainer
	mu sync.Mutex
	r  Report // the counted part of it
}

// arrived counts a request that came since the leave.
func (t *tally) arrived(x *exchange) {
	caller := clean(x.caller)
	if x.probe {
		caller = ProbesBy
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.ServedAfterLeave++
	if t.r.ServedBy == nil {
		t.r.ServedBy = make(map[string]int)
	}
	if _, known := t.r.ServedBy[caller]; !known && len(t.r.ServedBy) >= MaxNamed {
		caller = OtherCallers
	}
	t.r.ServedBy[caller]++
}

func (t *tally) misdirect() {
	if t.d.leave.Load() == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Misdirected++
}

// unanswered names a request whose client has gone. A stream has no answer that could be missing: its client ends it
// by going, all the more so when it hears of the leave; what is written on an upgraded connection is its handler's
// matter. A probe is nobody's work.
func (t *tally) unanswered(x *exchange) {
	if x.stream.Load() || x.probe {
		return
	}
	if !x.named.Swap(true) {
		t.name(x, &t.r.UnansweredCount, &t.r.Unanswered)
	}
}

// name puts a request into one of the report's lists: that of whoever set its named first.
func (t *tally) name(x *exchange, count *int, list *[]Request) {
	r := t.d.describe(x)
	t.mu.Lock()
	defer t.mu.Unlock()
	*count++
	if len(*list) < MaxNamed {
		*list = append(*list, r)
	}
}

func (t *tally) closed(state http.ConnState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state == http.StateNew {
		t.r.SilentClosed++
	} else {
		t.r.IdleClosed++
	}
}

func (t *tally) killed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Killed = true
}

func (t *tally) forced(conns int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.ForceClosed += conns
}

// into adds what was counted to a report that has the rest.
func (t *tally) into(r Report) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.r
	r.ServedAfterLeave, r.Misdirected = c.ServedAfterLeave, c.Misdirected
	r.ServedBy = maps.Clone(c.ServedBy) // handlers that overran may go on counting
	r.Cut, r.CutCount = c.Cut, c.CutCount
	r.Overran, r.OverranCount = c.Overran, c.OverranCount
	r.Unanswered, r.UnansweredCount = c.Unanswered, c.UnansweredCount
	r.Killed = c.Killed
	r.SilentClosed, r.IdleClosed, r.ForceClosed = c.SilentClosed, c.IdleClosed, c.ForceClosed
	return r
}

func (d *drainer) describe(x *exchange) Request {
	out := Request{Method: clean(x.method), Path: clean(x.path), Caller: clean(x.caller),
		Remote: x.remote, Before: x.began == 0, Stream: x.stream.Load(), Upgraded: x.upgraded.Load()}
	if x.peer != nil {
		out.Remote = x.peer.String()
	}
	began := x.began
	if l := d.leave.Load(); out.Before && l != nil {
		began = l.at
	}
	out.Ran = max(d.now()-began, 0)
	return out
}

// clean makes a stranger's text fit for a log: at most 128 bytes, nothing that isn't printable ASCII.
func clean(s string) string {
	s = s[:min(len(s), 128)]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// now is the drain's clock: monotonic, from its start, never 0.
func (d *drainer) now() time.Duration { return time.Since(d.base) + 1 }
