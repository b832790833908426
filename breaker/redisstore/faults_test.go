package redisstore_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/breaker/redisstore"
)

// watched is what a Watch yields: the sights, and at the end its error.
type watched struct {
	sights chan fleet.Sight
	ended  chan error
}

func watch(t *testing.T, s fleet.Store, key string) *watched {
	w := &watched{make(chan fleet.Sight, 100), make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for seen, err := range s.Watch(ctx, key) {
			if err != nil {
				w.ended <- err
				return
			}
			w.sights <- seen
		}
	}()
	t.Cleanup(func() { stop(); <-gone })
	return w
}

// sees waits for a version and returns how many others came before it.
func (w *watched) sees(t *testing.T, version uint64) (others int) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case s := <-w.sights:
			if s.Version == version {
				return others
			}
			others++
		case err := <-w.ended:
			t.Fatalf("waiting for version %d: the watch ended with %v", version, err)
		case <-late:
			t.Fatalf("version %d hasn't come in %v", version, patience)
		}
	}
}

func (w *watched) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the watch hasn't ended in %v", patience)
		return nil
	}
}

func swapped(t *testing.T, s fleet.Store, key string, version uint64, record string) uint64 {
	t.Helper()
	seen, ok, err := s.Swap(t.Context(), key, version, []byte(record))
	if err != nil || !ok {
		t.Fatalf("Swap at %d: %v, %v, %+v", version, ok, err, seen)
	}
	return seen.Version
}

