package breaker

import "time"

// post is what OnEvent hasn't been told yet.
type post struct {
	news    []Event
	missed  int
	telling bool // somebody delivers
}

// mostNews is how many changes wait for an OnEvent that is slow. The oldest are dropped then, and the next one says how many.
const mostNews = 64

// note keeps an event for whoever unlocks.
func (b *Breaker) note(ev Event, now int64) {
	if b.set.onEvent == nil {
		return
	}
	if b.post == nil {
		b.post = new(post)
	}
	ev.Name, ev.At = b.set.name, b.base.Add(time.Duration(now))
	if len(b.post.news) == mostNews {
		b.post.news = b.post.news[1:]
		b.post.missed++
	}
	b.post.news = append(b.post.news, ev)
}

// unlock gives the lock back and then delivers what has happened, unless somebody is at it already: who delivers goes
// on until there is nothing left, so that order is kept and a callback may call the breaker.
func (b *Breaker) unlock() {
	if p := b.post; p != nil && !p.telling {
		b.deliver(p)
		return
	}
	b.lock.Unlock()
}

func (b *Breaker) deliver(p *post) {
	p.telling = true
	locked := true
	defer func() {
		if !locked { // OnEvent has ended its goroutine
			b.lock.Lock()
		}
		if p.telling = false; len(p.news) == 0 {
			b.post = nil
		}
		b.lock.Unlock()
	}()
	for len(p.news) > 0 {
		ev := p.news[0]
		ev.Missed = p.missed
		p.news, p.missed = p.news[1:], 0
		b.lock.Unlock()
		locked = false
		b.tell(ev)
		b.lock.Lock()
		locked = true
	}
}

// tell calls OnEvent. Its panic is its own: the call that happened to change the breaker is innocent.
func (b *Breaker) tell(ev Event) {
	defer func() { _ = recover() }()
	b.set.onEvent(ev)
}
