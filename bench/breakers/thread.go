package breakers

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processors are those that the process may use.
func processors() (unix.CPUSet, error) {
	var all unix.CPUSet
	err := unix.SchedGetaffinity(os.Getpid(), &all) // of the first thread, which nobody pins for good
	return all, err
}

// thread is a thread that stays on one processor for a turn.
type thread struct {
	id     int
	waited time.Duration // before
}

// pin keeps the thread that it is called on to one of all processors: two that wake at once are often put on the same, and stay
// there for longer than a turn.
func pin(which int, all unix.CPUSet) (t thread, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.id = unix.Gettid()
	if which >= all.Count() {
		return t, fmt.Errorf("%w: %d processors are wanted, and there are %d", ErrUnmeasured, which+1, all.Count())
	}
	cpu := 0
	for seen := -1; ; cpu++ {
		if all.IsSet(cpu) {
			seen++
		}
		if seen == which {
			break
		}
	}
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(t.id, &one); err != nil {
		return t, err
	}
	t.waited, err = waited(t.id)
	return t, err
}

// delayed is how long the thread would have run since and had no processor.
func (t thread) delayed() (time.Duration, error) {
	now, err := waited(t.id)
	return now - t.waited, err
}

// unpin lets all threads run anywhere again: one that a pinned thread has started meanwhile is where that was.
func unpin(all unix.CPUSet) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			err = unix.SchedSetaffinity(id, &all)
		}
		if !errors.Is(err, unix.ESRCH) { // this one has ended
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// waited is how long a thread was ready to run and didn't, as its scheduler counts it.
func waited(thread int) (time.Duration, error) {
	name := "/proc/self/task/" + strconv.Itoa(thread) + "/schedstat"
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnmeasured, err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%w: %s has %q, and not the time on the processor and the time without one", ErrUnmeasured, name, text)
	}
	ns, err := strconv.ParseInt(fields[1], 10, 64)
	return time.Duration(ns), err
}

// time is the clock of the thread's time on the processor, as clock_gettime's source makes it up. It is up to date to the nanosecond
// for whoever asks; the process's clock has of other threads only what they had at their last tick.
func (t thread) time() int32 { return int32(^t.id<<3 | 6) }

const processTime int32 = unix.CLOCK_PROCESS_CPUTIME_ID

func used(clock int32) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(clock, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
