package drain

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
)

// paused is a drain without sockets, at its leave.
func paused(t *testing.T, cfg Config, s *script) *drainer {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	set, err := cfg.resolve(&http.Server{})
	if err != nil {
		t.Fatal(err)
	}
	d := &drainer{set: set, log: set.Logger, base: time.Now(), served: make(chan error, 1), up: true}
	d.book = book{d: d, changed: make(chan struct{}, 1)}
	if s != nil {
		d.reg, d.listing = s, s
	}
	d.leave.Store(&leave{at: d.now()})
	return d
}

func TestD15PauseEnds(t *testing.T) {
	type test struct {
		name   string
		cfg    Config
		script func(*script)
		during func(s *script, d *drainer, enough chan struct{})
		by     EndedBy
		after  time.Duration
	}
	s := time.Second
	for _, c := range []test{
		{name: "the registry is away: the bound that was pushed last", script: func(s *script) { s.bound = 3 * time.Second }, by: ByBound, after: 3 * s},
		{name: "the registry was never there: 8s", by: ByBound, after: 8 * s},
		{name: "the bound doesn't fit into the grace", cfg: Config{Grace: 25 * s}, script: func(s *script) { s.bound = 65 * time.Second }, by: ByGrace, after: (25 - 2) * s * 2 / 7},
		{name: "the barrier", during: func(s *script, _ *drainer, _ chan struct{}) { close(s.barrier) }, by: ByBarrier, after: s},
		{name: "the barrier, as a drain's news", during: func(s *script, _ *drainer, _ chan struct{}) {
			s.says(func() { s.heard, s.drain.Reached = true, true })
		}, by: ByBarrier, after: s},
		{name: "the bound is raised on the way", script: func(s *script) { s.bound = 2 * time.Second }, during: func(s *script, _ *drainer, _ chan struct{}) {
			s.says(func() { s.heard, s.bound = true, 5*time.Second })
		}, by: ByBound, after: 5 * s},
		{name: "the bound is lowered below what has passed", during: func(s *script, _ *drainer, _ chan struct{}) {
			s.says(func() { s.bound = time.Millisecond })
		}, by: ByBound, after: s},
		{name: "a second SIGINT", during: func(_ *script, _ *drainer, enough chan struct{}) { close(enough) }, by: BySecondInt, after: s},
		{name: "the server ends and nobody is connected", during: func(_ *script, d *drainer, _ chan struct{}) { d.served <- http.ErrServerClosed }, by: ByServer, after: s},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				if c.script != nil {
					c.script(s)
				}
				d, enough := paused(t, c.cfg, s), make(chan struct{})
				go func() {
					time.Sleep(time.Second)
					if c.during != nil {
						c.during(s, d, enough)
					}
				}()
				begun := time.Now()
				by, _ := d.pause(scriptLeaving{s}, enough, nil)
				if took := time.Since(begun); by != c.by || took.Round(time.Millisecond) != c.after.Round(time.Millisecond) {
					t.Errorf("ended by %s after %s, want %s after %s", by, took, c.by, c.after)
				}
				time.Sleep(2 * time.Second) // for the goroutine above
			})
		})
	}
}

func TestPauseWithoutRegistry(t *testing.T) {
	for _, c := range []struct {
		cfg   Config
		by    EndedBy
		after time.Duration
	}{
		{Config{}, NoRegistry, 8 * time.Second},
		{Config{Pause: 3 * time.Second}, NoRegistry, 3 * time.Second},
		{Config{Pause: -1}, NoRegistry, 0},
		{Config{Pause: time.Minute}, ByGrace, 8 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, begun := paused(t, c.cfg, nil), time.Now()
			if by, _ := d.pause(nil, nil, nil); by != c.by || time.Since(begun).Round(time.Millisecond) != c.after {
				t.Errorf("%s: ended by %s after %s, want %s after %s", c.cfg.Pause, by, time.Since(begun), c.by, c.after)
			}
		})
	}
}

// Progress gets the newest state, and a Progress that hangs delays nothing but the end, by a second.
func TestProgressIsNewestWinsAndHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		d := paused(t, Config{}, s)
		var seen []int
		hang := make(chan struct{})
		bye := newTeller(func(dr eider.Drain) {
			seen = append(seen, dr.Open)
			<-hang
		})
		go func() {
			for open := 5; open > 0; open-- {
				s.says(func() { s.heard, s.drain = true, eider.Drain{Total: 5, Open: open} })
				time.Sleep(time.Second)
			}
			close(s.barrier)
		}()
		begun := time.Now()
		d.pause(scriptLeaving{s}, nil, bye)
		if took := time.Since(begun); took.Round(time.Millisecond) != 5*time.Second {
			t.Errorf("the pause took %s", took)
		}
		bye.end()
		if took := time.Since(begun); took.Round(time.Millisecond) != 6*time.Second {
			t.Errorf("with the hanging Progress it took %s", took)
		}
		close(hang)
		synctest.Wait()
		if len(seen) != 2 || seen[0] != 5 || seen[1] != 1 {
			t.Errorf("it saw %v, want the first and the newest: 5, 1", seen)
		}
	})
}

func TestLinesOfProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		s := newScript()
		s.heard, s.drain = true, eider.Drain{Total: 14, Open: 1, Members: []eider.Member{
			{Caller: "checkout@b2", Kind: eider.Native, State: eider.Waiting, Cap: 8 * time.Second},
			{Caller: "web@c3", Kind: eider.Native, State: eider.LetGo}}}
		d := paused(t, Config{}, s)
		d.log = slog.New(slog.NewTextHandler(&lines, nil))
		d.pause(scriptLeaving{s}, nil, nil)
		want := "waiting for 1 of 14: checkout@b2 (native, disconnected, ≤ 8s); 8s at most (bound)"
		if got := lines.String(); strings.Count(got, want) != 1 || strings.Contains(got, "web@c3") {
			t.Errorf("the log must say this once, and nothing of who has let go: %s\n%s", want, got)
		}
	})
}