func told(t *testing.T, s fleet.Store, key string) fleet.Sight {
	t.Helper()
	seen, err := s.Tell(t.Context(), key, "looks", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// A server that dies takes its connections with it: who watches is told at once, without waiting for a poll, and one that is
// back without its data is an empty one.
func TestKilledAndBackEmpty(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{Poll: time.Hour})
	version := swapped(t, store, "orders", 0, "open")
	w := watch(t, store, "orders")
	w.sees(t, version)
	subscribed(t, s, 1)
	s.kill()
	if err := w.ends(t); !strings.Contains(err.Error(), "Redis, Watch of \"orders\"") {
		t.Errorf("the watch of a server that died: %v", err)
	}
	if _, err := store.Tell(t.Context(), "orders", "a", []byte("1"), false); err == nil {
		t.Error("Tell to a server that died: no error")
	}
	if _, ok, err := store.Swap(t.Context(), "orders", version, []byte("closed")); ok || err == nil {
		t.Errorf("Swap at a server that died: %v, %v", ok, err)
	}
	s.restart(t)
	until(t, "Tell works again", func() bool {
		seen, err := store.Tell(t.Context(), "orders", "a", nil, false)
		return err == nil && seen.Version == 0
	})
	w = watch(t, store, "orders")
	w.sees(t, 0)
	w.sees(t, swapped(t, store, "orders", 0, "open"))
}

// The client is the user's, and go-redis' clients don't look at a context once they wait for an answer. This one would wait for
// ever; each call returns when its context ends, and what waits behind it is bounded.
func TestStoppedEveryCallReturnsByItsContext(t *testing.T) {
	s := start(t)
	c := redis.NewClient(&redis.Options{Addr: s.addr, ReadTimeout: -1, WriteTimeout: -1, PoolSize: 1000, MaxConcurrentDials: 1000})
	t.Cleanup(func() { c.Close() })
	store := redisstore.New(c, redisstore.Config{Poll: 100 * time.Millisecond, Timeout: 100 * time.Millisecond})
	version := swapped(t, store, "orders", 0, "open")
	w := watch(t, store, "orders")
	w.sees(t, version)
	var warm []*redis.Conn // a connection for each call, so that each waits for an answer
	for range 400 {
		warm = append(warm, c.Conn())
		if err := warm[len(warm)-1].Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range warm {
		one.Close()
	}
	before := runtime.NumGoroutine()
	s.signal(t, syscall.SIGSTOP)
	defer time.AfterFunc(patience, func() { s.signal(t, syscall.SIGCONT) }).Stop() // else a call that waits, waits for ever
	if err := w.ends(t); !strings.Contains(err.Error(), "no answer in 100ms") {
		t.Errorf("the watch of a server that hangs: %v", err)
	}
	for i := range 400 {
		ctx, done := context.WithTimeout(t.Context(), 5*time.Millisecond)
		var err error
		if i%2 == 0 {
			_, err = store.Tell(ctx, "orders", "a", []byte("1"), true)
		} else {
			_, _, err = store.Swap(ctx, "orders", version, []byte("closed"))
		}
		done()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if more := runtime.NumGoroutine() - before; more > 256+50 {
		t.Errorf("400 calls of a server that hangs have left %d goroutines", more)
	}
	s.signal(t, syscall.SIGCONT)
	until(t, "what waited has gone", func() bool { return runtime.NumGoroutine() <= before })
	told(t, store, "orders")
}

// Redis says nothing when it is flushed. Who watches learns of it by what the same Store is told, here, or by the next poll, as
// the suite has it.
func TestFlushedATellTellsTheWatch(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{Poll: time.Hour})
	version := swapped(t, store, "orders", 0, "open")
	w := watch(t, store, "orders")
	w.sees(t, version)
	s.do(t, "FLUSHALL")
	told(t, store, "orders")
	w.sees(t, 0)
}

func TestScriptsFlushed(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{})
	version := swapped(t, store, "orders", 0, "open")
	for range 3 {
		s.do(t, "SCRIPT", "FLUSH")
		if told(t, store, "orders").Version != version {
			t.Error("Tell sees another version")
		}
		s.do(t, "SCRIPT", "FLUSH")
		version = swapped(t, store, "orders", version, "closed")
		s.do(t, "SCRIPT", "FLUSH")
		watch(t, store, "orders").sees(t, version)
	}
}

// A replica that lacks the last writes is promoted, and the client follows: what was seen last is gone, what is there was seen
// before, and nobody who slept through it can swap.
func TestFailoverToAReplicaThatLacksTheLastWrites(t *testing.T) {
	master, replica := start(t), start(t)
	var addr atomic.Pointer[string]
	addr.Store(&master.addr)
	c := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", *addr.Load())
	}})
	t.Cleanup(func() { c.Close() })
	store := redisstore.New(c, redisstore.Config{Poll: time.Hour, Timeout: patience})
	host, port, _ := net.SplitHostPort(master.addr)
	replica.do(t, "REPLICAOF", host, port)
	kept := swapped(t, store, "orders", 0, "open")
	until(t, "the replica has the record", func() bool {
		return strings.Contains(replica.do(t, "INFO", "replication").(string), "master_link_status:up") && replica.do(t, "EXISTS", "eider:fleet:orders") == int64(1)
	})
	replica.do(t, "REPLICAOF", "NO", "ONE")
	lost := swapped(t, store, "orders", kept, "half-open: a permit was given")
	w := watch(t, store, "orders")
	w.sees(t, lost)
	subscribed(t, master, 1)
	addr.Store(&replica.addr)
	master.kill()
	w.sees(t, kept)
	if seen, ok, err := store.Swap(t.Context(), "orders", lost, []byte("closed: the verdict")); ok || err != nil || seen.Version != kept {
		t.Errorf("a swap of what was lost: %v, %v, %+v", ok, err, seen)
	}
	again := swapped(t, store, "orders", kept, "half-open: another permit")
	if again == lost {
		t.Error("the version that was lost has come back")
	}
	w.sees(t, again)
}

// Full and told to throw nothing away, Redis takes no count and no record. Callers at rest have nothing to write, and go on.
func TestFull(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{})
	version := swapped(t, store, "orders", 0, "open")
	s.do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.do(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := store.Tell(t.Context(), "orders", "a", []byte("1"), true); err == nil || !strings.Contains(err.Error(), "raise its maxmemory") {
		t.Errorf("Tell: %v", err)
	}
	if _, ok, err := store.Swap(t.Context(), "orders", version, []byte("closed")); ok || err == nil || !strings.Contains(err.Error(), "raise its maxmemory") {
		t.Errorf("Swap: %v, %v", ok, err)
	}
	if seen := told(t, store, "orders"); seen.Version != version || string(seen.Record) != "open" {
		t.Errorf("at rest: %+v", seen)
	}
	s.do(t, "CONFIG", "SET", "maxmemory", "0")
	swapped(t, store, "orders", version, "closed")
}

