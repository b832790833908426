package drain

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
)

// program is one beside which a Beside under test runs, in a bubble.
type program struct {
	reg    *script
	stop   context.CancelFunc
	ended  chan error // as Program.Ended
	last   chan struct{}
	begun  time.Time
	result chan result

	finishing time.Duration // when Finish was called
	calls     int           // how often
	budget    time.Duration // what its context granted
}

// besides plays a test in a bubble. The signals' own goroutine must begin outside.
func besides(t *testing.T, test func(*testing.T)) {
	t.Helper()
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	synctest.Test(t, test)
}

func startBeside(t *testing.T, tune func(*Config, *Program)) *program {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &program{reg: newScript(), stop: stop, ended: make(chan error, 1), last: make(chan struct{}), begun: time.Now(), result: make(chan result, 1)}
	cfg := Config{Service: "orders", ID: "1", Address: ":8080", Logger: slog.New(slog.DiscardHandler)}
	prog := Program{Ended: p.ended, Finish: p.finish}
	if tune != nil {
		tune(&cfg, &prog)
	}
	go func() {
		report, err := beside(ctx, cfg, prog, p.reg)
		p.result <- result{report, err}
	}()
	t.Cleanup(stop)
	synctest.Wait()
	return p
}

// finish takes a second of the program's.
func (p *program) finish(ctx context.Context) {
	p.calls++
	p.finishing = time.Since(p.begun)
	if until, ok := ctx.Deadline(); ok {
		p.budget = time.Until(until)
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

// settles has the node count callers, all of whom have let go.
func (p *program) settles() {
	p.reg.says(func() {
		p.reg.heard, p.reg.drain = true, eider.Drain{Total: 1, Members: []eider.Member{member("checkout@b2", eider.Native, eider.LetGo)}, Reached: true}
	})
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got.Round(10*time.Millisecond) != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// A program's requests can't be counted, so unknown callers are waited for, and named, although none was seen.
func TestBesideWaitsForUnknownCallers(t *testing.T) {
	for _, c := range []struct {
		name    string
		unknown time.Duration
		pause   time.Duration
		waited  int
	}{
		{"by default", 0, 8 * time.Second, 2},
		{"as set", 3 * time.Second, 3 * time.Second, 2},
		{"all of them are Eider's", -1, time.Second, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			besides(t, func(t *testing.T) {
				p := startBeside(t, func(cfg *Config, _ *Program) { cfg.Unknown = c.unknown })
				reg := p.reg.registered[0]
				if reg.Address != ":8080" || reg.Status != eider.Up || reg.Work.Read().Unknown != (c.unknown >= 0) {
					t.Errorf("it registered as %+v, unknown callers %v", reg, reg.Work.Read().Unknown)
				}
				time.Sleep(time.Hour) // nothing of it is forgotten
				if reg.Work.Read().Unknown != (c.unknown >= 0) {
					t.Error("after an hour it has forgotten that unknown callers may call")
				}
				p.begun = time.Now()
				p.stop()
				time.Sleep(time.Second)
				p.settles()
				res := <-p.result
				near(t, "the pause", res.report.Pause, c.pause)
				near(t, "Finish", p.finishing, c.pause)
				near(t, "its budget", p.budget, 20*time.Second)
				near(t, "all of it", res.report.Took, c.pause+time.Second)
				r := res.report
				if res.err != nil || r.EndedBy != ByBarrier || r.Waited != c.waited || r.Open != 0 || !r.Left || r.Exit != ExitClean || r.ID != "1" || p.calls != 1 {
					t.Errorf("%v, Finish %d times\n%+v", res.err, p.calls, r)
				}
				if named := len(r.Members) > 0 && isUnknown(r.Members[0]); named != (c.unknown >= 0) {
					t.Errorf("the members are %v", r.Members)
				}
			})
		})
	}
}

// A program that ends by itself serves nobody any more: there is nothing to pause for.
func TestBesideAProgramThatEndsByItself(t *testing.T) {
	besides(t, func(t *testing.T) {
		p := startBeside(t, nil)
		time.Sleep(time.Minute)
		p.ended <- nil
		r := <-p.result
		if r.err != nil || r.report.EndedBy != ByServer || r.report.Pause.Round(time.Millisecond) != 0 || !r.report.Left || p.reg.left != 1 || p.calls != 1 {
			t.Errorf("planned: %v, Finish %d times, LEFT %d times\n%+v", r.err, p.calls, p.reg.left, r.report)
		}
	})
	besides(t, func(t *testing.T) {
		p, crash := startBeside(t, nil), errors.New("exit status 3")
		time.Sleep(time.Minute)
		p.ended <- crash
		r := <-p.result
		if !errors.Is(r.err, crash) || eider.KindOf(r.err) != eider.Unavailable || !strings.Contains(r.err.Error(), "orders") {
			t.Errorf("a crash: %v", r.err)
		}
		if closed(p.reg.leave) || p.reg.left != 0 || p.calls != 0 || r.report.ID != "1" || r.report.Exit != ExitLoss {
			t.Errorf("a crash is no leave: left %d times, Finish %d times\n%+v", p.reg.left, p.calls, r.report)
		}
	})
	for _, how := range []error{nil, errors.New("exit status 3")} {
		besides(t, func(t *testing.T) {
			p := startBeside(t, nil)
			p.stop()
			time.Sleep(2 * time.Second)
			p.ended <- how
			r := <-p.result
			near(t, "the pause", r.report.Pause, 2*time.Second)
			if r.err != nil || r.report.EndedBy != ByServer || !r.report.Left || p.calls != 1 {
				t.Errorf("%v during the pause: %v, Finish %d times\n%+v", how, r.err, p.calls, r.report)
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := (&drainer{log: slog.New(slog.DiscardHandler)}).over(ctx, errors.New("signal: terminated")); err != nil {
		t.Errorf("a program that the stop reached as well hasn't crashed: %v", err)
	}
}

// What doesn't end at the in-flight deadline is killed by its owner, and said to be lost; what goes on in spite of that
// holds nobody up.
func TestBesideAProgramThatDoesNotEnd(t *testing.T) {
	for name, extra := range map[string]time.Duration{"killed at the deadline": 0, "even its owner hangs": time.Second} {
		t.Run(name, func(t *testing.T) {
			besides(t, func(t *testing.T) {
				over := make(chan struct{})
				p := startBeside(t, func(cfg *Config, prog *Program) {
					cfg.Unknown = -1
					prog.Finish = func(ctx context.Context) {
						<-ctx.Done()
						if extra > 0 {
							<-over
						}
					}
				})
				p.settles()
				p.begun = time.Now()
				p.stop()
				r := <-p.result
				near(t, "its end", time.Since(p.begun), 20*time.Second+extra)
				if !r.report.Killed || r.report.Exit != ExitLoss || !r.report.Left || !strings.Contains(r.report.String(), "hadn't ended in time") {
					t.Errorf("%+v", r.report)
				}
				close(over)
			})
		})
	}
}

// The in-flight time of a program of several services begins when the last of their pauses is over.
func TestBesideOfSeveralServicesEndsOnce(t *testing.T) {
	besides(t, func(t *testing.T) {
		var p *program
		var atMost time.Duration
		p = startBeside(t, func(cfg *Config, prog *Program) {
			cfg.Unknown = -1
			prog.Others = func(ctx context.Context) {
				until, _ := ctx.Deadline()
				atMost = time.Until(until)
				<-p.last
			}
		})
		p.settles()
		p.begun = time.Now()
		p.stop()
		time.Sleep(5 * time.Second)
		close(p.last)
		r := <-p.result
		near(t, "its own pause", r.report.Pause, 0)
		near(t, "Finish", p.finishing, 5*time.Second)
		near(t, "its budget", p.budget, 20*time.Second)
		near(t, "the others' pause at most", atMost, 8*time.Second)
		if r.report.Killed || r.report.Exit != ExitClean {
			t.Errorf("%+v", r.report)
		}
	})
}

// A stop that comes before the program is registered means that it never is, and it is finished all the same (D14).
func TestD14BesideIsStoppedDuringStart(t *testing.T) {
	for _, listed := range []bool{true, false} {
		besides(t, func(t *testing.T) {
			reg, calls := newScript(), 0
			ctx, stop := context.WithCancel(t.Context())
			stop()
			begun := time.Now()
			var r registrar
			if listed {
				r = reg
			}
			report, err := beside(ctx, Config{Service: "orders", Address: ":8080", Logger: slog.New(slog.DiscardHandler)},
				Program{Finish: func(context.Context) { calls++ }}, r)
			if err != nil || len(reg.registered) != 0 || calls != 1 || report.EndedBy != ByNoCallers || time.Since(begun) != 0 {
				t.Errorf("%v after %s, registered %d, Finish %d times\n%+v", err, time.Since(begun), len(reg.registered), calls, report)
			}
		})
	}
	besides(t, func(t *testing.T) { // registered, but it was never ready
		p := startBeside(t, func(cfg *Config, _ *Program) { cfg.Ready = make(chan struct{}) })
		p.stop()
		r := <-p.result
		if r.report.EndedBy != ByNoCallers || p.calls != 1 || r.report.Open != 0 || p.reg.registered[0].Status != eider.Starting || r.report.Pause.Round(time.Millisecond) != 0 {
			t.Errorf("Finish %d times\n%+v", p.calls, r.report)
		}
	})
}

// Readiness and health are told as Serve tells them.
func TestBesideTellsHowTheProgramFares(t *testing.T) {
	besides(t, func(t *testing.T) {
		ready, health := make(chan struct{}), make(chan error)
		p := startBeside(t, func(cfg *Config, _ *Program) { cfg.Ready, cfg.Health, cfg.Unknown = ready, health, -1 })
		health <- errors.New("it starts")
		health <- nil
		synctest.Wait()
		if len(p.reg.statuses) != 0 {
			t.Errorf("before it was ready it said %v", p.reg.statuses)
		}
		close(ready)
		synctest.Wait()
		health <- errors.New("no answer within 1s")
		health <- nil
		synctest.Wait()
		if s := p.reg.statuses; len(s) != 3 || s[0] != eider.Up || s[1] != eider.Down || s[2] != eider.Up {
			t.Errorf("it said %v", s)
		}
		p.settles()
		p.stop()
		<-p.result
	})
}

func TestBesideRefusesWhatItCannotServe(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = beside(t.Context(), Config{Listener: ln, Grace: time.Second, Address: "orders"}, Program{}, newScript())
	for _, want := range []string{"Finish: it is nil", "Listener: it is set", `Address: "orders"`, "as in :8080", "grace: 1s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q among the faults: %v", want, err)
		}
	}
	for address, holds := range map[string]bool{":8080": true, "10.0.0.7:8080": true, "[::1]:8080": true, "": false, "8080": false, ":0": false, ":http": false, ":65536": false} {
		if got := dialable(address) == nil; got != holds {
			t.Errorf("%q: %v", address, dialable(address))
		}
	}
	reg := newScript()
	reg.refuse = eider.Errorf(eider.Invalid, "register", "no")
	if _, err = beside(t.Context(), Config{Service: "orders", Address: ":8080", Logger: slog.New(slog.DiscardHandler)},
		Program{Finish: func(context.Context) { t.Error("Finish was called") }}, reg); !errors.Is(err, reg.refuse) {
		t.Errorf("refused: %v", err)
	}
}
