//go:build linux

package deployed

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider/server/internal/launch"
)

// This test binary is also what enters an image, as a container's runtime does: see enter.
const enterEnv = "EIDER_TEST_ENTER"

func TestMain(m *testing.M) {
	if root := os.Getenv(enterEnv); root != "" {
		enter(root)
	}
	os.Exit(m.Run())
}

// enter makes root all that this process sees, read only but for what is below data, becomes nobody and runs the rest of
// the command line. It doesn't return.
func enter(root string) {
	data := filepath.Join(root, "var/lib/eider")
	for _, step := range []func() error{
		func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") },
		func() error { return syscall.Mount(root, root, "", syscall.MS_BIND, "") },
		func() error { return syscall.Mount(data, data, "", syscall.MS_BIND, "") },
		func() error {
			return syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, "")
		},
		func() error { return syscall.Chroot(root) },
		func() error { return os.Chdir("/") },
		func() error { return syscall.Setgroups([]int{nobody}) },
		func() error { return syscall.Setgid(nobody) },
		func() error { return syscall.Setuid(nobody) },
		func() error { return syscall.Exec(os.Args[1], os.Args[1:], []string{}) },
	} {
		if err := step(); err != nil {
			os.Stderr.WriteString("enter: " + err.Error() + "\n")
			break
		}
	}
	os.Exit(99)
}

// nobody is the user of our images.
const nobody = 65532

// image is what a Containerfile says.
type image struct {
	base, user      string
	copied          map[string]string // where to, by where from
	entrypoint, cmd []string
}

func readImage(t *testing.T, name string) image {
	t.Helper()
	i := image{copied: map[string]string{}}
	for line := range strings.Lines(read(t, deploy+"container/"+name)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#", "EXPOSE":
		case "FROM":
			i.base = rest
		case "USER":
			i.user = rest
		case "COPY":
			args := slices.DeleteFunc(strings.Fields(rest), func(arg string) bool { return strings.HasPrefix(arg, "--") })
			i.copied[args[0]] = args[1]
		case "ENTRYPOINT", "CMD":
			to := &i.entrypoint
			if word == "CMD" {
				to = &i.cmd
			}
			if err := json.Unmarshal([]byte(rest), to); err != nil {
				t.Errorf("%s: %s is no list, so that a shell would run it: %v", name, word, err)
			}
		default:
			if !strings.HasPrefix(word, "#") {
				t.Errorf("%s: nobody has looked at %s", name, word)
			}
		}
	}
	return i
}

// Images hold what `make build` has built, run as nobody, and start what they hold with flags that it has.
func TestContainerfiles(t *testing.T) {
	makefile := read(t, "../../../Makefile")
	registry, program := readImage(t, "Containerfile"), readImage(t, "Containerfile.program")
	for _, i := range []image{registry, program} {
		if i.base != "scratch" || i.user != "65532:65532" || i.copied[strings.Replace(i.entrypoint[0], "/", "bin/", 1)] != i.entrypoint[0] {
			t.Errorf("it is built on %s, runs as %s, starts %v and holds %v", i.base, i.user, i.entrypoint, i.copied)
		}
		for from := range i.copied {
			if name, ours := strings.CutPrefix(from, "bin/"); ours && !regexp.MustCompile(`-o \$\(BIN\)/`+name+` `).MatchString(makefile) {
				t.Errorf("`make build` doesn't build %s", from)
			}
		}
	}
	if err := launch.Run("eider-run").Flags().Parse(program.entrypoint[1:]); err != nil {
		t.Error(err)
	}
	if err := serverFlags().Parse(registry.cmd[1:]); err != nil {
		t.Error(err)
	}
}

// The build is that of `make build` and of the demo, and so mostly from the cache.
//
// The registry runs on a root that holds it alone and that nobody can write to, as a user without a name, and keeps what it
// knows on a volume as Kubernetes gives it: root's, with its group's right to write.
func TestTheRegistryRunsInItsImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make a root of its own here")
	}
	root := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(root, "eider"), "../../cmd/eider")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	static(t, filepath.Join(root, "eider"))
	volume := filepath.Join(root, "var/lib/eider")
	for _, err := range []error{os.MkdirAll(volume, 0o755), os.Chown(volume, 0, nobody), os.Chmod(volume, 0o775|os.ModeSetgid), open(t, root)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	i := readImage(t, "Containerfile")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", slices.Concat(i.entrypoint, i.cmd, []string{"--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json"})...)
	cmd.Env = []string{enterEnv + "=" + root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no namespace of mounts can be had here: %v", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var at struct{ HTTP string }
	if err != nil || json.Unmarshal([]byte(line), &at) != nil {
		cancel()
		_ = cmd.Wait()
		t.Fatalf("it printed %q (%v); its log:\n%s", line, err, log.String())
	}
	inside(t, cmd.Process.Pid)
	if resp, err := http.Get("http://" + at.HTTP + "/readyz"); err != nil {
		t.Error(err)
	} else if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %s", resp.Status)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	info, err := os.Stat(filepath.Join(volume, "node", "snapshot"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != nobody {
		t.Errorf("it keeps nothing on its volume: %v\n%s", err, log.String())
	}
}

// open lets everybody into the folders down to root: those of a test are its user's.
func open(t *testing.T, root string) error {
	t.Helper()
	for at := root; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// inside holds what a process is to what was meant: nobody, who sees the binary and the volume alone.
func inside(t *testing.T, pid int) {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	entries, err := os.ReadDir(filepath.Join(proc, "root"))
	if err != nil {
		t.Error(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"eider", "var"}) {
		t.Errorf("it sees %v", names)
	}
	for _, want := range []string{`(?m)^Uid:\s+65532\s+65532\s+65532`, `(?m)^CapEff:\s+0+$`} {
		if !regexp.MustCompile(want).MatchString(read(t, filepath.Join(proc, "status"))) {
			t.Errorf("its status hasn't %s", want)
		}
	}
	if !regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ / ro,`).MatchString(read(t, filepath.Join(proc, "mountinfo"))) {
		t.Error("its root can be written to")
	}
}

// static tells whether a binary needs nobody else to be run.
func static(t *testing.T, name string) {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s wants a loader, which its image hasn't", name)
		}
	}
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("%s wants %v (%v)", name, libraries, err)
	}
}
