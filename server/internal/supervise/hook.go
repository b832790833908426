package supervise

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/internal/control"
)

// hooked is the departure as hooks see it: of all services, whichever run of the program it is.
type hooked struct {
	s *supervisor

	mu     sync.Mutex
	left   chan struct{}  // closed when the last pause is over
	answer control.Answer // as it stands, of the pauses that are over
}

func newHooked(s *supervisor) *hooked { return &hooked{s: s, left: make(chan struct{})} }

// Leave begins the departure.
func (h *hooked) Leave() { h.s.begin(errHook) }

// Left is closed when the pause of each service is over.
func (h *hooked) Left() <-chan struct{} { return h.left }

// Outcome tells how it stands.
func (h *hooked) Outcome() control.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.answer
	switch {
	case closed(h.left):
		a.State = control.Left
	case h.s.leave.Err() != nil:
		a = control.Answer{State: control.Leaving}
	default:
		a = control.Answer{State: control.Serving}
	}
	for _, service := range h.s.Services {
		a.Services = append(a.Services, eider.FoldService(service.Name))
	}
	return a
}

// paused adds one service's pause.
func (h *hooked) paused(r drain.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Pause >= h.answer.Pause {
		h.answer.Pause, h.answer.EndedBy = r.Pause, string(r.EndedBy)
	}
	h.answer.Waited += r.Waited
	h.answer.Open += r.Open
}

// leaves tells that all are over; also when there was none.
func (h *hooked) leaves() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !closed(h.left) {
		close(h.left)
	}
}

// listenToHooks hears hooks until the returned function is called, which answers those who wait.
func (s *supervisor) listenToHooks() (end func(), err error) {
	if s.Control == "" && s.Hook == "" {
		return func() {}, nil
	}
	srv, err := control.Listen(s.Control, s.Hook, s.hooked, s.log)
	if err != nil {
		kind := eider.Invalid
		if errors.Is(err, syscall.EADDRINUSE) {
			kind = eider.Conflict
		}
		return nil, &eider.Error{Op: "run: listen to hooks", Kind: kind, Err: err}
	}
	s.log.Info("hooks may ask this process to leave", "control", s.Control, "hook", srv.Addr())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Run(context.Background()); err != nil {
			s.log.Error("hooks aren't heard any more; a signal still ends this process", "err", err)
		}
	}()
	return func() {
		s.hooked.leaves()
		srv.Close()
		<-done
	}, nil
}
