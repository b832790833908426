package lab_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A root has a static binary and a static program and nothing else: no shell, no libc, no home, no /proc, no /tmp, and
// none of it can be written to. What runs in it is PID 1, as in an image from scratch.

// TestEnterRoot is no test, but what steps into a root and becomes what runs there.
func TestEnterRoot(t *testing.T) {
	if os.Getenv(rootVariable) == "" {
		t.Skip("not asked to")
	}
	t.Fatal(enter(os.Getenv(rootVariable), flag.Args()))
}

const rootVariable = "EIDER_LAB_ROOT"

// enter returns only if it fails. It runs in namespaces of its own, whose first process it is.
func enter(root string, argv []string) error {
	for _, step := range []struct {
		source, target string
		flags          uintptr
	}{
		{"none", "/", syscall.MS_REC | syscall.MS_PRIVATE},
		{root, root, syscall.MS_BIND},
		{"none", root, syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV},
	} {
		if err := syscall.Mount(step.source, step.target, "", step.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", step.target, err)
		}
	}
	if err := errors.Join(os.Chdir(root), syscall.Chroot("."), os.Chdir("/")); err != nil {
		return fmt.Errorf("changing the root to %s: %w", root, err)
	}
	return fmt.Errorf("starting %s: %w", argv[0], syscall.Exec(argv[0], argv, []string{}))
}

// root is a folder that holds eider-run and the program.
type root struct{ folder string }

// newRoot builds both; a machine that gives nobody namespaces has none.
func newRoot(t *testing.T) root {
	t.Helper()
	r := root{t.TempDir()}
	build(t, "../../cmd/eider-run", filepath.Join(r.folder, "eider-run"))
	build(t, "./testdata/program", filepath.Join(r.folder, "program"))
	try := r.command("/nothing")
	out, err := try.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || bytes.Contains(out, []byte(syscall.EPERM.Error())) {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must be able to make namespaces: %v: %s", err, out)
		}
		t.Skipf("this machine lets nobody make namespaces: %v: %s", err, out)
	}
	return r
}

// command is what runs argv in the root, as PID 1; the network is the test's.
func (r root) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestEnterRoot$", "--"}, argv...)...)
	cmd.Env = append(os.Environ(), rootVariable+"="+r.folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// run is `eider-run` with the program, as lab.Options.Run has it.
func (r root) run(flags []string, address string, work time.Duration) *exec.Cmd {
	argv := append([]string{"/eider-run"}, flags...)
	return r.command(append(argv, "--", "/program", address, work.String())...)
}
