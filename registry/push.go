package registry

// Push has f called with every update from now on, newest wins, one at a time, by the goroutine that learns of
// it: usually the one that reads the stream, so that nobody has to be woken between a view's arrival and its
// use. The handle's other views and its answers wait for f, which may Ack and Doubt, and must not Close. Next
// only waits for the end from then on. It is called once.
func (s *Subscription) Push(f func(Update)) {
	s.w.mu.Lock()
	s.pushed = f
	s.w.mu.Unlock()
	s.push()
}

// push hands on what is new. Called without the watcher's lock.
func (s *Subscription) push() {
	s.pushing <- struct{}{}
	defer func() { <-s.pushing }()
	for {
		u, news := s.news()
		if !news {
			return
		}
		s.pushed(u)
	}
}

// unlock ends a critical section in which followers may have been woken, and hands on to those that are pushed to.
func (w *watcher) unlock() {
	pushes, offers := w.pushes, w.offers
	w.pushes, w.offers = nil, nil
	w.mu.Unlock()
	for _, s := range pushes {
		s.push()
	}
	for _, o := range offers { // after the view that says why
		o.to(o.trial)
	}
}
