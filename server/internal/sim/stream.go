package sim

import (
	"slices"
	"time"

	"github.com/eiderhq/eider/server/internal/ledger"
)

// peer is a process or a caller at the other end of a stream.
type peer interface {
	box() *mailbox
	lost(*stream) // its end has noticed that the stream is over
}

// stream is one connection: in order, late, and over at its two ends at different times.
type stream struct {
	w          *world
	node       *node
	run        uint64
	peer       peer
	place      int
	doomed     bool // a cut has fallen on it: nothing passes any more
	nodeEnd    bool // the node knows that it is over
	peerEnd    bool // so does the peer
	toNode     time.Duration
	toPeer     time.Duration
	session    ledger.Session
	follower   ledger.Follower
	subscribed bool
	nonce      uint64
	nodeLost   time.Duration // when the node noticed
}

func (w *world) open(n *node, p peer, place int) *stream {
	return &stream{w: w, node: n, run: n.run, peer: p, place: place}
}

// send carries something to the node.
func (s *stream) send(f func()) {
	if s.doomed || s.peerEnd {
		return
	}
	s.toNode = max(s.toNode, s.w.now+s.w.between(0, 20*time.Millisecond))
	s.w.atTime(s.toNode, func() {
		if !s.doomed {
			s.node.do(func() {
				if s.run == s.node.run && !s.nodeEnd {
					f()
				}
			})
		}
	})
}

// reply carries something to the peer.
func (s *stream) reply(f func()) {
	if s.doomed || s.nodeEnd {
		return
	}
	s.toPeer = max(s.toPeer, s.w.now+s.w.between(0, 20*time.Millisecond))
	s.w.atTime(s.toPeer, func() {
		if !s.doomed {
			s.peer.box().do(func() {
				if !s.peerEnd {
					f()
				}
			})
		}
	})
}

// close is the peer's: it ends the stream, and the node hears of it.
func (s *stream) close(how ledger.Ending) {
	if s.peerEnd {
		return
	}
	s.send(func() { s.ended(how) })
	s.peerEnd = true
}

// doom cuts the stream: each end notices by itself, some time later.
func (s *stream) doom() {
	if s.doomed {
		return
	}
	s.doomed = true
	s.w.after(s.w.between(0, 3*time.Second), func() {
		s.node.do(func() {
			if s.run == s.node.run {
				s.ended(ledger.Lost)
			}
		})
	})
	s.w.after(s.w.between(0, 3*time.Second), func() {
		s.peer.box().do(func() {
			if !s.peerEnd {
				s.peerEnd = true
				s.peer.lost(s)
			}
		})
	})
}

// ended is the node's: the stream is over there.
func (s *stream) ended(how ledger.Ending) {
	if s.nodeEnd {
		return
	}
	s.nodeEnd = true
	n := s.node
	s.nodeLost = s.w.now
	if s.session != 0 {
		delete(n.attach, s.session)
		if p := s.peer.(*proc); n.holders[p.key] == s {
			delete(n.holders, p.key)
		}
		n.took(n.tb.Detach(n.clock(), s.session, how))
	}
	if s.follower != 0 {
		n.watches = slices.DeleteFunc(n.watches, func(other *stream) bool { return other == s })
		n.took(n.tb.Unfollow(n.clock(), s.follower, how))
	}
}
