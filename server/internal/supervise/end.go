package supervise

import (
	"context"
	"os"
	"syscall"
	"time"
)

// killing is how long killed processes may take to be gone: one in the midst of a disk's answer can't be.
const killing = 2 * time.Second

// end has the program end and all that it has started, and returns when nobody of them is left: they have been told, and
// then, at the end of ctx or with a second SIGINT, killed. An init that goes before its slow children takes them with it
// (D12).
func (l *life) end(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.s.enough, cancel)()
	if !closed(l.child.ended) {
		l.signal()
		select {
		case <-l.child.ended:
		case <-ctx.Done():
			l.killed = true
		}
	}
	if !l.killed {
		l.signalRest()
		if l.s.reaper.none() {
			return
		}
		l.s.log.Info("the program has ended; processes that it has started are waited for")
		if l.s.reaper.wait(ctx.Done()) {
			return
		}
	}
	l.kill()
}

// signal sends the signal to the program, and to its group and to those beyond it, unless the program leads them down
// itself. Who is stopped is woken, so that it can heed it.
func (l *life) signal() {
	s := l.s
	s.log.Info("the program is told to end", "signal", s.Signal.String(), "pid", l.child.pid)
	if s.Alone {
		l.told[l.child.pid] = true
		s.reaper.signal(l.child, s.Signal, false)
		s.reaper.signal(l.child, syscall.SIGCONT, false)
		return
	}
	below, _ := descendants()
	s.reaper.signal(l.child, s.Signal, true)
	s.reaper.signal(l.child, syscall.SIGCONT, true)
	for _, p := range below {
		if p.group != l.child.pid {
			l.tellOne(p)
		}
		l.told[p.pid] = true
	}
	l.told[l.child.pid] = true
}

// signalRest sends it to those that the program has left behind, if they haven't got it.
func (l *life) signalRest() {
	below, known := descendants()
	for _, p := range below {
		if !l.told[p.pid] {
			l.told[p.pid] = true
			l.tellOne(p)
		}
	}
	if !known && (l.s.Alone || len(l.told) == 0) {
		_ = syscall.Kill(-l.child.pid, l.s.Signal) // nobody is left in it, or is told
	}
}

func (l *life) tellOne(p process) {
	_ = syscall.Kill(p.pid, l.s.Signal) // it has ended meanwhile
	_ = syscall.Kill(p.pid, syscall.SIGCONT)
}

// kill kills all that is left, and again what that leaves.
func (l *life) kill() {
	over, cancel := context.WithTimeout(context.Background(), killing)
	defer cancel()
	for round := 0; over.Err() == nil; round++ {
		below, known := descendants()
		for _, p := range below {
			if round == 0 && !p.gone {
				l.s.log.Warn("a process of the program hasn't ended and is killed", "pid", p.pid, "name", p.name)
			}
			if !p.gone {
				l.left[p.pid] = true
			}
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		l.s.reaper.signal(l.child, syscall.SIGKILL, true)
		switch {
		case known:
		case os.Getpid() == 1:
			_ = syscall.Kill(-1, syscall.SIGKILL) // all but this process
		default:
			_ = syscall.Kill(-l.child.pid, syscall.SIGKILL)
		}
		look, stop := context.WithTimeout(over, 50*time.Millisecond)
		alone := l.s.reaper.wait(look.Done())
		stop()
		if alone {
			return
		}
	}
	l.s.log.Error("a killed process doesn't end; it is left behind")
}
