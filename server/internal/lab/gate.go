package lab

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// gate is what a handler hangs at, as one does that waits for a lock or a pool: it hears neither of the client's end
// nor of anything else. SIGUSR1 shuts it, SIGUSR2 opens it.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil while it is open
}

// listen goes on until the process ends.
func (g *gate) listen() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range signals {
			g.turn(s == syscall.SIGUSR1)
		}
	}()
}

func (g *gate) turn(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.shut == nil:
		g.shut = make(chan struct{})
	case !shut && g.shut != nil:
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}
