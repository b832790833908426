package drain

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// fronted is one Before under test, and the program behind it.
type fronted struct {
	*run
	ended    chan error    // as Program.Ended
	finishes chan struct{} // a value for each Finish
	finish   chan struct{} // closed: it may return
	budget   time.Duration // what Finish was granted; to be read after finishes
}

func startBefore(t *testing.T, handler http.HandlerFunc, tune func(*Config, *Program)) *fronted {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	f := &fronted{run: &run{t: t, addr: ln.Addr().String(), reg: newScript(), stop: stop, result: make(chan result, 1)},
		ended: make(chan error, 1), finishes: make(chan struct{}, 9), finish: make(chan struct{})}
	cfg := Config{Service: "orders", ID: "1", Listener: ln, Logger: slog.New(slog.DiscardHandler), Silent: -1, Round: -1, Unknown: -1}
	p := Program{Ended: f.ended, Finish: func(ctx context.Context) {
		if until, ok := ctx.Deadline(); ok {
			f.budget = time.Until(until)
		}
		f.finishes <- struct{}{}
		select {
		case <-f.finish:
		case <-ctx.Done():
		}
	}}
	if tune != nil {
		tune(&cfg, &p)
	}
	go func() {
		report, err := before(ctx, &http.Server{Handler: handler}, cfg, p, f.reg)
		f.result <- result{report, err}
	}()
	t.Cleanup(stop)
	soon(t, f.reg.known, "the registration")
	return f
}

// Requests are counted and told by the server before the program, which is finished once nothing is in flight any more,
// and LEFT is said when it has ended.
func TestBeforeFinishesTheProgramOnceNothingIsInFlight(t *testing.T) {
	let := make(chan struct{})
	in := make(chan struct{}, 1)
	f := startBefore(t, func(w http.ResponseWriter, r *http.Request) { in <- struct{}{}; <-let; hello(w, r) }, nil)
	p := f.dial()
	p.send("/")
	soon(t, in, "the request")
	f.leave()
	f.barrier()
	f.unlistened()
	select {
	case <-f.finishes:
		t.Fatal("the program is finished while a request is in flight")
	default:
	}
	close(let)
	resp, _ := p.answer()
	told(t, resp)
	soon(t, f.finishes, "Finish")
	f.reg.mu.Lock()
	if f.reg.left > 0 {
		t.Error("LEFT, and the program hasn't ended")
	}
	f.reg.mu.Unlock()
	if f.budget <= 0 || f.budget > 20*time.Second {
		t.Errorf("it has %v to end, want what is left of 20s", f.budget)
	}
	close(f.finish)
	if r := f.end(); !r.Left || r.Exit != ExitClean || r.Killed || r.CutCount > 0 {
		t.Errorf("%+v", r)
	}
}

// What took all of the in-flight deadline leaves the program its half second.
func TestBeforeTellsAProgramWhoseRequestsOverran(t *testing.T) {
	in := make(chan struct{}, 1)
	f := startBefore(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		in <- struct{}{}
		<-r.Context().Done()
	}, func(cfg *Config, _ *Program) { cfg.InFlight = 10 * time.Millisecond })
	f.dial().send("/")
	soon(t, in, "the request")
	f.leave()
	f.barrier()
	soon(t, f.finishes, "Finish")
	if f.budget < toldAtLeast/2 {
		t.Errorf("it has %v to end", f.budget)
	}
	close(f.finish)
	if r := f.end(); r.OverranCount != 1 || r.Killed || r.Exit != ExitLoss {
		t.Errorf("%+v", r)
	}
}

// With a crash nothing is left to the registry but a port that is shut.
func TestBeforeACrashIsNoLeave(t *testing.T) {
	in := make(chan struct{}, 1)
	f := startBefore(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		in <- struct{}{}
		<-r.Context().Done()
	}, nil)
	p := f.dial()
	p.send("/")
	soon(t, in, "the request")
	crash := errors.New("exit status 3")
	f.ended <- crash
	res := soon(t, f.result, "Before's return")
	if !errors.Is(res.err, crash) || eider.KindOf(res.err) != eider.Unavailable || res.report.Left || res.report.Exit != ExitLoss || res.report.ID != "1" {
		t.Errorf("%v, %+v", res.err, res.report)
	}
	p.closed()
	if _, err := net.Dial("tcp", f.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port isn't shut: %v", err)
	}
	select {
	case <-f.reg.leave:
		t.Error("it left")
	case <-f.finishes:
		t.Error("Finish was called")
	default:
	}
}

// A planned end, before the leave or after it, ends the pause: nobody could answer.
func TestBeforeAPlannedEndEndsThePause(t *testing.T) {
	for name, left := range map[string]bool{"by itself": false, "while leaving": true} {
		t.Run(name, func(t *testing.T) {
			f := startBefore(t, hello, nil)
			close(f.finish)
			if left {
				f.leave()
			}
			f.ended <- nil
			r := f.end()
			if r.EndedBy != ByServer || !r.Left || r.Exit != ExitClean || r.Pause > patience/2 {
				t.Errorf("%+v", r)
			}
			soon(t, f.finishes, "Finish") // what it has started may run on
		})
	}
}

func TestBeforeThatIsNeverToServe(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	finished := 0
	r, err := Before(ctx, &http.Server{}, Config{Listener: ln, Logger: slog.New(slog.DiscardHandler)}, Program{Finish: func(context.Context) { finished++ }})
	if err != nil || r.EndedBy != ByNoCallers || finished != 1 {
		t.Errorf("%v, finished %d times, %+v", err, finished, r)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("its listener stays")
	}
	if _, err := Before(ctx, &http.Server{}, Config{}, Program{}); eider.KindOf(err) != eider.Invalid {
		t.Errorf("without Finish: %v", err)
	}
}
