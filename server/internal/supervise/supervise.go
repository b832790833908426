package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/notify"
)

// The exit codes that aren't the program's own.
const (
	ExitKilled    = 124 // it had to be killed: it hadn't ended at the in-flight deadline
	ExitFault     = 125 // this process' own fault
	ExitUnfit     = 126 // the program can't be executed
	ExitNotFound  = 127 // there is no such program
	ExitInterrupt = 130 // a second SIGINT ended it
	exitSignalled = 128 // and the signal's number: it died of it, or was never started because of it
)

// Report tells how it went, of a program that was started several times of the last.
type Report struct {
	Exit     int            `json:"exit"`               // this process' exit code
	Runs     int            `json:"runs"`               // how often the program was started
	How      string         `json:"how"`                // how it ended, for people
	Left     int            `json:"left"`               // processes of it that had to be killed
	Services []drain.Report `json:"services,omitempty"` // how each was left; with a crash none
}

// supervisor is one call of Run.
type supervisor struct {
	settings
	reaper *reaper
	leave  context.Context // ends at the leave, for one of the causes
	begin  context.CancelCauseFunc
	enough context.Context // ends with a second SIGINT
	stop   context.CancelFunc
	files  [3]*os.File
	hooked *hooked

	manager *notify.Service // of this process, which is told how the program stands
	unready atomic.Int32    // services that haven't been ready yet

	mu    sync.Mutex
	child *child // the running program
}

// Run runs the program until it has ended for good, and returns what to exit with. It leaves when ctx ends, and with
// SIGTERM and SIGINT, which it hears itself from its first line on: a process runs one at a time. A signal that comes
// before the program is started keeps it from being so.
//
// The error is for what kept it from running the program: a Config that doesn't hold (eider.Invalid, every fault at
// once), a program that can't be executed.
func Run(ctx context.Context, cfg Config) (Report, error) {
	heard, died := listen()
	defer signal.Stop(heard)
	defer signal.Stop(died)
	set, err := cfg.resolve()
	if err != nil {
		return Report{Exit: ExitFault}, err
	}
	s := &supervisor{settings: set, reaper: newReaper(), files: [3]*os.File{os.Stdin, os.Stdout, os.Stderr}}
	s.manager = notify.Open(s.log)
	s.unready.Store(int32(len(s.Services)))
	s.leave, s.begin = context.WithCancelCause(ctx)
	s.enough, s.stop = context.WithCancel(context.Background())
	defer s.stop()
	s.hooked = newHooked(s)
	unhook, err := s.listenToHooks()
	if err != nil {
		return Report{Exit: ExitFault}, err
	}
	defer unhook()
	adopt()
	living, over := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer over()
	wg.Go(func() { s.hear(living, heard) })
	wg.Go(func() { s.reaper.run(living, died) })
	wg.Go(func() { s.manage(living) })
	s.prepare()
	wg.Go(func() { s.herald(living) })
	if text := swallowed(); text != "" {
		s.log.Warn(text)
	}
	return s.live()
}

// live starts the program, and starts it anew.
func (s *supervisor) live() (Report, error) {
	path, err := executable(s.Command[0], os.Getenv("PATH"))
	if err != nil {
		return unstarted(err)
	}
	s.trespass()
	var r Report
	var again restarts
	for runs := 1; ; runs++ {
		if s.leave.Err() != nil {
			if runs == 1 {
				r.Exit, r.How = exitSignalled+int(s.asked()), "it was to leave before the program was started, which it never was"
				s.log.Info(r.How)
			}
			return r, nil
		}
		l := newLife(s)
		if err = l.start(path); err != nil {
			r, err = unstarted(err)
			return r, err
		}
		begun := time.Now()
		r, err = l.live()
		r.Runs = runs
		if err != nil || s.Restart != OnFailure || r.Exit == 0 || s.leave.Err() != nil {
			return r, err
		}
		pause := again.next(time.Since(begun), rand.Float64())
		s.log.Warn("the program is started anew", "in", pause.Round(time.Millisecond), "ended", r.How)
		rest := time.NewTimer(pause)
		select {
		case <-rest.C:
		case <-s.leave.Done():
		}
		rest.Stop()
	}
}

// asked is the signal that began the leave; another wish counts as SIGTERM.
func (s *supervisor) asked() syscall.Signal {
	if errors.Is(context.Cause(s.leave), errInt) {
		return syscall.SIGINT
	}
	return syscall.SIGTERM
}

// unstarted sorts why a program can't be started.
func unstarted(err error) (Report, error) {
	r := Report{Exit: ExitFault}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Exit = ExitNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		r.Exit = ExitUnfit
	}
	if r.How = err.Error(); r.Exit == ExitUnfit {
		err = fmt.Errorf("%w; chmod +x makes a file a program, and a script may go after what runs it, as in -- node server.js", err)
	}
	return r, eider.Errorf(eider.Unavailable, "run", "%w", err)
}

// logger is for those whose work is one run of the program.
func (s *supervisor) logger(service string) *slog.Logger { return s.log.With("service", service) }
