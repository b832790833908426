package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// silent holds that each call ends with its context at the latest, while nobody answers; with its error, unless there is one
// of the connection's.
func silent(t *testing.T, s *Store, version uint64, connected bool) {
	t.Helper()
	for what, call := range map[string]func(ctx context.Context) error{
		"Tell of a count": func(ctx context.Context) error {
			_, err := s.Tell(ctx, "orders", "a", []byte("1"), true)
			return err
		},
		"Tell at rest": func(ctx context.Context) error {
			_, err := s.Tell(ctx, "orders", "at rest", nil, false)
			return err
		},
		"Swap": func(ctx context.Context) error {
			_, won, err := s.Swap(ctx, "orders", version, []byte("late"))
			if won {
				t.Error("a Swap without an answer says that it has won")
			}
			return err
		},
		"the first Swap": func(ctx context.Context) error {
			_, _, err := s.Swap(ctx, "tills", 0, []byte("late"))
			return err
		},
		"Watch": func(ctx context.Context) error {
			var last error
			for _, last = range s.Watch(ctx, "orders") {
			}
			return last
		},
	} {
		begun := time.Now()
		if err := call(soon(t)); err == nil || connected && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("%s took %v", what, took)
		}
	}
}

func TestKilledAndStartedAgainWithItsDisk(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	s := New(dial(t, etcd), Config{})
	s.look = time.Hour
	put := swap(t, s, "orders", 0, "open")
	tell(t, s, "orders", "a", "1")
	watch := follow(t, s, "orders")
	watch.until(t, "the record", put.Version)
	etcd.end(syscall.SIGKILL)
	silent(t, s, put.Version, false)
	etcd.again(t)
	if seen := tell(t, s, "orders", "b", "2"); seen.Version != put.Version || string(seen.Record) != "open" || seen.Age < put.Age {
		t.Errorf("afterwards there is %+v, it was %+v", seen, put)
	}
	watch.until(t, "the next record", swap(t, s, "orders", put.Version, "half-open").Version)
}

// What a watch waits for are revisions that an etcd without its disk reaches much later, if ever.
func TestKilledAndStartedAgainWithoutItsDisk(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	s := New(dial(t, etcd), Config{})
	s.look = 100 * time.Millisecond
	put := swap(t, s, "orders", 0, "open")
	for i := range 20 {
		tell(t, s, "orders", "a", fmt.Sprint(i))
	}
	watch, empty := follow(t, s, "orders"), follow(t, s, "tills")
	watch.until(t, "the record", put.Version)
	empty.until(t, "no record", 0)
	never := looking(t, s, "never")
	etcd.end(syscall.SIGKILL)
	if err := os.RemoveAll(etcd.dir); err != nil {
		t.Fatal(err)
	}
	etcd.again(t)
	if same, err := never.lookAnew(t.Context()); same || err != nil {
		t.Errorf("nothing was there and nothing is, in another history: %v, %v", same, err)
	}
	watch.until(t, "a zero sight", 0)
	if seen := tell(t, s, "orders", "b", "2"); seen.Version != 0 || len(seen.Counts) != 1 {
		t.Errorf("of what was lost there is %+v", seen)
	}
	if seen, won, err := s.Swap(t.Context(), "orders", put.Version, []byte("half-open")); won || err != nil || seen.Version != 0 {
		t.Errorf("what was lost is swapped: %+v, %v, %v", seen, won, err)
	}
	watch.until(t, "a new record", swap(t, s, "orders", 0, "closed").Version)
	empty.until(t, "a first record", swap(t, s, "tills", 0, "open").Version)
}

// A cluster that is restored from a snapshot gives out its revisions again.
func TestRestoredFromASnapshot(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	s := New(dial(t, etcd), Config{})
	s.look = 100 * time.Millisecond
	first := swap(t, s, "orders", 0, "open")
	etcd.end(syscall.SIGTERM)
	snapshot := t.TempDir()
	if err := os.CopyFS(snapshot, os.DirFS(etcd.dir)); err != nil {
		t.Fatal(err)
	}
	etcd.again(t)
	lost := swap(t, s, "orders", first.Version, "half-open")
	watch := follow(t, s, "orders")
	watch.until(t, "what will be lost", lost.Version)
	revision := modified(t, s, "orders")
	etcd.end(syscall.SIGKILL)
	etcd.dir = snapshot
	etcd.again(t)
	watch.until(t, "what is restored", first.Version)
	second := swap(t, New(dial(t, etcd), Config{}), "orders", first.Version, "half-open")
	if again := modified(t, s, "orders"); again != revision {
		t.Fatalf("the record is of revision %d, the one that was lost of %d: nothing is shown", again, revision)
	}
	if seen, won, err := s.Swap(t.Context(), "orders", lost.Version, []byte("closed")); won || err != nil || seen.Version != second.Version {
		t.Errorf("what was lost is swapped: %+v, %v, %v", seen, won, err)
	}
	watch.until(t, "what is there", second.Version)
}

