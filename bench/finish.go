package bench

import (
	"errors"
	"sync/atomic"
	"time"
)

// finish waits for the last of many: one round at a time.
type finish struct {
	left atomic.Int64
	done chan struct{}
}

func (f *finish) expect(n int) {
	f.done = make(chan struct{})
	f.left.Store(int64(n))
}

func (f *finish) one() {
	if f.left.Add(-1) == 0 {
		close(f.done)
	}
}

func (f *finish) wait() error {
	select {
	case <-f.done:
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("not everybody has the change after 20 s")
	}
}
