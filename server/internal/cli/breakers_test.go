package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// TestBreakers shows what callers' breakers say, and what stands there when they say nothing.
func TestBreakers(t *testing.T) {
	bubble(t, func(w *world) {
		defer w.serve()()
		now := time.Now()
		w.reg.SetView(&eider.View{Service: "orders", Complete: true})
		w.reg.SetView(&eider.View{Service: "stock", Complete: true})
		w.story("breakers-nobody.txt", "breakers orders", "breakers", "breakers orders --json", "breakers ordres")
		var callers []eider.Caller
		for i := range 12 {
			callers = append(callers, eider.Caller{ID: fmt.Sprintf("checkout@%02d", i), Kind: eider.Native, Service: "orders", Stream: true})
		}
		w.reg.SetCallers(append(callers, eider.Caller{ID: "report@77", Kind: eider.Native, Service: "stock", Stream: true})...)
		w.story("breakers-closed.txt", "breakers orders", "breakers stock", "breakers")
		seen := func(caller string, state eider.BreakerState, rule eider.BreakerRule, count, of uint64, ago, retry time.Duration) eider.Seen {
			s := eider.Seen{Caller: caller, Breaker: eider.Breaker{State: state, Rule: rule, Count: count, Of: of, Since: now.Add(-ago)}}
			if retry != 0 {
				s.Retry = now.Add(retry)
			}
			return s
		}
		slow := func(i int, state eider.BreakerState) eider.Seen {
			return seen(fmt.Sprintf("checkout@%02d", i), state, eider.BreakerSlowRate, 7, 10, 12*time.Second, 3*time.Second)
		}
		breakers := func(service, id string, rejecting, told, callers int, seen ...eider.Seen) eider.Breakers {
			return eider.Breakers{Key: eider.Key{Service: service, ID: id}, Incarnation: nonce(9), State: seen[0].State, Rejecting: rejecting, Told: told, Callers: callers, Seen: seen, LeftOut: told - len(seen)}
		}
		w.reg.SetBreakers(
			breakers("orders", "1", 4, 5, 12, slow(0, eider.BreakerOpen), slow(1, eider.BreakerOpen), slow(2, eider.BreakerHalfOpen), slow(3, eider.BreakerHalfOpen), slow(4, eider.BreakerRamping)),
			breakers("orders", "2", 1, 1, 12, seen("checkout@03", eider.BreakerHalfOpen, eider.BreakerHanging, 5, 10, 4*time.Second, 0)),
			breakers("orders", "3", 1, 1, 12, seen("checkout@03", eider.BreakerOpen, eider.BreakerConsecutive, 5, 5, 4*time.Second, -time.Second)),
			breakers("orders", "4", 0, 1, 12, seen("checkout@03", eider.BreakerRamping, eider.BreakerNoRule, 0, 0, time.Second, 0)),
			breakers("orders", "5", 2, 2, 12, seen("checkout@01", eider.BreakerForcedOpen, eider.BreakerByHand, 0, 0, time.Hour, 0), seen("red\x1b[31m\u202e@9", eider.BreakerOpen, eider.BreakerRefused, 0, 0, time.Second, 30*time.Second)),
			breakers("stock", "1", 0, 1, 1, seen("report@77", eider.BreakerMetricsOnly, eider.BreakerSlowRate, 9, 10, time.Minute, 0)),
		)
		w.story("breakers.txt", "breakers orders", "breakers", "breakers ORDERS", "breakers stock --json")
		w.tty, w.width = true, 100
		w.story("breakers-colours.txt", "breakers orders")
	})
}
