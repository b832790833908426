package fleet

import (
	"container/list"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a [Store] of one process: for tests, for a program that has several callers of one target, and what a node
// keeps for others.
type Memory struct {
	most int

	mu    sync.Mutex
	keys  map[string]*kept
	quiet *list.List // of all keys, longest untouched first
	bytes int        // that all keys take, about
	bells bells
}

type kept struct {
	key     string
	place   *list.Element // in quiet
	version uint64
	record  []byte
	written time.Time
	touched time.Time
	counts  []told        // by caller, in order
	changed chan struct{} // closed with the next version
	bells   bells
	bytes   int // of the Memory's
}

type told struct {
	Count
	at time.Time
}

// NewMemory makes an empty store. Most is how many keys it keeps, 0 means 10,000: one more is refused while none can be
// forgotten.
func NewMemory(most int) *Memory {
	return &Memory{most: orElse(most, 10_000), keys: map[string]*kept{}, quiet: list.New(), bells: bells{}}
}

// Tell is [Store.Tell].
func (m *Memory) Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error) {
	return m.TellFrom(ctx, key, caller, "", count, all)
}

// TellFrom is Tell, from somewhere: see [Count.From].
func (m *Memory) TellFrom(ctx context.Context, key, caller, from string, count []byte, all bool) (Sight, error) {
	if err := fits(ctx, key, caller, count); err != nil {
		return Sight{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.keys[key] == nil && len(count) == 0 {
		return Sight{}, nil // nothing is kept of who only asks
	}
	k, err := m.at(key, now)
	if err != nil {
		return Sight{}, err
	}
	m.touch(k, now)
	k.tell(now, told{Count{Caller: caller, From: from, Count: slices.Clone(count)}, now}, m.bytes < mostKept)
	m.weigh(k)
	return k.sight(now, all), nil
}

// mostKept is how many bytes all keys may take before counts that need more aren't kept: as if their callers were too many.
const mostKept = 256 << 20

// weigh reckons what a key takes.
func (m *Memory) weigh(k *kept) {
	const each = 128 // of what holds a key or a count
	bytes := each + len(k.key) + len(k.record)
	for _, t := range k.counts {
		bytes += each + len(t.Caller) + len(t.From) + len(t.Count.Count)
	}
	m.bytes += bytes - k.bytes
	k.bytes = bytes
}

func (k *kept) tell(now time.Time, t told, room bool) {
	k.counts = slices.DeleteFunc(k.counts, func(t told) bool { return now.Sub(t.at) >= KeepCounts })
	i, found := slices.BinarySearchFunc(k.counts, t.Caller, func(a told, name string) int { return strings.Compare(a.Caller, name) })
	switch {
	case found && len(t.Count.Count) == 0:
		k.counts = slices.Delete(k.counts, i, i+1)
	case found && (room || len(t.Count.Count) <= len(k.counts[i].Count.Count)):
		k.counts[i] = t
	case !found && room && len(t.Count.Count) > 0 && len(k.counts) < MostCallers:
		k.counts = slices.Insert(k.counts, i, t)
	}
}

// Swap is [Store.Swap].
func (m *Memory) Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error) {
	if err := fits(ctx, key, "", record); err != nil {
		return Sight{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	k, err := m.at(key, now)
	if err != nil {
		return Sight{}, false, err
	}
	if k.version != version {
		return k.sight(now, false), false, nil
	}
	m.touch(k, now)
	k.put(now, slices.Clone(record))
	m.weigh(k)
	return k.sight(now, false), true, nil
}

// Watch is [Store.Watch].
func (m *Memory) Watch(ctx context.Context, key string) iter.Seq2[Sight, error] {
	return func(yield func(Sight, error) bool) {
		if err := fits(ctx, key, "", nil); err != nil {
			yield(Sight{}, err)
			return
		}
		for ctx.Err() == nil {
			m.mu.Lock()
			now := time.Now()
			k, err := m.at(key, now)
			if err != nil {
				m.mu.Unlock()
				yield(Sight{}, err)
				return
			}
			seen, changed := k.sight(now, false), k.changed
			m.mu.Unlock()
			if !yield(seen, nil) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		yield(Sight{}, ctx.Err())
	}
}

// Flush forgets everything, as a store does that is started anew without its disk.
func (m *Memory) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		k.forget()
		m.weigh(k)
	}
}

// at is the place of a key, with the lock held. What is too old is forgotten when somebody looks.
func (m *Memory) at(key string, now time.Time) (*kept, error) {
	k := m.keys[key]
	switch {
	case k == nil:
		if len(m.keys) >= m.most && !m.makeRoom(now) {
			return nil, fmt.Errorf("fleet breakers: this store keeps %d keys, and none has been quiet for %v: use fewer keys, one for each target, or raise the bound", m.most, Keep)
		}
		k = &kept{key: key, touched: now, changed: make(chan struct{}), bells: m.bells}
		k.place = m.quiet.PushBack(k)
		m.keys[key] = k
		m.weigh(k)
	case k.version != 0 && now.Sub(k.touched) >= Keep:
		k.forget()
		m.weigh(k)
	}
	return k, nil
}

func (m *Memory) touch(k *kept, now time.Time) {
	k.touched = now
	m.quiet.MoveToBack(k.place)
}

// makeRoom forgets the key that was longest quiet, if nobody has touched it for Keep. It looks at no other, however many
// are kept: those who ask too much of a full store cost it nothing.
func (m *Memory) makeRoom(now time.Time) bool {
	front := m.quiet.Front()
	if front == nil {
		return false
	}
	k := front.Value.(*kept)
	if now.Sub(k.touched) < Keep {
		return false
	}
	m.quiet.Remove(front)
	delete(m.keys, k.key)
	k.forget()
	m.bytes -= k.bytes
	return true
}

func (k *kept) put(now time.Time, record []byte) {
	k.version, k.record, k.written = rand.Uint64()|1, record, now
	k.turn()
}

func (k *kept) forget() {
	k.version, k.record, k.counts = 0, nil, nil
	k.turn()
}

// turn tells who watches.
func (k *kept) turn() {
	close(k.changed)
	k.changed = make(chan struct{})
	k.bells.ring(k.key)
}

func (k *kept) sight(now time.Time, all bool) Sight {
	s := Sight{Version: k.version}
	if k.version != 0 {
		s.Record, s.Age = k.record, now.Sub(k.written)
	}
	if all {
		s.Counts = make([]Count, len(k.counts))
		for i, t := range k.counts {
			s.Counts[i] = t.Count
			s.Counts[i].Age = now.Sub(t.at)
		}
	}
	return s
}

func fits(ctx context.Context, key, caller string, bytes []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case key == "":
		return fmt.Errorf("fleet breakers: a key is empty: name the target")
	case len(key) > MostBytes, len(caller) > MostBytes, len(bytes) > MostBytes:
		return fmt.Errorf("fleet breakers: a key of %d bytes, a caller's name of %d, and %d more: none may be longer than %d", len(key), len(caller), len(bytes), MostBytes)
	}
	return nil
}
