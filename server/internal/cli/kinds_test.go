package cli

import (
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// TestKinds shows callers that don't acknowledge, each as it counts.
func TestKinds(t *testing.T) {
	bubble(t, func(w *world) {
		defer w.serve()()
		now := time.Now()
		w.reg.SetView(&eider.View{Service: "orders", Complete: true})
		w.reg.SetCallers(
			eider.Caller{ID: "checkout@b2", Kind: eider.Native, Service: "orders", Since: now.Add(-time.Minute), Behind: 2, Cap: 8 * time.Second},
			eider.Caller{ID: "shop@h1", Kind: eider.Poller, Service: "orders", Since: now.Add(-time.Hour), Behind: 2, Cap: 66 * time.Second, Every: 30 * time.Second, Cache: 35 * time.Second},
			eider.Caller{ID: "shop@h2", Kind: eider.Poller, Service: "orders", Since: now.Add(-time.Hour), Cap: 11 * time.Second, Every: 10 * time.Second},
			eider.Caller{ID: "unknown", Kind: eider.UnknownCallers, Service: "orders", Since: now.Add(-time.Hour), Cap: 8 * time.Second},
		)
		poller := eider.Member{Caller: "shop@h1", Kind: eider.Poller, State: eider.Waiting, Cap: 66 * time.Second, Every: 30 * time.Second, Cache: 35 * time.Second}
		unknown := eider.Member{Caller: "unknown", Kind: eider.UnknownCallers, State: eider.Waiting, Cap: 8 * time.Second}
		settled := func(m eider.Member, state eider.MemberState, after time.Duration) eider.Member {
			m.State, m.Settled = state, after
			return m
		}
		drain := func(id string, open int, members ...eider.Member) eider.Drain {
			d := eider.Drain{Departure: eider.Departure{Key: eider.Key{Service: "orders", ID: id}, Incarnation: nonce(9)}, Since: now.Add(-2 * time.Second),
				Bound: 66 * time.Second, Status: eider.Draining, Total: len(members), Open: open, Members: members}
			if open == 0 {
				d.Reached, d.Status, d.Barrier = true, eider.Left, members[len(members)-1].Settled
			}
			return d
		}
		w.reg.SetDrains(
			drain("1", 2, poller, unknown),
			drain("2", 0, settled(unknown, eider.Capped, 8*time.Second), settled(poller, eider.Capped, 66*time.Second)),
			drain("3", 0, settled(poller, eider.Polled, 12*time.Second)),
		)
		w.story("kinds.txt", "callers orders", "drains orders")
	})
}
