package drain

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// ear hears signals from the leave on. A further SIGTERM changes nothing (D13), also when the user's own
// handler is gone by then. SIGINT ends the drain once there were two: the one that began it counts,
// as far as the context's cause tells.
type ear struct {
	enough chan struct{} // closed by the second SIGINT
	heard  chan os.Signal
	stop   chan struct{}
	done   chan struct{}
}

func listen(ctx context.Context, log *slog.Logger) *ear {
	e := &ear{enough: make(chan struct{}), heard: make(chan os.Signal, 8), stop: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(e.heard, os.Interrupt, syscall.SIGTERM)
	more := 2
	if cause := context.Cause(ctx); cause != nil && cause.Error() == os.Interrupt.String()+" signal received" {
		more = 1 // as signal.NotifyContext writes it, since Go 1.26
	}
	go func() {
		defer close(e.done)
		for {
			select {
			case <-e.stop:
				return
			case s := <-e.heard:
				if s != os.Interrupt {
					continue
				}
				switch more--; more {
				case 1:
					log.Info("leaving already; one more SIGINT ends it now and cuts what is in flight")
				case 0:
					close(e.enough)
				}
			}
		}
	}()
	return e
}

// now tells whether it shall end at once.
func (e *ear) now() bool { return closed(e.enough) }

func (e *ear) end() {
	signal.Stop(e.heard)
	close(e.stop)
	<-e.done
}
