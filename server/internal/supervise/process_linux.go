package supervise

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/eiderhq/eider/server/internal/harmless"
)

// adopt makes orphans of the program this process' children, as they are PID 1's: else nobody could wait for them.
func adopt() {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
}

// bound has the program killed should this process be: nobody would be there to renew its lease, or to have it leave.
// With PID 1 all of its namespace ends.
func bound() (attr syscall.SysProcAttr) {
	if os.Getpid() != 1 {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// process is what /proc says of one.
type process struct {
	pid, parent, group int
	name               string
	gone               bool // it has ended, and waits to be reaped
}

// descendants lists the processes below this one. Without /proc, or with that of another namespace, it can't be told.
func descendants() (below []process, ok bool) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, false
	}
	folder, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	children := make(map[int][]process)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, found := look(pid); found {
				children[p.parent] = append(children[p.parent], p)
			}
		}
	}
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			below = append(below, p)
			next = append(next, p.pid)
		}
	}
	return below, true
}

// look reads one line as "7 (a (name) S 1 7 7 …": the name may hold anything, its last parenthesis ends it.
func look(pid int) (p process, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if begin < 0 || end < begin || len(fields) < 3 {
		return p, false
	}
	p.pid, p.name, p.gone = pid, harmless.Text(string(text[begin+1:end])), string(fields[0]) == "Z"
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.group, _ = strconv.Atoi(string(fields[2]))
	return p, true
}
