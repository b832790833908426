package check

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Beside a model that keeps all that was heard, and reads the phase from it.
func TestMachineBesideAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Ready: named("ready"), Live: named("live"), Fall: rapid.IntRange(1, 4).Draw(t, "fall"), Rise: rapid.IntRange(1, 4).Draw(t, "rise"),
			Start: time.Duration(rapid.IntRange(1, 40).Draw(t, "start")) * time.Second, Every: time.Duration(rapid.IntRange(1, 5).Draw(t, "every")) * time.Second}.resolve()
		m := machine{cfg: cfg}
		var heard []bool // since the last change to ready or ill
		want, now := Starting, time.Duration(0)
		last := func(n int, well bool) bool {
			return len(heard) >= n && !slices.Contains(heard[len(heard)-n:], !well)
		}
		for range rapid.IntRange(1, 60).Draw(t, "checks") {
			asked := max(now, m.next)
			now = asked + time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms"))*time.Millisecond
			starting := want == Starting || want == Overdue
			if got, should := m.ask().String(), map[bool]string{true: "ready", false: "live"}[starting]; got != should {
				t.Fatalf("asks %s while %v", got, want)
			}
			var err error
			if rapid.Bool().Draw(t, "ill") {
				err = errors.New("ill")
			}
			heard = append(heard, err == nil)
			before := want
			switch {
			case want != Ready && last(cfg.Rise, true):
				want, heard = Ready, nil
			case want == Ready && last(cfg.Fall, false):
				want, heard = Ill, nil
			case want == Starting && now >= cfg.Start:
				want = Overdue
			}
			if changed := m.heard(asked, now, err); m.state.Phase != want || changed != (want != before) || m.state.Why != err {
				t.Fatalf("%v, changed %v, why %v; want %v after %v", m.state.Phase, changed, m.state.Why, want, before)
			}
			every := cfg.Every
			if want == Starting || want == Overdue {
				every = whileStarting
			}
			if m.next != max(asked+every, now) {
				t.Fatalf("asks next at %s, asked at %s, answered at %s, every %s", m.next, asked, now, every)
			}
		}
	})
}

// named is a check that nobody asks.
type named string

func (n named) Do(context.Context) error { return nil }
func (n named) String() string           { return string(n) }

// scripted is a program that answers as set.
type scripted struct {
	mu    sync.Mutex
	err   error
	hangs bool
	asked []time.Duration
	start time.Time
}

func (s *scripted) String() string { return "scripted" }
func (s *scripted) Do(ctx context.Context) error {
	s.mu.Lock()
	s.asked = append(s.asked, time.Since(s.start))
	err, hangs := s.err, s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// now sets how it answers.
func (s *scripted) now(err error, hangs bool) {
	s.mu.Lock()
	s.err, s.hangs = err, hangs
	s.mu.Unlock()
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// story runs a Config, and keeps what is told with its time.
type story struct {
	told []told
	end  func()
}

type told struct {
	at time.Duration
	State
}

func begin(t *testing.T, c Config) *story {
	ctx, cancel := context.WithCancel(t.Context())
	s, start, done := &story{}, time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx, func(now State) { s.told = append(s.told, told{time.Since(start), now}) })
	}()
	s.end = func() { cancel(); <-done }
	return s
}

// wait lets time pass, and takes what was told.
func (s *story) waitBubble(d time.Duration) []told {
	time.Sleep(d)
	synctest.Wait()
	out := s.told
	s.told = nil
	return out
}

func only(t *testing.T, got []told, at time.Duration, phase Phase) {
	t.Helper()
	if len(got) != 1 || got[0].at != at || got[0].Phase != phase {
		t.Fatalf("told %v, want only %v at %s", got, phase, at)
	}
}

func TestU3HungProgramIsIllWithinTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{err: errors.New("not yet"), start: time.Now()}
		s := begin(t, Config{Ready: p})
		defer s.end()
		if got := s.waitBubble(900 * time.Millisecond); got != nil {
			t.Fatalf("told %v before it was ready", got)
		}
		p.now(nil, false)
		only(t, s.waitBubble(time.Second), time.Second, Ready)
		s.waitBubble(1200 * time.Millisecond) // a check was answered at 3s
		hung := 3100 * time.Millisecond
		p.now(nil, true)
		got := s.waitBubble(10 * time.Second)
		only(t, got, 8*time.Second, Ill) // asked at 5s and at 7s
		if got[0].at-hung > 5*time.Second || got[0].Why == nil || got[0].Why.Error() != "scripted isn't answered within 1s" {
			t.Errorf("%v", got)
		}
		p.now(nil, false)
		back := s.waitBubble(2 * time.Second)
		if len(back) != 1 || back[0].Phase != Ready || back[0].Why != nil {
			t.Errorf("told %v, want it to be ready again", back)
		}
	})
}

func TestOverdueIsToldOnceAndAskedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{hangs: true, start: time.Now()}
		live := &scripted{start: time.Now()}
		s := begin(t, Config{Ready: p, Live: live, Start: 10 * time.Second})
		defer s.end()
		only(t, s.waitBubble(time.Minute+500*time.Millisecond), 10*time.Second, Overdue)
		if live.count() > 0 {
			t.Error("asked whether it lives before it was ready")
		}
		p.now(nil, false)
		only(t, s.waitBubble(time.Second), 61*time.Second, Ready)
		n := p.count()
		s.waitBubble(time.Minute)
		if p.count() != n || live.count() < 29 {
			t.Errorf("asked %d more times whether it is ready, %d whether it lives", p.count()-n, live.count())
		}
	})
}

func TestNothingToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, Config{})
		only(t, s.waitBubble(time.Hour), 0, Ready)
		s.end()
	})
}

func TestTheEndIsNoIllness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{start: time.Now()}
		s := begin(t, Config{Live: p, Fall: 1})
		only(t, s.waitBubble(time.Second), 0, Ready)
		p.now(nil, true)
		s.waitBubble(1500 * time.Millisecond) // the check at 2s is on its way
		s.end()
		if s.told != nil {
			t.Errorf("told %v at the end", s.told)
		}
	})
}

func TestConfigCheck(t *testing.T) {
	if err := (Config{}).Check(); err != nil {
		t.Error(err)
	}
	err := Config{Every: -1, Timeout: -1, Start: -1, Fall: -1}.Check()
	for _, want := range []string{"Every", "Timeout", "Start", "Fall -1"} {
		expect(t, err, want)
	}
}

func TestWhatAStrangerSaysSteersNoTerminal(t *testing.T) {
	err := Config{Timeout: time.Minute}.once(t.Context(), &scripted{err: errors.New("\x1b[2Jgone")})
	if err == nil || err.Error() != "scripted: \ufffd[2Jgone" {
		t.Errorf("%q", err)
	}
}
