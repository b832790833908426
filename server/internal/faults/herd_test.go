//go:build linux

package faults

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
	"github.com/eiderhq/eider/server/internal/node"
)

// animal is one caller of a herd: a handle with a connection of its own, and what its pickers know.
type animal struct {
	reg  *registry.Registry
	ros  *roster.Roster
	run  atomic.Uint64 // of the node run that its view is of
	size atomic.Int64  // instances in it
}

type herd []*animal

// gather opens so many callers, and waits until all have a view.
func gather(t *testing.T, grpc string, n int) herd {
	t.Helper()
	h := make(herd, n)
	for i := range h {
		a := &animal{reg: registry.Open(registry.Config{Addr: grpc, Caller: "herd", Logger: quiet})}
		a.ros = roster.Config{Applied: func(v *eider.View) {
			a.run.Store(v.Cursor.Run)
			a.size.Store(int64(len(v.Instances)))
		}}.Follow(a.reg, "orders")
		a.ros.View()
		h[i] = a
	}
	t.Cleanup(func() {
		var closing sync.WaitGroup
		for _, a := range h {
			closing.Go(func() { a.ros.Close(); a.reg.Close() })
		}
		closing.Wait()
	})
	h.all(t, "first views", func(a *animal) bool { return a.run.Load() != 0 })
	return h
}

// all waits until something holds for every one, at most a minute, and returns how long that took.
func (h herd) all(t *testing.T, what string, ok func(*animal) bool) time.Duration {
	t.Helper()
	began, tick := time.Now(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for rest := h; ; <-tick.C {
		for len(rest) > 0 && ok(rest[0]) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			missing := 0
			for _, a := range rest {
				if !ok(a) {
					missing++
				}
			}
			t.Fatalf("%s: %d of %d are missing after a minute, the first because %v", what, missing, len(h), rest[0].ros.View().Err)
		}
	}
}

// memory reads one of a process' figures, as VmRSS and VmHWM, in bytes.
func (p *process) memory(figure string) int {
	p.t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), figure+":"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(text, "kB")))
			if err != nil {
				p.t.Fatal(err)
			}
			return n << 10
		}
	}
	p.t.Fatalf("no %s", figure)
	return 0
}

// asker plays somebody who asks a node's console every 50 ms, until told to end, and says how slow the slowest
// answer was. It is a process of its own: the herd's own is too busy to measure.
func (o order) asker(say *speaker, words <-chan string) (int, error) {
	s := &server{http: o.Settings.HTTP}
	slowest, asked, failed := time.Duration(0), 0, ""
	for {
		began := time.Now()
		var v eider.View
		if err := s.ask("/v1/services/orders", &v); err != nil && !strings.Contains(err.Error(), "404") {
			failed = err.Error()
		}
		asked, slowest = asked+1, max(slowest, time.Since(began))
		select {
		case <-words:
			say.say(line{Kind: "asked", Text: failed, Slowest: slowest, Asked: asked})
			return 0, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Ten thousand callers, each on a connection of its own, lose their registry at once and come back to its next
// run. The node admits them at its rate, answers everybody else meanwhile, takes its instances back long before
// their leases would lapse, and every caller is back within a minute. Then one departure waits for all of them.
func TestH3TenThousandCallersReconnect(t *testing.T) {
	if testing.Short() {
		t.Skip("opens twenty thousand sockets")
	}
	// Two cores that bear the herd too may need longer than the usual 8 s until the last one has let go.
	s := startNode(t, node.Settings{Fresh: true, Cap: 20 * time.Second})
	var fleet []*instance
	for _, id := range []string{"a", "b", "c"} {
		fleet = append(fleet, startAs(t, order{GRPC: s.grpc, Service: "orders", ID: id, InFlight: 5 * time.Second}))
	}
	began := time.Now()
	h := gather(t, s.grpc, herdSize)
	t.Logf("%d callers came within %v; node: %d MiB", len(h), time.Since(began).Round(time.Millisecond), s.memory("VmRSS")>>20)
	h.all(t, "views of the three", func(a *animal) bool { return a.size.Load() == 3 })
	was := h[0].run.Load()
	killed := time.Now()
	s = s.succeed(func(n *node.Settings) { n.WatchRate = 700 }) // so that admission matters on two cores that bear the herd too
	up := s.awaitKind("ready").At
	asker := spawn(t, order{Role: "asker", Settings: s.settings})
	var listed time.Duration
	for _, in := range fleet { // by their own word: this process is too busy to ask
		l := in.await("return", func(l *line) bool { return l.Kind == "listed" && l.At.After(killed) })
		listed = max(listed, l.At.Sub(up))
	}
	h.all(t, "every caller on the next run", func(a *animal) bool { return a.run.Load() != was && a.run.Load() != 0 })
	back := time.Since(up)
	asker.tell("end")
	others := asker.awaitKind("asked")
	if others.Text != "" {
		t.Errorf("the node didn't answer others: %s", others.Text)
	}
	peak, limited := s.memory("VmHWM"), s.metric("eider_native_limited_total")
	t.Logf("instances back after %v, every caller after %v; %v told to come back later; slowest of %d other answers %v; node's peak %d MiB, %d KiB a caller",
		listed.Round(time.Millisecond), back.Round(time.Millisecond), limited, others.Asked, others.Slowest.Round(time.Millisecond), peak>>20, peak>>10/len(h))
	if most := 64<<20 + len(h)*96<<10; peak > most && !raced {
		t.Errorf("the node took %d MiB, more than %d", peak>>20, most>>20)
	}
	if others.Slowest > 4*time.Second || listed > 15*time.Second {
		t.Errorf("the slowest other answer took %v, the instances were back after %v", others.Slowest, listed)
	}
	if limited == 0 && !raced {
		t.Error("nobody was told to come back later: was the rate not reached?")
	}
	if e := s.events(eider.EventLapsed, eider.EventDead); len(e) > 0 {
		t.Errorf("%v", e)
	}
	h.departure(t, fleet[0])
}

// departure has one instance leave a herd.
func (h herd) departure(t *testing.T, in *instance) {
	h.all(t, "views of the three again", func(a *animal) bool { return a.size.Load() == 3 && a.ros.View().Connected })
	in.hears(syscall.SIGTERM)
	r := in.awaitKind("report").Report
	if r.Waited != len(h) || r.Open != 0 || r.EndedBy != drain.ByBarrier || r.Exit != drain.ExitClean {
		t.Errorf("%v", r)
	}
	t.Logf("a departure waited for %d callers and paused %v", r.Waited, r.Pause.Round(time.Millisecond))
}
