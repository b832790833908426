// Package registrytest is the suite that every replica.Registry passes.
//
// Each case runs in a testing/synctest bubble: a lease of 20 s costs nothing, and "at once" means
// without any time passing. Cases that come from docs/cases.md carry its id in their name.
package registrytest

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// The defaults that the suite holds a registry to.
const (
	lease    = 20 * time.Second
	beat     = 2 * time.Second
	doubted  = 5 * time.Second // silent for this long: suspect
	longest  = 8 * time.Second // a drain waits no longer for one caller
	travel   = 5 * time.Millisecond
	progress = 100 * time.Millisecond
	moment   = time.Nanosecond // in a bubble: once everybody else has nothing left to do
)

// Setup is what a case wants of the registry that it opens: the defaults, and this.
type Setup struct {
	Fresh bool                                            // nobody came before
	Dial  func(ctx context.Context, address string) error // instead of TCP
}

// Run holds a registry to the contract. open makes one that hasn't run; the suite runs it.
func Run(t *testing.T, open func(t *testing.T, s Setup) replica.Registry) {
	for _, c := range slices.Concat(streamCases, instanceCases, evidenceCases, viewCases, drainCases, pollerCases, shownCases, unknownCases, hungCases, holdCases, readerCases, verdictCases) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, answers: make(map[string]error)}
				w.reg = open(t, Setup{Fresh: !c.cold, Dial: w.dial})
				defer w.stop()
				if !c.unstarted {
					w.start()
				}
				c.run(w)
			})
		})
	}
}

// testCase is one promise.
type testCase struct {
	name      string
	run       func(*world)
	cold      bool // not fresh: somebody may have come before
	unstarted bool // the case starts the registry itself
}

// world is one registry, the network around it, and the processes that use it.
type world struct {
	*testing.T
	reg    replica.Registry
	cancel context.CancelFunc
	ended  chan error
	procs  []*process

	mu      sync.Mutex
	answers map[string]error // what a dial meets; nil accepts, not listed refuses
	dialled []string
}

func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.ended = cancel, make(chan error, 1)
	go func() { w.ended <- w.reg.Run(ctx) }()
	synctest.Wait()
}

// stop ends the registry and all processes; again is fine.
func (w *world) stop() {
	w.Helper()
	for _, p := range w.procs {
		p.silence()
	}
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.cancel = nil
	if err := <-w.ended; err != nil {
		w.Errorf("Run returns %v, want nil when its context ends", err)
	}
}

// pass lets the bubble's time go by, and then everybody act.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var errSilent = errors.New("no answer") // a port that neither accepts nor refuses

func (w *world) dial(ctx context.Context, address string) error {
	w.mu.Lock()
	answer, listed := w.answers[address]
	w.dialled = append(w.dialled, address)
	w.mu.Unlock()
	if !listed {
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if answer == errSilent {
		<-ctx.Done()
		return ctx.Err()
	}
	return answer
}

// port says what dials of an address meet from now on: accepted, or refused.
func (w *world) port(address string, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.answers, address)
	if open {
		w.answers[address] = nil
	}
}

func (w *world) dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dialled)
}

// must ends the case on an error.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// kind holds an error to a kind.
func (w *world) kind(what string, err error, want eider.Kind) {
	w.Helper()
	if err == nil || eider.KindOf(err) != want {
		w.Errorf("%s: %v (%s), want an error that is %s", what, err, eider.KindOf(err), want)
	}
}

// view returns what the registry says of a service.
func (w *world) view(service string) *eider.View {
	w.Helper()
	v, ok := w.reg.View(service)
	if !ok {
		w.Fatalf("the registry has never heard of %s", service)
	}
	return v
}

// status returns where the registry says that an instance stands, gone or not.
func (w *world) status(service, id string) (eider.Status, eider.Suspicion) {
	w.Helper()
	return statusIn(w.view(service), id)
}

func statusIn(v *eider.View, id string) (eider.Status, eider.Suspicion) {
	if in, ok := v.Find(id); ok {
		return in.Status, in.Suspicion
	}
	for _, g := range v.Gone {
		if g.ID == id {
			return g.Status, 0
		}
	}
	return eider.StatusUnknown, 0
}

// stands holds an instance to a status and suspicion.
func (w *world) stands(service, id string, status eider.Status, doubts eider.Suspicion) {
	w.Helper()
	if s, d := w.status(service, id); s != status || d != doubts {
		w.Errorf("%s/%s is %s (%s), want %s (%s)", service, id, s, d, status, doubts)
	}
}

// drain returns the one drain of a service.
func (w *world) drain(service string) eider.Drain {
	w.Helper()
	ds := w.reg.Drains(service)
	if len(ds) != 1 {
		w.Fatalf("%d drains of %s, want 1: %+v", len(ds), service, ds)
	}
	return ds[0]
}

// happened counts the events of a kind, about an instance unless id is "".
func (w *world) happened(kind eider.EventKind, id string) (n int, last time.Time) {
	events, _ := w.reg.Events(0)
	for _, e := range events {
		if e.Kind == kind && (id == "" || e.ID == id) {
			n, last = n+1, e.Time
		}
	}
	return n, last
}
