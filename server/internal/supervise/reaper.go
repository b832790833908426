package supervise

import (
	"context"
	"os"
	"sync"
	"syscall"
)

// reaper waits for all children of this process, those that it has started and those that orphans made its own. os/exec
// must not be used beside it: either would take the other's exit status.
type reaper struct {
	mu    sync.Mutex // held from a start to its entry here, so that no child is reaped before it is known
	known map[int]*child
	alone bool          // the last look found no child
	news  chan struct{} // closed and replaced with each look
}

// child is one that this process has started.
type child struct {
	pid   int
	ended chan struct{}      // closed once it is reaped
	how   syscall.WaitStatus // valid then
}

func newReaper() *reaper { return &reaper{known: make(map[int]*child), news: make(chan struct{})} }

// start starts a program in a process group of its own.
func (r *reaper) start(path string, words, env []string, files [3]*os.File, attr syscall.SysProcAttr) (*child, error) {
	attr.Setpgid = true
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, words, &syscall.ProcAttr{Env: env, Files: fds, Sys: &attr})
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid, ended: make(chan struct{})}
	r.known[pid], r.alone = c, false
	return c, nil
}

// run looks at each SIGCHLD until ctx ends. Several ends may make one signal, so that a look takes all there are.
func (r *reaper) run(ctx context.Context, died <-chan os.Signal) {
	for {
		select {
		case <-died:
			r.look()
		case <-ctx.Done():
			return
		}
	}
}

// look reaps who has ended.
func (r *reaper) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var how syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &how, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			r.alone = err == syscall.ECHILD
			break
		}
		if c := r.known[pid]; c != nil {
			delete(r.known, pid)
			c.how = how
			close(c.ended)
		}
	}
	close(r.news)
	r.news = make(chan struct{})
}

// none tells whether no child is left.
func (r *reaper) none() bool {
	r.look()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alone
}

// wait waits until no child is left. A child's child becomes ours with its parent's end, before we hear of that: so none
// left is nobody left.
func (r *reaper) wait(done <-chan struct{}) (alone bool) {
	for {
		r.look() // on the first round: what ended before is told by no signal any more
		r.mu.Lock()
		alone, news := r.alone, r.news
		r.mu.Unlock()
		if alone {
			return true
		}
		select {
		case <-news:
		case <-done:
			return false
		}
	}
}

// signal sends one to the child's process group, or to it alone, unless it has ended.
func (r *reaper) signal(c *child, sig syscall.Signal, group bool) {
	r.mu.Lock() // it may end, but its number isn't another's before it is reaped
	defer r.mu.Unlock()
	if r.known[c.pid] == nil {
		return
	}
	to := c.pid
	if group {
		to = -to
	}
	_ = syscall.Kill(to, sig) // it has ended: nobody needs to hear
}

// code is the exit code that stands for an end: the program's own, or 128 + the signal that killed it, as shells say it.
func code(how syscall.WaitStatus) int {
	if how.Signaled() {
		return 128 + int(how.Signal())
	}
	return how.ExitStatus()
}