// The documented ACL is enough; without its channel nothing is written, and a Watch doesn't go on without a push.
func TestWhatTheUserMustBeAllowed(t *testing.T) {
	s := start(t)
	acl := []any{"ACL", "SETUSER", "fleets", "on", ">secret-of-fleets", "~eider:fleet:*", "resetchannels", "&eider:fleet:changed"}
	for command := range strings.FieldsSeq(documented(t, "commands")) {
		acl = append(acl, "+"+command)
	}
	s.do(t, acl...)
	client := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: s.addr, Username: "fleets", Password: "secret-of-fleets"})
		t.Cleanup(func() { c.Close() })
		return c
	}
	store := redisstore.New(client(), redisstore.Config{})
	w := watch(t, store, "orders")
	w.sees(t, 0)
	subscribed(t, s, 1)
	version := swapped(t, redisstore.New(client(), redisstore.Config{}), "orders", 0, "open")
	w.sees(t, version)
	if _, err := store.Tell(t.Context(), "orders", "a", []byte("1"), true); err != nil {
		t.Error(err)
	}
	s.do(t, "ACL", "SETUSER", "fleets", "resetchannels")
	store = redisstore.New(client(), redisstore.Config{Poll: 50 * time.Millisecond})
	if _, ok, err := store.Swap(t.Context(), "orders", version, []byte("closed")); ok || err == nil || !strings.Contains(err.Error(), "documentation of package redisstore") {
		t.Errorf("Swap without its channel: %v, %v", ok, err)
	}
	if seen := told(t, store, "orders"); seen.Version != version {
		t.Errorf("what was refused is written: %+v", seen)
	}
	if err := watch(t, store, "orders").ends(t); !strings.Contains(err.Error(), "documentation of package redisstore") {
		t.Errorf("Watch without its channel: %v", err)
	}
	wrong := redis.NewClient(&redis.Options{Addr: s.addr, Username: "fleets", Password: "not the secret"})
	defer wrong.Close()
	_, err := redisstore.New(wrong, redisstore.Config{}).Tell(t.Context(), "orders", "a", []byte("told"), false)
	if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "told") {
		t.Errorf("a wrong password: %v", err)
	}
}

// What somebody else wrote is an error that says so, never a record.
func TestSomebodyElsesKey(t *testing.T) {
	s := start(t)
	store := redisstore.New(s.client(t), redisstore.Config{Prefix: "app:"})
	s.do(t, "SET", "app:orders", "theirs")
	s.do(t, "HSET", "app:tills", "v", "the third", "r", "theirs", "t", "1")
	for _, key := range []string{"orders", "tills"} {
		if _, err := store.Tell(t.Context(), key, "a", nil, true); err == nil || !strings.Contains(err.Error(), "another Prefix") {
			t.Errorf("Tell of %s: %v", key, err)
		}
		if _, ok, err := store.Swap(t.Context(), key, 1, nil); ok || err == nil || !strings.Contains(err.Error(), "another Prefix") {
			t.Errorf("Swap of %s: %v, %v", key, ok, err)
		}
		if err := watch(t, store, key).ends(t); !strings.Contains(err.Error(), "another Prefix") {
			t.Errorf("Watch of %s: %v", key, err)
		}
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": s.addr}})
	defer ring.Close()
	over := redisstore.New(ring, redisstore.Config{})
	if _, err := over.Tell(t.Context(), "orders", "a", nil, false); err == nil || !strings.Contains(err.Error(), "Ring") {
		t.Errorf("over a Ring: %v", err)
	}
	if _, _, err := over.Swap(t.Context(), "orders", 0, nil); err == nil || !strings.Contains(err.Error(), "Ring") {
		t.Errorf("Swap over a Ring: %v", err)
	}
	if err := watch(t, over, "orders").ends(t); !strings.Contains(err.Error(), "Ring") { // and the process goes on
		t.Errorf("Watch over a Ring: %v", err)
	}
}
