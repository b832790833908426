package drain

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Two kinds of answer have no end of their own, and so have a budget of their own, Config.Streams from the barrier:
//
//   - a stream: an answer of type text/event-stream, or one that is flushed while its length is undeclared, or one
//     that [Stream] marks;
//   - an upgraded connection: whatever a handler has taken over with http.Hijacker, a websocket say. net/http forgets
//     it; here it is kept in a register until it is closed.
//
// Both are told at the leave ([Started]), and once more when the pause has ended ([Ending], [Goodbye]), which is when
// to say goodbye: whoever comes back at once is sent elsewhere by then. What hasn't ended when the budget has is cut
// and named in the report. None of it holds up the barrier, nor anybody else's deadline.

// Ending returns a channel that is closed when the pause has ended: no caller that can be told is sent here any more,
// and a stream has Config.Streams left to end. ctx is as for [Started].
func Ending(ctx context.Context) <-chan struct{} {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.book.d.ending
	}
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c.self.d.ending
	}
	return nil
}

// Goodbye sets what is said on an upgraded connection at its end: f is called once, in a goroutine of its own, when
// the pause has ended, at once if it has. It should write what the protocol has for it (a websocket's close frame
// 1001, going away) and leave the reading to the handler; what is still open Config.Streams later is closed without
// a word. It may be called before the upgrade or after it; a later f replaces an earlier one, nil takes it back.
//
// ctx is the request's context, or that of a [ServeListener] handler. On an HTTP/2 request, whose connection belongs
// to others as well, and without a drain in ctx, it does nothing.
func Goodbye(ctx context.Context, f func()) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok || c.h2.Load() {
		return
	}
	c.mu.Lock()
	c.goodbye = f
	c.mu.Unlock()
	c.farewell()
}

// Stream marks an answer as a stream that doesn't look like one, say a long poll that has written nothing yet. w is
// the handler's ResponseWriter, or one around it that has Unwrap, as http.ResponseController wants it. It tells
// whether there is a drain that heeds it.
func Stream(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case *plain:
			t.streams(true)
			return true
		case *multiplexed:
			t.streams(true)
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// streams makes an answer a stream. One that was counted as a request has completed with its beginning, if that went
// well: its end says nothing about the work.
func (x *exchange) streams(well bool) {
	if !x.stream.Swap(true) {
		x.over(well)
	}
}

func isEventStream(h http.Header) bool {
	kind := h["Content-Type"]
	return len(kind) == 1 && strings.HasPrefix(kind[0], "text/event-stream")
}

// take moves a connection that a handler has taken over from net/http's into the register.
func (b *book) take(c *conn) {
	c.mu.Lock()
	x := c.running
	c.mu.Unlock()
	if x != nil {
		x.upgraded.Store(true)
		x.streams(true)
	}
	b.mu.Lock()
	delete(b.conns, c)
	if x != nil {
		c.taken.Store(x)
		b.taken[c] = x
	}
	if len(b.taken) > max(b.ask, askFrom) {
		b.dropEnded()
		b.ask = 2 * len(b.taken)
	}
	b.mu.Unlock()
	c.farewell()
}

// release takes a connection that has ended out of the register; false if it was out already.
func (b *book) release(c *conn) bool {
	b.mu.Lock()
	_, in := b.taken[c]
	delete(b.taken, c)
	b.mu.Unlock()
	if in {
		b.stir()
	}
	return in
}

// upgraded lists the register. Connections that their handlers have unwrapped end unheard: they are asked.
func (b *book) upgraded() (out []*conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropEnded()
	for c := range b.taken {
		out = append(out, c)
	}
	return out
}

// askFrom is how many connections are in the register before it looks for ended ones by itself; from there on at each
// doubling, so that it is never more than twice as long as it was with the open ones alone.
const askFrom = 64

// dropEnded forgets the ended ones that end unheard. The book is locked.
func (b *book) dropEnded() {
	for c := range b.taken {
		if c.bare.Load() && c.isClosed() {
			delete(b.taken, c)
		}
	}
}

// farewell calls the connection's Goodbye, once, if it is time.
func (c *conn) farewell() {
	b := c.book
	if c.taken.Load() == nil || !b.d.barred.Load() {
		return
	}
	c.mu.Lock()
	f := c.goodbye
	c.goodbye = nil
	c.mu.Unlock()
	if f == nil {
		return
	}
	b.saying.Add(1)
	go func() {
		defer b.stir()
		defer b.saying.Add(-1)
		f()
	}()
}

// isClosed asks the socket.
func (c *conn) isClosed() bool {
	raw, err := c.SyscallConn()
	return err == nil && raw.Control(func(uintptr) {}) != nil
}

// bareEvery is how often connections are asked whether they have ended whose handlers have unwrapped them.
const bareEvery = 50 * time.Millisecond

// cutUpgraded closes the upgraded connections, and names those that were still open.
func (d *drainer) cutUpgraded(why string) (cut int) {
	for _, c := range d.book.upgraded() {
		x := c.taken.Load()
		if !d.book.release(c) {
			continue // its end came first
		}
		cut++
		c.kill()
		if x.cancel != nil {
			x.cancel()
		}
		if !x.named.Swap(true) {
			d.tally.name(x, &d.tally.r.CutCount, &d.tally.r.Cut)
			d.log.Warn("an upgraded connection is cut by "+why+": it was told at the leave and hasn't ended", "service", d.set.Service,
				"connection", d.describe(x).String())
		}
	}
	return cut
}