// modified is the revision of a record.
func modified(t *testing.T, s *Store, key string) int64 {
	t.Helper()
	got, err := s.client.Get(t.Context(), s.record(key))
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	return got.Kvs[0].ModRevision
}

func TestStopped(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	s := New(dial(t, etcd), Config{})
	s.look, s.wait = 100*time.Millisecond, 300*time.Millisecond
	put := swap(t, s, "orders", 0, "open")
	tell(t, s, "orders", "a", "1")
	watch := follow(t, s, "orders")
	watch.until(t, "the record", put.Version)
	etcd.stop(t)
	silent(t, s, put.Version, true)
	watch.end(t)
	etcd.goOn(t)
	seen := tell(t, s, "orders", "b", "2")
	if seen.Version == 0 {
		t.Error("the record is gone")
	}
	s.wait = patience
	follow(t, s, "orders").until(t, "the next record", swap(t, s, "orders", seen.Version, "closed").Version)
}

func TestCompactedWhileAWatchWasCutOff(t *testing.T) {
	t.Parallel()
	etcd := cluster(t, 1)[0]
	s := New(dial(t, etcd), Config{})
	s.look = time.Hour
	put := swap(t, s, "orders", 0, "open")
	watch := follow(t, s, "orders")
	watch.until(t, "the record", put.Version)
	etcd.end(syscall.SIGTERM)
	known := etcd.client
	etcd.client = freePort()
	etcd.again(t)
	elsewhere := New(dial(t, etcd), Config{})
	for i := range 5 {
		put = swap(t, elsewhere, "orders", put.Version, fmt.Sprint(i))
	}
	if _, err := elsewhere.client.Compact(t.Context(), modified(t, elsewhere, "orders"), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	etcd.end(syscall.SIGTERM)
	etcd.client = known
	etcd.again(t)
	watch.until(t, "what was compacted to", put.Version)
	watch.until(t, "the next record", swap(t, s, "orders", put.Version, "closed").Version)
}

func TestThreeMembers(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	s := New(dial(t, members[0]), Config{})
	s.look = time.Hour
	put := swap(t, s, "orders", 0, "open")
	tell(t, s, "orders", "a", "1")
	watch := follow(t, s, "orders")
	watch.until(t, "the record", put.Version)

	moveLeader(t, members)
	if seen := tell(t, s, "orders", "b", "2"); seen.Version != put.Version || len(seen.Counts) != 2 {
		t.Errorf("after another leader was elected there is %+v", seen)
	}
	put = swap(t, New(dial(t, members[1]), Config{}), "orders", put.Version, "half-open")
	watch.until(t, "what another member was told", put.Version)

	for _, m := range members[1:] {
		m.end(syscall.SIGKILL)
	}
	watch.end(t) // without a leader
	silent(t, s, put.Version, false)
	for _, m := range members[1:] {
		if err := m.run(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ready(members...); err != nil {
		t.Fatal(err)
	}
	seen := tell(t, s, "orders", "a", "3")
	if seen.Version == 0 {
		t.Error("the record is gone")
	}
	follow(t, s, "orders").until(t, "the next record", swap(t, s, "orders", seen.Version, "closed").Version)
}

// moveLeader has another member lead.
func moveLeader(t *testing.T, members []*member) {
	t.Helper()
	for i, m := range members {
		client := dial(t, m)
		status, err := client.Status(t.Context(), m.client)
		if err != nil {
			t.Fatal(err)
		}
		if status.Leader != status.Header.MemberId {
			continue
		}
		other := members[(i+1)%len(members)]
		next, err := client.Status(t.Context(), other.client)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.MoveLeader(t.Context(), next.Header.MemberId); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no member leads")
}
