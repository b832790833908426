package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpu returns the processor time that a process has used, as its scheduler counts it. On a busy machine it says
// more than the time that has passed. Threads that have ended take theirs with them; Go's don't end.
func cpu(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // this one has ended
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += time.Duration(ns)
	}
	if sum == 0 {
		return 0, fmt.Errorf("no processor time of process %d is known here; it is read from /proc/PID/task/*/schedstat", pid)
	}
	return sum, nil
}

// cpus is what both ends of a measurement have used.
type cpus struct{ client, server time.Duration }

func (p *process) cpus() (c cpus, err error) {
	if c.client, err = cpu(os.Getpid()); err != nil {
		return c, err
	}
	c.server, err = cpu(p.cmd.Process.Pid)
	return c, err
}

func (c cpus) since(before cpus) cpus {
	return cpus{c.client - before.client, c.server - before.server}
}
