package fleet_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
)

// A bell rings with each version of each of its keys, waits for nobody, and no more once it is stopped.
func TestBellsRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(2)
		bell := make(chan struct{}, 1)
		rung := func() bool {
			select {
			case <-bell:
				return true
			default:
				return false
			}
		}
		put := func(key string, version uint64) uint64 {
			t.Helper()
			s, ok, err := m.Swap(t.Context(), key, version, []byte("open"))
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			return s.Version
		}
		orders, again, tills := m.Ring("orders", bell), m.Ring("orders", bell), m.Ring("tills", bell)
		if rung() || len(m.Keys()) != 0 || m.Bells("orders") != 1 {
			t.Errorf("before anything: keys %q, %d bells", m.Keys(), m.Bells("orders"))
		}
		version := put("orders", put("orders", 0)) // nobody hears the first
		if !rung() || rung() {
			t.Error("two versions at once ring once")
		}
		put("tills", 0)
		if !rung() {
			t.Error("another key of the same bell is silent")
		}
		orders()
		orders()
		version = put("orders", version)
		if !rung() || m.Bells("orders") != 1 {
			t.Error("stopped, a bell that was rung twice for a key is silent")
		}
		again()
		put("orders", version)
		if rung() || m.Bells("orders") != 0 {
			t.Error("a bell rings that was stopped")
		}
		m.Flush()
		if !rung() || m.Look("tills", true).Version != 0 {
			t.Error("a flush is silent")
		}
		put("tills", 0)
		rung()
		if got := m.Keys(); !slices.Equal(got, []string{"orders", "tills"}) {
			t.Errorf("keys %q", got)
		}
		time.Sleep(fleet.Keep)
		if s := m.Look("tills", false); s.Version != 0 {
			t.Errorf("after Keep: %+v", s)
		}
		put("new", 0)
		put("newer", 0)
		if !rung() {
			t.Error("a key that made room is lost in silence")
		}
		tills()
		if m.Bells("tills") != 0 {
			t.Error("a bell is left")
		}
	})
}

func TestLookKeepsNothingLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(0)
		if _, _, err := m.Swap(t.Context(), "orders", 0, []byte("open")); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Tell(t.Context(), "orders", "a", []byte("1"), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := m.Look("orders", true); string(s.Record) != "open" || s.Age != time.Second || len(s.Counts) != 1 || s.Counts[0].Caller != "a" {
			t.Errorf("%+v", s)
		}
		if s := m.Look("orders", false); len(s.Counts) != 0 {
			t.Errorf("%+v", s)
		}
		for range 4 {
			time.Sleep(fleet.Keep / 4)
			m.Look("orders", true)
		}
		if s := m.Look("orders", true); s.Version != 0 {
			t.Errorf("looked at, and kept: %+v", s)
		}
	})
}
