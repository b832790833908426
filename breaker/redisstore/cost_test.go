package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/breaker/redisstore"
)

// scripts is how many commands of a Store's own there were between two counts of calls.
func scripts(before, after map[string]int) int {
	return after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"]
}

func TestOneCommandForEachCall(t *testing.T) {
	s := start(t)
	store, other := redisstore.New(s.client(t), redisstore.Config{Poll: time.Hour}), redisstore.New(s.client(t), redisstore.Config{})
	version := swapped(t, store, "orders", 0, "open")
	told(t, store, "orders")
	w := watch(t, store, "orders")
	w.sees(t, version)
	subscribed(t, s, 1)
	// Three scripts were unknown, and sent after all; and the Watch has read again once it was subscribed.
	until(t, "it has read again", func() bool { return scripts(nil, s.calls(t)) == 7 })
	measure := func(what string, want int, f func()) map[string]int {
		t.Helper()
		before := s.calls(t)
		f()
		after := s.calls(t)
		if n := scripts(before, after); n != want {
			t.Errorf("%s: %d commands, want %d", what, n, want)
		}
		spent := map[string]int{}
		for name, n := range after {
			spent[name] = n - before[name]
		}
		return spent
	}
	spent := measure("100 times Tell, with a Watch", 100, func() {
		for i := range 100 {
			if _, err := store.Tell(t.Context(), "orders", fmt.Sprint("caller ", i), []byte("1"), false); err != nil {
				t.Fatal(err)
			}
		}
	})
	if spent["hgetall"] != 0 || spent["pexpire"] > 1 {
		t.Errorf("100 times Tell by healthy callers: all counts read %d times, the expiry written %d times", spent["hgetall"], spent["pexpire"])
	}
	spent = measure("100 times Tell at rest, with a Watch", 100, func() {
		for range 100 {
			told(t, store, "orders")
		}
	})
	if spent["hset"] != 0 || spent["pexpire"] != 0 {
		t.Errorf("100 times Tell with nothing to tell: written %d times, the expiry %d times", spent["hset"], spent["pexpire"])
	}
	measure("a Swap of one's own, with a Watch", 2, func() {
		version = swapped(t, store, "orders", version, "half-open")
		w.sees(t, version)
	})
	measure("a Swap of another's, with a Watch", 2, func() {
		version = swapped(t, other, "orders", version, "closed")
		w.sees(t, version)
	})
	measure("a Swap that fails", 1, func() {
		if _, ok, err := other.Swap(t.Context(), "orders", 1, nil); ok || err != nil {
			t.Error(ok, err)
		}
	})
	if n := s.do(t, "DBSIZE"); n != int64(1) {
		t.Errorf("%d keys in Redis for one", n)
	}
}

// Callers too many are told apart without looking at all of those that are kept each time, and what is too old makes room.
func TestCallersTooMany(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{})
	tell := func(caller string) {
		t.Helper()
		if _, err := store.Tell(t.Context(), "orders", caller, []byte("1"), false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range fleet.MostCallers + 10 {
		tell(fmt.Sprint("caller ", i))
	}
	before, begun := s.calls(t), time.Now()
	for i := range 200 {
		tell(fmt.Sprint("too many ", i))
	}
	if looked := s.calls(t)["hgetall"] - before["hgetall"]; float64(looked) > 2+time.Since(begun).Seconds() {
		t.Errorf("200 callers too many in %v: all counts were looked at %d times", time.Since(begun), looked)
	}
	pass(t, s.client(t), fleet.KeepCounts+time.Second)
	tell("late")
	seen, err := store.Tell(t.Context(), "orders", "late", []byte("1"), true)
	if err != nil || len(seen.Counts) != 1 || seen.Counts[0].Caller != "late" {
		t.Errorf("once the others are too old: %d counts, %v", len(seen.Counts), err)
	}
	if n := s.do(t, "HLEN", "eider:fleet:orders").(int64); n > 5 {
		t.Errorf("%d fields are kept", n)
	}
}

// Nothing in Redis stays for ever, and nothing goes before Keep.
func TestEverythingExpires(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{})
	if _, err := store.Tell(t.Context(), "counts alone", "a", []byte("1"), false); err != nil {
		t.Fatal(err)
	}
	swapped(t, store, "record alone", 0, "open")
	told(t, store, "nothing")
	for _, key := range []string{"counts alone", "record alone"} {
		left := time.Duration(s.do(t, "PTTL", "eider:fleet:"+key).(int64)) * time.Millisecond
		if left < fleet.Keep || left > fleet.Keep+2*time.Minute {
			t.Errorf("%s expires in %v", key, left)
		}
	}
	pass(t, s.client(t), 2*time.Minute)
	told(t, store, "record alone")
	if left := time.Duration(s.do(t, "PTTL", "eider:fleet:record alone").(int64)) * time.Millisecond; left < fleet.Keep {
		t.Errorf("told of, it expires in %v", left)
	}
	pass(t, s.client(t), fleet.Keep+2*time.Minute)
	if n := s.do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("%v keys are left: %v", n, s.do(t, "KEYS", "*"))
	}
}

