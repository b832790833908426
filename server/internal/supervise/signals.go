package supervise

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Why a program leaves; the exit code if it never began.
var (
	errTerm = errors.New("SIGTERM")
	errInt  = errors.New(os.Interrupt.String() + " signal received") // as drain knows the first of two SIGINTs
	errHook = errors.New("a hook asked for it")
)

// forwarded are the signals that mean something to a program and nothing here. SIGURG is the Go runtime's own.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGALRM,
	syscall.SIGVTALRM, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGIO}

// listen hears signals from now on: first of all, since PID 1 without a handler isn't sent SIGTERM at all, and others
// die of it. What is ignored (nohup) stays so.
func listen() (heard, died chan os.Signal) {
	heard, died = make(chan os.Signal, 64), make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM, os.Interrupt)
	signal.Notify(died, syscall.SIGCHLD)
	for _, sig := range passed() {
		if !signal.Ignored(sig) {
			signal.Notify(heard, sig)
		}
	}
	return heard, died
}

// hear acts on signals until ctx ends: a first SIGTERM or SIGINT begins the departure, further SIGTERMs change nothing,
// a second SIGINT ends it; any other goes to the program, once.
func (s *supervisor) hear(ctx context.Context, heard <-chan os.Signal) {
	for interrupts := 0; ; {
		select {
		case <-ctx.Done():
			return
		case sig := <-heard:
			switch sig {
			case syscall.SIGTERM:
				s.begin(errTerm)
			case os.Interrupt:
				if interrupts++; interrupts == 2 {
					s.stop()
				}
				s.begin(errInt)
			default:
				s.forward(sig.(syscall.Signal))
			}
		}
	}
}

// forward passes a signal on to the program itself, which knows what its children should hear.
func (s *supervisor) forward(sig syscall.Signal) {
	s.mu.Lock()
	c := s.child
	s.mu.Unlock()
	if c == nil {
		s.log.Info("a signal comes while no program runs; it is dropped", "signal", sig.String())
		return
	}
	s.reaper.signal(c, sig, false)
}
