package etcdstore

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/eiderhq/eider/breaker/fleet"
)

// reader is one of a watch, which reads when it is asked.
type reader struct {
	next func() (fleet.Sight, error, bool)
	late func() error // that of its context, which ends only if something doesn't come
}

func follow(t *testing.T, s *Store, key string) reader {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	next, stop := iter.Pull2(s.Watch(ctx, key))
	t.Cleanup(func() { cancel(); stop() })
	return reader{next, ctx.Err}
}

// until reads on until a sight has the version, and tells how many it took.
func (r reader) until(t *testing.T, what string, version uint64) (sights int) {
	t.Helper()
	for {
		seen, err, _ := r.next()
		sights++
		if err != nil {
			t.Fatalf("waiting for %s: the watch ended: %v", what, err)
		}
		if seen.Version == version {
			return sights
		}
	}
}

// end reads on until the watch ends by itself, and returns why.
func (r reader) end(t *testing.T) error {
	t.Helper()
	for {
		_, err, more := r.next()
		if r.late() != nil {
			t.Fatalf("the watch goes on: %v", err)
		}
		if err != nil {
			return err
		}
		if !more {
			t.Fatal("the watch ends without an error")
		}
	}
}

// soon is the context of a call that may wait a little: less than etcd itself does.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func tell(t *testing.T, s *Store, key, caller, count string) fleet.Sight {
	t.Helper()
	seen, err := s.Tell(t.Context(), key, caller, []byte(count), true)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func swap(t *testing.T, s *Store, key string, version uint64, record string) fleet.Sight {
	t.Helper()
	seen, won, err := s.Swap(t.Context(), key, version, []byte(record))
	if err != nil || !won {
		t.Fatalf("Swap(%q, %d, %q): %v, %v", key, version, record, won, err)
	}
	return seen
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !yes(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
