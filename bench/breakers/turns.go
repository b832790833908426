package breakers

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Stage is how many goroutines call one breaker at a time, on how many processors.
type Stage struct {
	Name    string
	Procs   int
	Callers int
}

// Stages are those that are measured.
func Stages() []Stage {
	return []Stage{{"serial", 1, 1}, {"two Ps", 2, 2}, {"64 goroutines", 2, 64}}
}

const (
	turn     = 400 * time.Microsecond // how long a subject's turn is: shorter than the slice after which others get the processor
	chunk    = 10 * time.Microsecond  // about how long a caller doesn't look whether it is over
	together = 0.9                    // the least share of a turn in which all callers are at it
	patience = 20                     // turns for one that counts
	renewed  = 5                      // turns with one and the same breaker: what it shares a cache line with is chance
)

// Figures is what a call took, in nanoseconds.
type Figures struct {
	Min, Median float64 // by the clock
	CPU         float64 // median processor time; with one or two callers theirs alone, else the process's
}

// Measure has the subjects take turns of a path on a stage, so that what else the machine does falls on all of them. A turn in which
// a caller had to leave the processor doesn't count: of two, the other was alone meanwhile, which measures something else.
func Measure(subjects []Subject, p Path, s Stage, rounds int) ([]Figures, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(s.Procs))
	lanes := make([]lane, len(subjects))
	for i, subject := range subjects {
		if err := lanes[i].open(subject, p, s); err != nil {
			return nil, err
		}
		defer lanes[i].close()
	}
	for round := 0; round < rounds*patience; round++ {
		behind := false
		for i := range lanes {
			if len(lanes[i].walls) >= rounds {
				continue
			}
			behind = true
			if err := lanes[i].round(); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", subjects[i].Name, s.Name, err)
			}
		}
		if !behind {
			break
		}
	}
	out := make([]Figures, len(lanes))
	for i, l := range lanes {
		if len(l.walls) < max(rounds/4, 1) {
			return nil, fmt.Errorf("%w: %s, %s: only %d of %d turns had the processors for themselves; measure when less else runs",
				ErrUnmeasured, subjects[i].Name, s.Name, len(l.walls), rounds*patience)
		}
		out[i] = Figures{slices.Min(l.walls), median(l.walls), median(l.cpus)}
	}
	return out, nil
}

// lane is a subject's side of the turns.
type lane struct {
	subject Subject
	path    Path
	stage   Stage
	base    time.Time
	all     unix.CPUSet
	calls   calls
	done    func()
	turns   int
	chunk   int // calls of a chunk
	walls   []float64
	cpus    []float64
}

func (l *lane) open(subject Subject, p Path, s Stage) (err error) {
	*l = lane{subject: subject, path: p, stage: s, base: time.Now(), done: func() {}, chunk: 10}
	if l.all, err = processors(); err != nil {
		return err
	}
	if err = l.renew(); err != nil {
		return err
	}
	for l.chunk < 10_000 {
		start := time.Now()
		l.calls(l.chunk, p.every())
		if time.Since(start) >= chunk {
			break
		}
		l.chunk *= 2
	}
	return nil
}

func (l *lane) renew() error {
	l.close()
	c, done, err := l.subject.ready(l.path)
	if err == nil {
		l.calls, l.done = c, done
	}
	return err
}

func (l *lane) close() {
	l.done()
	l.done = func() {}
}

// round is one turn.
func (l *lane) round() error {
	if l.turns++; l.turns%renewed == 0 {
		if err := l.renew(); err != nil {
			return err
		}
	}
	if l.stage.Callers > l.stage.Procs {
		return l.crowd()
	}
	callers := make([]caller, l.stage.Callers)
	var ready, first atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { callers[i].run(l, i, &ready, &first) })
	}
	wg.Wait()
	errs := []error{unpin(l.all)}
	start, end := callers[0].start, callers[0].end
	begun, over := start, end
	var waited, cpu time.Duration
	var made int
	for _, c := range callers {
		start, end = min(start, c.start), max(end, c.end)
		begun, over = max(begun, c.start), min(over, c.end)
		delay, err := c.thread.delayed()
		waited, cpu, made, errs = waited+delay, cpu+c.cpu, made+c.made, append(errs, c.err, err)
	}
	whole := end - start
	if float64(over-begun) >= together*float64(whole) && float64(waited) <= (1-together)*float64(whole) {
		l.walls, l.cpus = append(l.walls, float64(whole)/float64(made)), append(l.cpus, float64(cpu)/float64(made))
	}
	return errors.Join(errs...)
}

// caller is one of them in one turn.
type caller struct {
	start, end, cpu time.Duration
	made            int
	thread          thread
	err             error
}

// run waits for the others without leaving the processor, so that all begin within a few nanoseconds, and ends with the first. The
// goroutine isn't bound to its thread: one that waits for a mutex would then pay for switching threads, which it doesn't elsewhere.
func (c *caller) run(l *lane, cpu int, ready, first *atomic.Int32) {
	c.thread, c.err = pin(cpu, l.all)
	ready.Add(1)
	for ready.Load() < int32(l.stage.Callers) {
	}
	let := 0
	before := used(c.thread.time())
	c.start = time.Since(l.base)
	for c.end = c.start; c.end-c.start < turn && first.Load() == 0; c.end = time.Since(l.base) {
		let += l.calls(l.chunk, l.path.every())
		c.made += l.chunk
	}
	first.Store(1)
	c.cpu = used(c.thread.time()) - before
	c.err = errors.Join(c.err, l.path.check(let, c.made))
}

// crowd is a turn with more callers than processors. They begin when they come to it, and make the same number of calls.
func (l *lane) crowd() error {
	const chunks = 8
	var let atomic.Int64
	var wg sync.WaitGroup
	before, start := used(processTime), time.Now()
	for range l.stage.Callers {
		wg.Go(func() {
			for range chunks {
				let.Add(int64(l.calls(l.chunk, l.path.every())))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	cpu := used(processTime)
	made := chunks * l.chunk * l.stage.Callers
	l.walls, l.cpus = append(l.walls, float64(took)/float64(made)), append(l.cpus, float64(cpu-before)/float64(made))
	return l.path.check(int(let.Load()), made)
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
