package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// member is a real etcd, of a cluster of one or more, that a test may kill, stop and start anew.
type member struct {
	name, dir    string // what it says is in a file beside its disk
	client, peer string // their addresses
	all          string // the cluster, as etcd is told it
	cmd          *exec.Cmd
	ended        chan struct{}
	output       *os.File
}

// patience is for what must come; only what is broken takes so long.
const patience = time.Minute

// shared is the etcd of all tests that do it no harm; each has a prefix of its own.
var shared struct {
	once   sync.Once
	member *member
	dir    string
	err    error
	worlds atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.member != nil {
		shared.member.end(syscall.SIGKILL)
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// common is a client of the shared etcd, and a prefix that nobody else has.
func common(t *testing.T) (*clientv3.Client, Config) {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "etcdstore-"); shared.err != nil {
			return
		}
		var members []*member
		if members, shared.err = start(shared.dir, 1); shared.err == nil {
			shared.member = members[0]
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return dial(t, shared.member), Config{Prefix: fmt.Sprint("world ", shared.worlds.Add(1))}
}

// cluster is one that the test has for itself.
func cluster(t *testing.T, size int) []*member {
	t.Helper()
	members, err := start(t.TempDir(), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range members {
			m.end(syscall.SIGKILL)
			if t.Failed() {
				t.Logf("what %s said last:\n%s", m.name, m.said())
			}
		}
	})
	return members
}

// program is etcd's own main package, as go.mod pins it; go builds it once and keeps it.
var program = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "go.etcd.io/etcd/server/v3").Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("building etcd: %w\n%s", err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// start makes a cluster on free ports. Other processes may take those meanwhile, so that it tries again.
func start(dir string, size int) (members []*member, err error) {
	for try := range 5 {
		members = nil
		var all []string
		for i := range size {
			m := &member{name: fmt.Sprint("m", i), dir: filepath.Join(dir, fmt.Sprint(try, "-", i)), client: freePort(), peer: freePort()}
			all = append(all, m.name+"=http://"+m.peer)
			members = append(members, m)
		}
		for _, m := range members {
			m.all = strings.Join(all, ",")
			if err = m.run(); err != nil {
				return nil, err
			}
		}
		if err = ready(members...); err == nil {
			return members, nil
		}
		for _, m := range members {
			m.end(syscall.SIGKILL)
		}
	}
	return nil, err
}

// freePort is below those that the system hands out itself.
func freePort() string {
	for {
		addr := fmt.Sprint("127.0.0.1:", 12000+rand.IntN(20000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
}

// run starts the process, with what disk it has.
func (m *member) run() error {
	etcd, err := program()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	if m.output, err = os.OpenFile(m.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	m.cmd = exec.Command(etcd, "--name", m.name, "--data-dir", m.dir,
		"--listen-client-urls", "http://"+m.client, "--advertise-client-urls", "http://"+m.client,
		"--listen-peer-urls", "http://"+m.peer, "--initial-advertise-peer-urls", "http://"+m.peer,
		"--initial-cluster", m.all, "--unsafe-no-fsync", "--log-level", "warn",
		"--heartbeat-interval", "100", "--election-timeout", "1000")
	m.cmd.Stdout, m.cmd.Stderr = m.output, m.output
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begun := make(chan error)
	m.ended = make(chan struct{})
	go func() {
		runtime.LockOSThread() // the signal comes when this thread ends, and it mustn't before the process has
		defer runtime.UnlockOSThread()
		defer close(m.ended)
		err := m.cmd.Start()
		begun <- err
		if err == nil {
			_ = m.cmd.Wait()
		}
		_ = m.output.Close()
	}()
	return <-begun
}

// end ends it by a signal, and waits until it has.
func (m *member) end(how syscall.Signal) {
	_ = m.cmd.Process.Signal(how)
	<-m.ended
}

// stop has it hang, every thread of it, until it goes on.
func (m *member) stop(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all threads have stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.cmd.Process.Pid))
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(name string) bool {
			text, err := os.ReadFile(name)
			_, state, _ := strings.Cut(string(text), ") ")
			return err == nil && !strings.HasPrefix(state, "T")
		})
	})
}

func (m *member) goOn(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// again starts it once more and waits until it serves.
func (m *member) again(t *testing.T) {
	t.Helper()
	if err := m.run(); err != nil {
		t.Fatal(err)
	}
	if err := ready(m); err != nil {
		t.Fatal(err)
	}
}

// ready waits until each serves reads that a quorum has agreed to.
func ready(members ...*member) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, m := range members {
		client, err := clientv3.New(settings(m))
		if err != nil {
			return err
		}
		for {
			once, stop := context.WithTimeout(ctx, time.Second)
			_, err = client.Get(once, "ready")
			stop()
			if err == nil || ctx.Err() != nil || m.isOver() {
				break
			}
		}
		_ = client.Close()
		if err != nil {
			return fmt.Errorf("%s isn't ready: %w\n%s", m.name, err, m.said())
		}
	}
	return nil
}

func (m *member) said() []byte {
	said, _ := os.ReadFile(m.dir + ".log")
	return said[max(0, len(said)-3000):]
}

func (m *member) isOver() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

func settings(members ...*member) clientv3.Config {
	c := clientv3.Config{Logger: zap.NewNop(), DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second}
	for _, m := range members {
		c.Endpoints = append(c.Endpoints, "http://"+m.client)
	}
	return c
}

func dial(t *testing.T, members ...*member) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(settings(members...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
