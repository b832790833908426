package registry

import (
	"sync/atomic"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// Trial is a node's wish that this process send its next request to an instance that is suspect for hanging:
// nobody calls it, so it can't show that it no longer hangs. Several followers of one service in a process
// share it.
type Trial struct {
	eider.Departure // which incarnation
	taken           atomic.Bool
}

// Claim takes the trial: true for the first who asks, of all.
func (t *Trial) Claim() bool { return !t.taken.Swap(true) }

// Trials has f called with every trial that a node asks of this process for the service, by the goroutine that
// reads the stream. It must return at once, and may be called once more while the subscription is closed.
// Without it they are left to the other followers. It is called once.
func (s *Subscription) Trials(f func(*Trial)) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.tried = f
}

// offer is a trial on its way to a follower.
type offer struct {
	to    func(*Trial)
	trial *Trial
}

// trial takes a node's wish. Called with w.mu held.
func (w *watcher) trial(m *pb.Trial) {
	f := w.feeds[m.GetService()]
	if f == nil || m.GetId() == "" || m.GetNonce() == 0 {
		return
	}
	t := &Trial{Departure: eider.Departure{Key: eider.Key{Service: f.service, ID: m.GetId()}, Incarnation: eider.Incarnation{Nonce: m.GetNonce()}}}
	for _, s := range f.followers {
		if s.tried != nil {
			w.offers = append(w.offers, offer{s.tried, t})
		}
	}
}
