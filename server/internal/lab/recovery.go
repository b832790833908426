package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	fleetbreaker "github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/internal/recovery"
	"github.com/eiderhq/eider/registry"
)

// Recovery is the scene recovery, by whose breakers they are.
type Recovery struct {
	Local   recovery.Result `json:"local"`   // each caller's own, as most people ship it
	Guarded recovery.Result `json:"guarded"` // each caller's own, as package breaker has it
	Fleet   recovery.Result `json:"fleet"`   // one for all of them
	Watched float64         `json:"watched_s"`
	Details []string        `json:"details,omitempty"` // of callers that lost the registry
	Setup   string          `json:"setup"`
}

// playRecovery plays one outage three times at once, each with callers and a dependency of its own.
func playRecovery(ctx context.Context, o *Options, show *display) (*Recovery, error) {
	watch := 30 * time.Second
	if o.Short {
		watch = 8 * time.Second
	}
	show.say(fmt.Sprintf("recovery: a registry, and three times %d callers; it takes about %v …", recovery.Callers, watch+4*time.Second))
	f, err := plan{way: wayEider}.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	r := &Recovery{Watched: watch.Seconds(), Setup: fmt.Sprintf("%d callers, %d calls/s each; what they call is down until every breaker is open, for %s the first time; back, it bears %d calls at once until its first answer, which takes %s; each answer lets it bear 5 more; one too many is a relapse: it dies with all that are in it",
		recovery.Callers, time.Second/recovery.Every, duration(milliseconds(recovery.OpenFor)), recovery.AtOnce, duration(milliseconds(recovery.ColdWork)))}
	shared := &sharing{grpc: f.grpc}
	defer shared.close()
	var wg sync.WaitGroup
	var errs [3]error
	for i, way := range []struct {
		guard recovery.Guard
		to    *recovery.Result
	}{{recovery.Local, &r.Local}, {recovery.Guarded, &r.Guarded}, {recovery.Fleet(shared.store, shared.hear), &r.Fleet}} {
		wg.Go(func() {
			*way.to, errs[i] = recovery.Scene{Guard: way.guard, Reach: overHTTP, Watch: watch, Seed: o.Seed}.Play(ctx)
		})
	}
	wg.Wait()
	r.Details = shared.details
	return r, errors.Join(errs[:]...)
}

// sharing is what callers need that share a breaker: each has a handle and a connection of its own.
type sharing struct {
	grpc    string
	handles []*registry.Registry
	mu      sync.Mutex
	details []string
}

func (s *sharing) store(caller int) fleetbreaker.Store {
	reg := registry.Open(registry.Config{Addr: s.grpc, Caller: fmt.Sprint("caller-", caller), Logger: slog.New(slog.DiscardHandler)})
	s.handles = append(s.handles, reg)
	return reg.Fleet()
}

func (s *sharing) hear(ev fleetbreaker.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev.Parted != nil && len(s.details) < 5 {
		s.details = append(s.details, ev.Parted.Error())
	}
}

func (s *sharing) close() {
	var wg sync.WaitGroup
	for _, reg := range s.handles {
		wg.Go(func() { reg.Close() })
	}
	wg.Wait()
}

// overHTTP puts a dependency behind a server. Who is in it when it dies has his connection cut.
func overHTTP(d *recovery.Dependency) (call func(context.Context) error, end func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch err := d.Call(req.Context()); err {
		case nil:
		case recovery.ErrDown:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			panic(http.ErrAbortHandler)
		}
	})}
	go srv.Serve(ln)
	transport := &http.Transport{MaxIdleConnsPerHost: recovery.Callers}
	client := &http.Client{Transport: transport}
	call = func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+ln.Addr().String(), http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return err
	}
	return call, func() { srv.Close(); transport.CloseIdleConnections() }, nil
}

// broken holds it to B5 and B7: that callers who don't know of each other push it over is the reason for all the rest.
func (r *Recovery) broken() (out []string) {
	say := func(format string, args ...any) { out = append(out, "recovery: "+fmt.Sprintf(format, args...)) }
	if r.Local.Parallel <= recovery.AtOnce || r.Local.Relapses == 0 {
		say("breakers of their own let %d probes in at once and pushed it over %d times: nothing was shown", r.Local.Parallel, r.Local.Relapses)
	}
	if r.Fleet.Parallel != 1 {
		say("the fleet's breaker let %d probes in at once, not one (%s)", r.Fleet.Parallel, joined(r.Details))
	}
	if r.Fleet.Relapses > 0 {
		say("callers that share a breaker pushed it over %d times (%s)", r.Fleet.Relapses, joined(r.Details))
	}
	if r.Fleet.Back == nil {
		say("callers that share a breaker weren't all back within %v s (%s)", r.Watched, joined(r.Details))
	}
	return out
}

func (r *Recovery) print(w io.Writer) {
	fmt.Fprintf(w, "\nrecovery: fifty callers trip together, and what they call comes back, cold\n  %s\n\n", strings.ReplaceAll(r.Setup, "; ", ";\n  "))
	fmt.Fprintf(w, "  %-37s  %6s  %7s  %8s  %11s\n", "whose breaker", "probes", "at once", "relapses", "all back in")
	for _, way := range []struct {
		name string
		got  recovery.Result
	}{
		{"local    each its own, as most ship it", r.Local},
		{"guarded  each its own, Eider's", r.Guarded},
		{"fleet    one for all", r.Fleet},
	} {
		back := fmt.Sprintf("not in %v s", r.Watched)
		if way.got.Back != nil {
			back = duration(*way.got.Back * 1000)
		}
		fmt.Fprintf(w, "  %-37s  %6d  %7d  %8d  %11s\n", way.name, way.got.Probes, way.got.Parallel, way.got.Relapses, back)
	}
	fmt.Fprint(w, "\n  Probes are the calls that it got before its first answer, as it counts them.\n"+
		"  local: five failures in a row, one open time for all, one trial, every call.\n"+
		"  guarded: a rate, open times that differ and double, a trial, a ramp. fleet: a\n"+
		"  rate that three see, and a ramp; in between one caller has the permit and\n"+
		"  tries for all (promise: 1 at once, 0 relapses).\n")
}