// recorder keeps what a client sends.
type recorder struct {
	mu   sync.Mutex
	sent [][]any
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			r.mu.Lock()
			r.sent = append(r.sent, slices.Clone(cmd.Args()))
			r.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

func (r *recorder) take() [][]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.sent
	r.sent = nil
	return out
}

// No clock of a client's goes in: what a client sends is the same at any time, but for the version that it draws.
func TestWhatIsSentTellsNoTime(t *testing.T) {
	s := start(t)
	c, r := s.client(t), &recorder{}
	c.AddHook(r)
	store := redisstore.New(c, redisstore.Config{})
	all := func() [][]any {
		for range 2 { // once all scripts are known
			s.do(t, "FLUSHALL")
			r.take()
			if _, err := store.Tell(t.Context(), "orders", "a", []byte("1"), true); err != nil {
				t.Fatal(err)
			}
			swapped(t, store, "orders", swapped(t, store, "orders", 0, "open"), "closed")
			for range store.Watch(t.Context(), "orders") {
				break
			}
		}
		return r.take()
	}
	words := func(sent []any) []string {
		var out []string
		for _, a := range sent {
			if b, ok := a.([]byte); ok {
				a = string(b)
			}
			out = append(out, fmt.Sprint(a))
		}
		return out
	}
	first := all()
	<-time.After(20 * time.Millisecond)
	second := all()
	if len(first) != 4 || len(second) != 4 {
		t.Fatalf("sent: %v, and %v; want Tell, Swap, Swap and a read", first, second)
	}
	for i := range first {
		a, b := words(first[i]), words(second[i])
		differ := 0
		for j := range a {
			if a[j] != b[j] {
				differ++
			}
		}
		if most := []int{0, 1, 2, 0}[i]; differ > most || len(a) != len(b) {
			t.Errorf("sent at one time: %q, at another %q: %d words differ, at most %d versions do", a, b, differ, most)
		}
	}
}

// netBytes is what went over the wire, to Redis and back.
func (s *server) netBytes(t *testing.T) (in, out int) {
	t.Helper()
	for line := range strings.Lines(s.do(t, "INFO", "stats").(string)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "total_net_input_bytes":
			in, _ = strconv.Atoi(value)
		case "total_net_output_bytes":
			out, _ = strconv.Atoi(value)
		}
	}
	return in, out
}

// What the documentation says of bytes is so.
func TestBytesOfATell(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{})
	swapped(t, store, "orders", 0, strings.Repeat("r", 200))
	told(t, store, "orders")
	const times = 200
	in, out := s.netBytes(t)
	for range times {
		if _, err := store.Tell(t.Context(), "orders", "caller-0123456789ab", []byte(strings.Repeat("c", 60)), false); err != nil {
			t.Fatal(err)
		}
	}
	in2, out2 := s.netBytes(t)
	sent, got := (in2-in)/times, (out2-out)/times
	t.Logf("a Tell of 60 bytes, a record of 200: %d bytes to Redis, %d back", sent, got)
	if sent > 350 || got > 350 {
		t.Errorf("a Tell of 60 bytes, a record of 200: %d bytes to Redis, %d back, said to be at most 350 each", sent, got)
	}
}
