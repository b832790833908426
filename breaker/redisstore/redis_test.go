package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/breaker/redisstore"
	"github.com/eiderhq/eider/internal/fleettest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it tells of every server that a test has killed
	goleak.VerifyTestMain(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

const patience = time.Minute // for what must come; only what is broken takes so long

// server is a redis-server of this test, without a disk.
type server struct {
	addr string
	args []string
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
	log  *bytes.Buffer
}

func start(t *testing.T, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("no redis-server on the PATH: apt-get install redis-server, or run tools/need.sh")
	}
	dir := t.TempDir()
	for try := 0; ; try++ {
		port := free(t)
		s := &server{addr: "127.0.0.1:" + port, args: append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
			"--repl-diskless-sync-delay", "0", "--cluster-config-file", "nodes-" + port + ".conf"}, args...)}
		t.Cleanup(s.kill)
		err := s.begin()
		if err == nil {
			return s
		}
		s.kill()
		if try == 5 { // somebody else may have taken the port
			t.Fatal(err)
		}
	}
}

func free(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 55000 { // a node of a cluster takes this one and the one 10,000 above
			return strconv.Itoa(port)
		}
	}
}

// begin starts the process, and waits until it answers.
func (s *server) begin() error {
	s.log = &bytes.Buffer{}
	s.cmd = exec.Command("redis-server", s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.gone = make(chan struct{})
	go func(cmd *exec.Cmd, gone chan struct{}) { cmd.Wait(); close(gone) }(s.cmd, s.gone)
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer c.Close()
	var err error
	for late := time.Now().Add(patience); time.Now().Before(late); <-time.After(5 * time.Millisecond) {
		if err = c.Ping(context.Background()).Err(); err == nil {
			break
		}
		select {
		case <-s.gone:
			return fmt.Errorf("redis-server has ended:\n%s", s.log)
		default:
		}
	}
	if err != nil {
		s.kill()
		return fmt.Errorf("redis-server doesn't answer at %s: %w\n%s", s.addr, err, s.log)
	}
	return nil
}

func (s *server) kill() {
	if s.gone == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.gone
}

func (s *server) restart(t *testing.T) {
	t.Helper()
	if err := s.begin(); err != nil {
		t.Fatal(err)
	}
}

func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// client is one as its users make it: nothing set but where the server is.
func (s *server) client(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { c.Close() })
	return c
}

// do is what an operator types.
func (s *server) do(t *testing.T, args ...any) any {
	t.Helper()
	v, err := s.client(t).Do(t.Context(), args...).Result()
	if err != nil && err != redis.Nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// calls is how often each command has been executed, those inside scripts too.
func (s *server) calls(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for line := range strings.Lines(s.do(t, "INFO", "commandstats").(string)) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			out[name], _ = strconv.Atoi(n)
		}
	}
	return out
}

func (s *server) world(t *testing.T, config redisstore.Config) fleettest.World {
	return fleettest.World{
		Store:  redisstore.New(s.client(t), config),
		Second: redisstore.New(s.client(t), config),
		Flush:  func(t *testing.T) { s.do(t, "FLUSHALL") },
		Pass:   func(t *testing.T, passed time.Duration) { pass(t, s.client(t), passed) },
	}
}

// pass makes all that is kept older: what Redis does with time it does by the times in its fields and by their expiry.
func pass(t *testing.T, c redis.UniversalClient, passed time.Duration) {
	t.Helper()
	older := redis.NewScript(`
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local all = redis.call('HGETALL', key)
			for i = 1, #all, 2 do
				local at, rest = string.match(all[i + 1], '^(%d+)(.*)$')
				if all[i] == 't' or all[i] == 'p' or string.sub(all[i], 1, 2) == 'c:' then
					redis.call('HSET', key, all[i], string.format('%.0f', at - ARGV[1]) .. rest)
				end
			end
			redis.call('PEXPIRE', key, redis.call('PTTL', key) - ARGV[1] / 1000)
		end`)
	if err := older.Run(t.Context(), c, nil, passed.Microseconds()).Err(); err != nil && err != redis.Nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	s := start(t)
	fleettest.Suite(t, func(t *testing.T) fleettest.World {
		s.do(t, "FLUSHALL")
		return s.world(t, redisstore.Config{Poll: 500 * time.Millisecond})
	})
}

// One node of a Cluster, which refuses a command whose keys aren't all declared, or aren't of one slot.
func TestStoreInACluster(t *testing.T) {
	s := start(t, "--cluster-enabled", "yes")
	slots := []any{"CLUSTER", "ADDSLOTS"}
	for slot := range 16384 {
		slots = append(slots, slot)
	}
	s.do(t, slots...)
	until(t, "the cluster is up", func() bool { return strings.Contains(s.do(t, "CLUSTER", "INFO").(string), "cluster_state:ok") })
	client := func(t *testing.T) redis.UniversalClient {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}})
		t.Cleanup(func() { c.Close() })
		return c
	}
	config := redisstore.Config{Poll: 500 * time.Millisecond}
	fleettest.Suite(t, func(t *testing.T) fleettest.World {
		s.do(t, "FLUSHALL")
		w := s.world(t, config)
		w.Store, w.Second = redisstore.New(client(t), config), redisstore.New(client(t), config)
		return w
	})
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited %v: %s", patience, what)
		}
	}
}

var _ fleet.Store = (*redisstore.Store)(nil)
