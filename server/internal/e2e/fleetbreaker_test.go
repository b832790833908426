package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/node"
)

// team are callers of one key, each with a connection of its own.
type team struct {
	t   *testing.T
	all []*fleet.Breaker
}

func startTeam(t *testing.T, grpc string, n int, set fleet.Config) team {
	t.Helper()
	var all []*fleet.Breaker
	for i := range n {
		reg := registry.Open(registry.Config{Addr: grpc, Caller: fmt.Sprint("checkout", i), Logger: quiet})
		c := set
		c.Store, c.Caller = reg.Fleet(), reg.Caller()
		b, err := fleet.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(); reg.Close() })
		all = append(all, b)
		if err := b.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	m := team{t, all}
	m.await("together", func(s fleet.Snapshot) bool { return !s.Alone })
	return m
}

func (m team) await(what string, ok func(fleet.Snapshot) bool) time.Duration {
	m.t.Helper()
	begun := time.Now()
	for i, b := range m.all {
		for !ok(b.Snapshot()) {
			if time.Since(begun) > patience {
				m.t.Fatalf("caller %d isn't %s: %+v", i, what, b.Snapshot())
			}
			<-time.After(time.Millisecond)
		}
	}
	return time.Since(begun)
}

var errBad = errors.New("503")

// TestAnOperatorSeesAndForcesWhatCallersShare: callers open together, eider breakers says by which numbers, and an
// operator's word reaches them all.
func TestAnOperatorSeesAndForcesWhatCallersShare(t *testing.T) {
	n := startNode(t, node.Settings{})
	m := startTeam(t, n.grpc, 4, fleet.Config{Key: "orders", OpenFor: time.Minute, Ramp: -1})
	shows := n.shows(t)
	shows("breakers orders", "orders closed")
	begun := time.Now()
	for m.all[0].Snapshot().State != breaker.Open {
		if time.Since(begun) > patience {
			t.Fatalf("it never opens: %+v", m.all[0].Snapshot())
		}
		for _, b := range m.all {
			b.Do(t.Context(), func(context.Context) error { return errBad })
		}
		<-time.After(5 * time.Millisecond)
	}
	m.await("open", func(s fleet.Snapshot) bool { return s.State == breaker.Open })
	s := m.all[0].Snapshot()
	why := fmt.Sprintf("orders open %d of %d calls failed %d of 4", s.Count, s.Of, s.Seers)
	shows("breakers orders", why, "in 5")
	shows("breakers", why)
	shows("events", "breaker open orders", fmt.Sprintf("%d of %d calls failed, as %d of them saw", s.Count, s.Of, s.Seers))

	for _, row := range []struct {
		do      string
		state   breaker.State
		lets    bool
		says    string
		becomes string
	}{
		{"close", breaker.ForcedClosed, true, "orders lets every call through, and counts none: 4 callers watch it.", "orders forced closed"},
		{"open", breaker.ForcedOpen, false, "orders rejects every call: 4 callers watch it.", "orders forced open by hand"},
		{"reset", breaker.Closed, true, "orders is closed, and counts anew: 4 callers watch it.", "orders closed"},
	} {
		shows("breakers "+row.do+" orders", row.says)
		took := m.await(row.state.String(), func(s fleet.Snapshot) bool { return s.State == row.state })
		t.Logf("%s: all had it %v after the command", row.do, took)
		shows("breakers orders", row.becomes)
		shows("events", row.do+" the breaker that callers share")
		for i, b := range m.all {
			if err := b.Do(t.Context(), func(context.Context) error { return nil }); (err == nil) != row.lets {
				t.Errorf("%s: caller %d: %v", row.do, i, err)
			}
		}
	}
}
