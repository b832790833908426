package check

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// command is a program that exits with 0.
type command struct {
	words []string
	run   func(ctx context.Context, words []string) error // nil: by itself
}

func (c command) String() string { return "exec:" + strings.Join(c.words, " ") }

// Do implements Check.
func (c command) Do(ctx context.Context) error {
	if c.run != nil {
		return c.run(ctx, c.words)
	}
	return runGroup(ctx, c.words)
}

// runGroup runs a program in a process group of its own, and kills the group when ctx ends: what a probe has started
// must not outlive it, or there is one more of it every two seconds.
func runGroup(ctx context.Context, words []string) error {
	p := exec.CommandContext(ctx, words[0], words[1:]...)
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) }
	p.WaitDelay = time.Second
	return p.Run()
}
