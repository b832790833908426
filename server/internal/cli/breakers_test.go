package cli

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/server/internal/front/console"
	"github.com/eiderhq/eider/server/internal/panel"
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

// TestFleetBreakers shows the breakers that callers share, and an operator's word to them.
func TestFleetBreakers(t *testing.T) {
	bubble(t, func(w *world) {
		mem := fleet.NewMemory(0)
		p := panel.New(mem, nil)
		defer w.serveWith(console.New(w.reg, console.Config{Version: "v0", Logger: slog.New(slog.DiscardHandler), Panel: p}))()
		put := func(key string, r fleet.Record) {
			r.Epoch = 1
			if _, _, err := mem.Swap(t.Context(), key, 0, r.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		put("orders", fleet.Record{State: breaker.Open, For: 5 * time.Second, Rule: breaker.RuleFailureRate, Count: 30, Of: 50, Seers: 12})
		put("pay", fleet.Record{State: breaker.HalfOpen, For: 10 * time.Second, Rule: breaker.RuleTrial, Count: 1, Of: 1, Seers: 1, Holder: "checkout@b2f19c03d1e7", Token: 7})
		put("stock", fleet.Record{State: breaker.Ramping, For: time.Minute, Rule: breaker.RuleSlowRate, Count: 9, Of: 10, Seers: 3})
		put("tills", fleet.Record{State: breaker.Closed})
		if _, _, err := mem.Swap(t.Context(), "a\x1b[31mb", 0, []byte("this?")); err != nil {
			t.Fatal(err)
		}
		bell := make(chan struct{}, 1)
		defer mem.Ring("orders", bell)()
		for i := range 3 {
			count := fmt.Sprintf(`{"e":1,"g":0,"calls":10,"failures":%d,"open":%v}`, 2*i, i == 2)
			if _, err := mem.Tell(t.Context(), "tills", fmt.Sprint(i), []byte(count), false); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Second)
		w.story("breakers-fleet.txt", "breakers", "breakers orders", "breakers tills", "breakers tills --json", "breakers nobodys",
			"breakers close orders", "breakers orders", "breakers reset orders", "breakers orders", "breakers open orders", "breakers open tills --json", "breakers orders",
			"breakers open nobodys", "breakers open", "breakers reset orders pay", "breakers --json")
		w.tty, w.width = true, 80
		_, out, _ := w.eider("breakers")
		_, table, _ := strings.Cut(out, "FLEET")
		rows, _, _ := strings.Cut(table, ": ")
		for line := range strings.Lines("FLEET" + rows) {
			if plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(strings.TrimSuffix(line, "\n"), ""); utf8.RuneCountInString(plain) > 80 {
				t.Errorf("over 80 columns: %q", plain)
			}
		}
	})
}

// They are in the first answer of several.
func TestFleetBreakersOfSeveralPages(t *testing.T) {
	bubble(t, func(w *world) {
		mem := fleet.NewMemory(0)
		defer w.serveWith(console.New(w.reg, console.Config{Logger: slog.New(slog.DiscardHandler), Panel: panel.New(mem, nil), MaxBytes: 1}))()
		w.reg.SetView(&eider.View{Service: "orders", Complete: true})
		seen := []eider.Seen{{Caller: "checkout@1", Breaker: eider.Breaker{State: eider.BreakerOpen}}}
		w.reg.SetBreakers(eider.Breakers{Key: eider.Key{Service: "orders", ID: "1"}, Incarnation: nonce(9), State: eider.BreakerOpen, Seen: seen}, eider.Breakers{Key: eider.Key{Service: "orders", ID: "2"}, Incarnation: nonce(9), State: eider.BreakerOpen, Seen: seen})
		for _, key := range []string{"orders", "pay"} {
			if _, _, err := mem.Swap(t.Context(), key, 0, fleet.Record{Epoch: 1, State: breaker.Open, For: time.Minute}.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		code, out, errs := w.eider("breakers")
		for _, part := range []string{"orders   1", "orders   2", "FLEET", "\norders  open", "and 1 more;"} {
			if code != 0 || !strings.Contains(out, part) {
				t.Errorf("%q isn't said: %d, %s\n%s", part, code, errs, out)
			}
		}
	})
}
