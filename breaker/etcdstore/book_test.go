package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/eiderhq/eider/breaker/fleet"
)

// An answer that comes late shows a version that was overtaken; those after it don't become younger by that.
func TestALateAnswerMakesNothingYounger(t *testing.T) {
	begun := time.Now()
	p := &page{}
	seen := func(value string, after time.Duration) time.Duration {
		t.Helper()
		s, err := p.sight([]*mvccpb.KeyValue{{Value: []byte(value)}}, begun.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return s.Age
	}
	older, newer := stamp([]byte("open")), stamp([]byte("closed"))
	seen(older, 0)
	seen(newer, time.Second)
	seen(older, 2*time.Second)
	if age := seen(newer, 3*time.Second); age != 2*time.Second {
		t.Errorf("it was first seen two seconds ago, and is %v old", age)
	}
	for i := range 1000 {
		seen(stamp(nil), time.Duration(i)*time.Second)
	}
	if len(p.seen) > mostSeen {
		t.Errorf("%d versions are remembered", len(p.seen))
	}
}

func TestCountsThatAreTooOldAreLeftOut(t *testing.T) {
	begun := time.Now()
	p := &page{counts: map[string]mark{}}
	kv := &mvccpb.KeyValue{Key: []byte("x/c/a"), Value: []byte(stamp([]byte("1")))}
	for after, want := range map[time.Duration]int{0: 1, fleet.KeepCounts - 1: 1, fleet.KeepCounts: 0} {
		p.counts = map[string]mark{}
		for _, now := range []time.Time{begun, begun.Add(after)} {
			counts, err := p.told([]*mvccpb.KeyValue{kv}, "x/c/", now)
			if err != nil {
				t.Fatal(err)
			}
			if now.Equal(begun.Add(after)) && len(counts) != want {
				t.Errorf("%v after it was first seen: %+v", after, counts)
			}
		}
	}
}

// Callers come and go under ever new names.
func TestWhatIsRememberedOfCallersIsBounded(t *testing.T) {
	p := &page{counts: map[string]mark{}, gone: map[string]bool{}}
	for i := range 100 * fleet.MostCallers {
		caller := fmt.Sprint("caller ", i)
		p.hasTold(caller, stamp(nil), time.Now())
		p.tookAway(caller)
	}
	if len(p.counts) > 4*fleet.MostCallers || len(p.gone) > 4*fleet.MostCallers {
		t.Errorf("%d counts, %d that are gone", len(p.counts), len(p.gone))
	}
}

func TestKeysAreBounded(t *testing.T) {
	client, config := common(t)
	config.Most = 2
	s := New(client, config)
	swap(t, s, "orders", 0, "open")
	tell(t, s, "tills", "a", "1")
	for what, call := range map[string]func() error{
		"Tell":  func() error { _, err := s.Tell(t.Context(), "more", "a", nil, false); return err },
		"Swap":  func() error { _, _, err := s.Swap(t.Context(), "more", 0, nil); return err },
		"Watch": func() error { return follow(t, s, "more").end(t) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "raise Most") {
			t.Errorf("%s of a third key: %v", what, err)
		}
	}
	tell(t, s, "orders", "a", "1")
	s.book.pages["tills"].touched = time.Now().Add(-fleet.Keep)
	tell(t, s, "more", "a", "1")
	if s.book.pages["orders"] == nil || s.book.pages["tills"] != nil {
		t.Error("of two, not the quiet one was forgotten")
	}
}

func TestWhatOthersWroteIsNamed(t *testing.T) {
	client, config := common(t)
	s := New(client, config)
	for _, value := range []string{"", "short", strings.Repeat("\x00", 20)} {
		for _, key := range []string{s.record("orders"), s.counts("orders") + "a", s.counts("orders") + "%zz"} {
			if strings.HasSuffix(key, "%zz") {
				value = stamp(nil)
			}
			if _, err := client.Put(t.Context(), key, value); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Tell(t.Context(), "orders", "b", nil, true); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
				t.Errorf("%q at %s: %v", value, key, err)
			}
			if key == s.record("orders") {
				if err := follow(t, s, "orders").end(t); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
					t.Errorf("a watch, with %q at %s: %v", value, key, err)
				}
			}
			if _, err := client.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	tell(t, s, "orders", "b", "1")
}

func TestErrorsSayWhatToDo(t *testing.T) {
	s := New(nil, Config{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		is   error
		says string
	}{
		{t.Context(), rpctypes.ErrNoSpace, rpctypes.ErrNoSpace, "--auto-compaction-retention"},
		{t.Context(), rpctypes.ErrPermissionDenied, rpctypes.ErrPermissionDenied, `the prefix "eider/fleet/"`},
		{t.Context(), rpctypes.ErrNoLeader, rpctypes.ErrNoLeader, "no leader"},
		{ended, errors.New("rpc error"), context.Canceled, "no answer"},
	} {
		if err := s.failed(c.ctx, "telling", "orders", c.err); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `telling of "orders"`) {
			t.Errorf("%v becomes %v", c.err, err)
		}
	}
}

// What is below one key is never that of another.
func TestKeysDontCollide(t *testing.T) {
	s := New(common(t))
	names := []string{"a", "a/c", "a/r", "a/c/r", "a%2Fc", "/", ""}
	for i, key := range names[:len(names)-1] {
		swap(t, s, key, 0, key)
		for _, caller := range names {
			tell(t, s, key, caller, fmt.Sprint(i, caller))
		}
	}
	for i, key := range names[:len(names)-1] {
		seen := tell(t, s, key, "looks", "")
		if string(seen.Record) != key || len(seen.Counts) != len(names) {
			t.Errorf("key %q: record %q, %d counts", key, seen.Record, len(seen.Counts))
		}
		for _, c := range seen.Counts {
			if string(c.Count) != fmt.Sprint(i, c.Caller) {
				t.Errorf("key %q: %q has told %q", key, c.Caller, c.Count)
			}
		}
	}
}

// Whatever has been put there: an answer has a bound.
func TestAnswersAreBounded(t *testing.T) {
	client, config := common(t)
	s := New(client, config)
	for i := range 3 * fleet.MostCallers {
		if _, err := client.Put(t.Context(), fmt.Sprint(s.counts("orders"), i), stamp([]byte("1"))); err != nil {
			t.Fatal(err)
		}
	}
	if seen := tell(t, s, "orders", "a", "1"); len(seen.Counts) > 2*fleet.MostCallers {
		t.Errorf("%d counts are told", len(seen.Counts))
	}
}
