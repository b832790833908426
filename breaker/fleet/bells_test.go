package fleet_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
)

// rings is a memory, and one bell.
type rings struct {
	*fleet.Memory
	t    *testing.T
	bell chan struct{}
}

func (r rings) rung() bool {
	select {
	case <-r.bell:
		return true
	default:
		return false
	}
}

func (r rings) put(key string, version uint64) uint64 {
	r.t.Helper()
	s, ok, err := r.Swap(r.t.Context(), key, version, []byte("open"))
	if !ok || err != nil {
		r.t.Fatal(ok, err)
	}
	return s.Version
}

// A bell rings with each version of each of its keys, waits for nobody, and no more once it is stopped.
func TestBellsRing(t *testing.T) {
	m := rings{fleet.NewMemory(0), t, make(chan struct{}, 1)}
	orders, again, tills := m.Ring("orders", m.bell), m.Ring("orders", m.bell), m.Ring("tills", m.bell)
	defer tills()
	if m.rung() || len(m.Keys()) != 0 || m.Bells("orders") != 1 {
		t.Errorf("before anything: keys %q, %d bells", m.Keys(), m.Bells("orders"))
	}
	version := m.put("orders", m.put("orders", 0)) // nobody hears the first
	if !m.rung() || m.rung() {
		t.Error("two versions at once ring once")
	}
	m.put("tills", 0)
	if !m.rung() {
		t.Error("another key of the same bell is silent")
	}
	orders()
	orders()
	version = m.put("orders", version)
	if !m.rung() || m.Bells("orders") != 1 {
		t.Error("stopped, a bell that was rung twice for a key is silent")
	}
	again()
	m.put("orders", version)
	if m.rung() || m.Bells("orders") != 0 {
		t.Error("a bell rings that was stopped")
	}
	if got := m.Keys(); !slices.Equal(got, []string{"orders", "tills"}) {
		t.Errorf("keys %q", got)
	}
}

func TestBellsRingForWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rings{fleet.NewMemory(1), t, make(chan struct{}, 1)}
		stop := m.Ring("orders", m.bell)
		m.put("orders", 0)
		m.rung()
		m.Flush()
		if !m.rung() || m.Look("orders", true).Version != 0 {
			t.Error("a flush is silent")
		}
		m.put("orders", 0)
		m.rung()
		time.Sleep(fleet.Keep)
		if s := m.Look("orders", false); s.Version != 0 {
			t.Errorf("after Keep: %+v", s)
		}
		m.put("tills", 0)
		if !m.rung() {
			t.Error("a key that made room is lost in silence")
		}
		stop()
		if m.Bells("orders") != 0 {
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
