package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a real redis-server on a free port, without a disk.
type redisServer struct {
	cmd    *exec.Cmd
	addr   string
	client *redis.Client // to ask what it has done
}

func startRedis() (*redisServer, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w: install it (Debian: redis-server)", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	if err := free.Close(); err != nil {
		return nil, err
	}
	s := &redisServer{addr: addr, cmd: exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", os.TempDir())}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it hears nothing of the end of who started it
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	redis.SetLogger(mute{})
	s.client = redis.NewClient(&redis.Options{Addr: addr})
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		err := s.client.Ping(context.Background()).Err()
		if err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("redis-server at %s doesn't answer: %w", addr, err), s.Close())
		}
	}
}

// Close ends it.
func (s *redisServer) Close() error {
	err := s.client.Close()
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	return err
}

// commands is how often each has been called since the server began, without those that ask for this.
// What a script calls is counted beside the script.
func (s *redisServer) commands(ctx context.Context) (map[string]int, error) {
	text, err := s.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok || name == "info" || name == "ping" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if all[name], err = strconv.Atoi(calls); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// bytes is what has come in and gone out since the server began.
func (s *redisServer) bytes(ctx context.Context) (in, out int, err error) {
	text, err := s.client.Info(ctx, "stats").Result()
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "total_net_input_bytes":
			in, err = strconv.Atoi(value)
		case "total_net_output_bytes":
			out, err = strconv.Atoi(value)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return in, out, nil
}

// trips is a hook that counts what a client sends and waits for: a command by itself, or a pipeline of them.
type trips struct{ atomic.Int64 }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.Add(1)
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.Add(1)
		return next(ctx, cmds)
	}
}

// mute keeps the client from writing to standard error what its callers hear anyway.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

// during counts the commands that are called while something is done.
func (s *redisServer) during(do func() error) (map[string]int, error) {
	ctx := context.Background()
	before, err := s.commands(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := s.commands(ctx)
	for name := range after {
		if after[name] -= before[name]; after[name] == 0 {
			delete(after, name)
		}
	}
	return after, err
}

func sum(of map[string]int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

// roundTrip is the median time of a bare PING, one after the other.
func (s *redisServer) roundTrip(n int) (time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		if err := s.client.Ping(context.Background()).Err(); err != nil {
			return 0, err
		}
		times[i] = time.Since(start)
	}
	return median(times), nil
}
