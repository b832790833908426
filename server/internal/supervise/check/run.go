package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eiderhq/eider/server/internal/harmless"
)

// The defaults. A program that hangs is Ill after 5 seconds at most, see Config.Every.
const (
	defaultEvery   = 2 * time.Second
	defaultTimeout = time.Second
	defaultStart   = time.Minute
	defaultFall    = 2
	defaultRise    = 1

	whileStarting = 250 * time.Millisecond // between checks until it is ready
)

// Config says what is asked, and how often. The zero value asks nothing: the program is ready at once, for ever.
type Config struct {
	// Ready is asked until the program is ready, Live from then on. nil means the other one.
	Ready, Live Check

	// Every is the time from one check to the next; until the program is ready it is 250ms, if that is less. 0 means
	// 2s. Price: a hang is seen after Every + (Fall − 1) × max(Every, Timeout) + Timeout at most, 5s by default.
	Every time.Duration

	// Timeout is how long a check may take. 0 means 1s. Price: a program that is slow for a while is taken for one
	// that hangs.
	Timeout time.Duration

	// Start is how long the program may take until it is ready; then it is told to be Overdue. 0 means 60s.
	Start time.Duration

	// Fall is how many checks in a row fail until a ready program is Ill. 0 means 2.
	Fall int

	// Rise is how many in a row are answered until a program is Ready. 0 means 1.
	Rise int

	// Exec runs the program of an exec: check and returns how it went, nil for an exit with 0. It ends the program, and
	// what the program has started, when ctx ends. nil means os/exec: not in a process that reaps its children
	// itself, which would take the exit status away.
	Exec func(ctx context.Context, words []string) error
}

// Check returns every fault of the Config at once.
func (c Config) Check() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Every", c.Every}, {"Timeout", c.Timeout}, {"Start", c.Start}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s: %s is below 0; 0 means the default", d.name, d.value))
		}
	}
	if c.Fall < 0 || c.Rise < 0 {
		errs = append(errs, fmt.Errorf("neither Fall %d nor Rise %d may be below 0; 0 means the default", c.Fall, c.Rise))
	}
	return errors.Join(errs...)
}

// resolve fills the defaults in.
func (c Config) resolve() Config {
	c.Every = or(c.Every, defaultEvery)
	c.Timeout = or(c.Timeout, defaultTimeout)
	c.Start = or(c.Start, defaultStart)
	c.Fall = or(c.Fall, defaultFall)
	c.Rise = or(c.Rise, defaultRise)
	if c.Ready == nil {
		c.Ready = c.Live
	}
	if c.Live == nil {
		c.Live = c.Ready
	}
	c.Ready, c.Live = c.by(c.Ready), c.by(c.Live)
	return c
}

// by has exec checks run by Exec.
func (c Config) by(check Check) Check {
	if e, ok := check.(command); ok {
		e.run = c.Exec
		return e
	}
	return check
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Run asks until ctx ends, one check at a time, and tells each change of the phase: Starting isn't told, it is what
// holds until then. tell is called by Run itself, which goes on when it has returned.
func (c Config) Run(ctx context.Context, tell func(State)) {
	m := machine{cfg: c.resolve()}
	if m.cfg.Ready == nil {
		if ctx.Err() == nil {
			tell(State{Phase: Ready})
		}
		<-ctx.Done()
		return
	}
	start := time.Now()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		asked := time.Since(start)
		err := m.cfg.once(ctx, m.ask())
		if ctx.Err() != nil {
			return // what it ran into is the end, not the program
		}
		if m.heard(asked, time.Since(start), err) {
			tell(m.state)
		}
		t.Reset(m.next - time.Since(start))
	}
}

// once asks under the time limit.
func (c Config) once(ctx context.Context, check Check) error {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	err := check.Do(limited)
	switch {
	case err == nil:
		return nil
	case limited.Err() != nil:
		return fmt.Errorf("%s isn't answered within %s", check, c.Timeout)
	}
	return fmt.Errorf("%s: %.300s", check, harmless.Text(err.Error())) // it may quote what a stranger wrote
}
