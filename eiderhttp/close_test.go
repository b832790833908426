package eiderhttp

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/fake"
)

// parting is a store that answers nobody who leaves until all have come.
type parting struct {
	*fleet.Memory
	ends   atomic.Bool   // from now on who watches no longer, leaves
	left   sync.Map      // the keys that are watched no longer
	come   chan struct{} // one is put in by each who leaves
	all    chan struct{} // closed once all have come
	missed atomic.Int64  // how many have given up before
}

func (p *parting) Tell(ctx context.Context, key, caller string, count []byte, all bool) (fleet.Sight, error) {
	if _, leaves := p.left.Load(key); leaves && ctx.Err() == nil {
		p.come <- struct{}{}
		select {
		case <-p.all:
		case <-ctx.Done():
			p.missed.Add(1)
			return fleet.Sight{}, ctx.Err()
		}
	}
	return p.Memory.Tell(ctx, key, caller, count, all)
}

func (p *parting) Watch(ctx context.Context, key string) iter.Seq2[fleet.Sight, error] {
	return func(yield func(fleet.Sight, error) bool) {
		p.Memory.Watch(ctx, key)(yield)
		if p.ends.Load() {
			p.left.Store(key, true)
		}
	}
}

// TestAllFleetsAreLeftAtOnce: a store that hangs is waited for once, not once for each service.
func TestAllFleetsAreLeftAtOnce(t *testing.T) {
	services := []string{"orders", "stock", "users"}
	store := &parting{Memory: fleet.NewMemory(0), come: make(chan struct{}, 100), all: make(chan struct{})}
	m := together(t, 1, fleet.Config{Store: store}, plain, fake.Up("orders", "a", "127.0.0.9:1"))[0]
	for _, name := range services {
		svc, err := m.tr.service(name)
		if err != nil {
			t.Fatal(err)
		}
		pass, err := svc.gate.Ask(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		pass.Settle(breaker.Neutral)
		m.until("joined", func() bool { return !svc.gate.Snapshot().Alone })
	}
	store.ends.Store(true)
	go func() {
		for range services {
			<-store.come
		}
		close(store.all)
	}()
	if err := m.tr.Close(); err != nil {
		t.Error(err)
	}
	if n := store.missed.Load(); n != 0 {
		t.Errorf("%d have given up before the others came", n)
	}
}

// TestAGuardGoesOnWhileItCloses: hosts are forgotten while somebody waits for those that had a fleet. The race detector tells.
func TestAGuardGoesOnWhileItCloses(t *testing.T) {
	store := &parting{Memory: fleet.NewMemory(0), come: make(chan struct{}, 100), all: make(chan struct{})}
	g := &Guard{Next: answering(200, strings.NewReader("yes")), Hosts: 1, Fleet: &fleet.Config{Store: store, Lease: forHours, Wait: patience / 4}}
	if err := through(t, g, "a"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); g.hosts["a"].gate.Snapshot().Alone; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never joined")
		}
	}
	store.ends.Store(true)
	closed := make(chan struct{}, 2)
	for range cap(closed) {
		go func() {
			g.Close()
			closed <- struct{}{}
		}()
	}
	<-store.come
	close(store.all)
	for i := range 1000 {
		if err := through(t, g, fmt.Sprint("b", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range cap(closed) {
		<-closed
	}
}
