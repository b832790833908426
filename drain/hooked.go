package drain

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/control"
)

// errAsked ends the context of a drain that a hook begins.
var errAsked = errors.New("a hook asks this process to leave")

// hooked is a drain as hooks see it: they ask it to leave, which ends its context as a signal would.
type hooked struct {
	ctx     context.Context
	stop    context.CancelCauseFunc
	service string

	mu     sync.Mutex
	left   chan struct{}
	answer control.Answer // once it has left
}

func newHooked(ctx context.Context, service string) *hooked {
	h := &hooked{service: service, left: make(chan struct{})}
	h.ctx, h.stop = context.WithCancelCause(ctx)
	return h
}

// Leave begins the departure.
func (h *hooked) Leave() { h.stop(errAsked) }

// Left is closed when the pause is over.
func (h *hooked) Left() <-chan struct{} { return h.left }

// Outcome tells how it stands.
func (h *hooked) Outcome() control.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case closed(h.left):
		return h.answer
	case h.ctx.Err() != nil:
		return control.Answer{State: control.Leaving, Services: h.services()}
	}
	return control.Answer{State: control.Serving, Services: h.services()}
}

func (h *hooked) services() []string {
	if h.service == "" {
		return nil
	}
	return []string{h.service}
}

// leaves tells that the pause is over, the first time. A nil hooked is none.
func (h *hooked) leaves(r Report) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if closed(h.left) {
		return
	}
	h.answer = control.Answer{State: control.Left, Services: h.services(), Pause: r.Pause, EndedBy: string(r.EndedBy), Waited: r.Waited, Open: r.Open}
	close(h.left)
}

// live serves and leaves, when ctx ends or a hook asks for it. The hooks are answered before it returns.
func (d *drainer) live(ctx context.Context) (Report, error) {
	if d.set.Control == "" && d.set.Hook == "" {
		return d.through(ctx)
	}
	h := newHooked(ctx, d.set.Service)
	defer h.stop(nil)
	srv, err := control.Listen(d.set.Control, d.set.Hook, h, d.log)
	if err != nil {
		if d.set.Listener != nil {
			d.set.Listener.Close()
		}
		kind := eider.Invalid
		if errors.Is(err, syscall.EADDRINUSE) {
			kind = eider.Conflict
		}
		return Report{}, &eider.Error{Op: d.op("listen to hooks"), Kind: kind, Err: err}
	}
	d.log.Info("hooks may ask this process to leave", "service", d.set.Service, "control", d.set.Control, "hook", srv.Addr())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Run(context.WithoutCancel(ctx)); err != nil {
			d.log.Error("hooks aren't heard any more; a signal still ends this process", "service", d.set.Service, "err", err)
		}
	}()
	d.hooked = h
	r, err := d.through(h.ctx)
	h.leaves(r)
	srv.Close()
	<-done
	return r, err
}
