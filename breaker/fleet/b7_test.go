package fleet

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider/breaker"
)

// target is a dependency that counts how many calls are there at once.
type target struct {
	mu    sync.Mutex
	down  bool
	there int
	most  int // since it was last asked
}

func (d *target) call(context.Context) error {
	d.mu.Lock()
	d.there++
	d.most = max(d.most, d.there)
	down := d.down
	d.mu.Unlock()
	pass(20 * time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.there--; down {
		return errDown
	}
	return nil
}

func (d *target) set(down bool) (most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, d.most, d.down = d.most, d.there, down
	return most
}

// B5, B7: fifty callers trip together, and one of them tries, while it is down and when it is back.
func TestB7FiftyCallersProbeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &target{}
		all := callers(t, 50, Config{Store: NewMemory(0)})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for _, b := range all {
			wg.Go(func() {
				for ctx.Err() == nil {
					_ = b.Do(ctx, d.call)
					pass(100 * time.Millisecond)
				}
			})
		}
		pass(5 * time.Second)
		d.set(true)
		pass(2 * time.Second)
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Open {
				t.Fatalf("caller %d isn't open: %+v", i, s)
			}
		}
		d.set(true)
		pass(20 * time.Second)
		if most := d.set(false); most != 1 {
			t.Fatalf("%d calls at once while it was down, want one", most)
		}
		for range 60_000 { // a minute, looked at each millisecond
			if s := all[0].Snapshot(); s.State == breaker.Ramping {
				break
			}
			if most := d.set(false); most > 1 {
				t.Fatalf("%d calls at once while it came back, want one", most)
			}
			pass(time.Millisecond)
		}
		pass(5*time.Second + time.Millisecond)
		for i, b := range all {
			if s := b.Snapshot(); s.State != breaker.Closed {
				t.Errorf("caller %d isn't closed: %+v", i, s)
			}
		}
	})
}
