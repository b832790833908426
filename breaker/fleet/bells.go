package fleet

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// bells are rung with each new version of a key, whether there is something of it yet or not.
type bells map[string]map[chan<- struct{}]int

func (b bells) ring(key string) {
	for bell := range b[key] {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// Ring has a bell rung with each new version of a key, until stop: for who watches many keys without a goroutine for each.
// Nobody waits for who is to hear it, so a bell has room for one; what has come is asked for by [Memory.Look].
func (m *Memory) Ring(key string, bell chan<- struct{}) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bells[key] == nil {
		m.bells[key] = map[chan<- struct{}]int{}
	}
	m.bells[key][bell]++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.bells[key][bell]--; m.bells[key][bell] == 0 {
			delete(m.bells[key], bell)
		}
		if len(m.bells[key]) == 0 {
			delete(m.bells, key)
		}
	})
}

// Bells is how many are rung for a key.
func (m *Memory) Bells(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.bells[key])
}

// Look returns what there is of a key, which isn't kept any longer for that.
func (m *Memory) Look(key string, all bool) Sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	k := m.keys[key]
	if k == nil || now.Sub(k.touched) >= Keep {
		return Sight{}
	}
	return k.sight(now, all)
}

// Keys returns the keys that anything was said of, in order.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.keys))
}
