package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A time below zero would end each Watch, or the process.
func TestNewTakesNoTimeBelowZero(t *testing.T) {
	if s := New(nil, Config{Poll: -1, Timeout: -1}); s.poll != 10*time.Second || s.timeout != time.Second {
		t.Errorf("polls each %v, waits for %v", s.poll, s.timeout)
	}
}

// empty is a Redis, or a proxy before it, that answers each script with an array of nothing.
type empty struct{}

func (empty) DialHook(next redis.DialHook) redis.DialHook { return next }

func (empty) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (empty) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, c redis.Cmder) error {
		c.(*redis.Cmd).SetVal([]any{})
		return nil
	}
}

func TestAnAnswerOfNothingIsAnError(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	c.AddHook(empty{})
	s := New(c, Config{})
	if _, won, err := s.Swap(t.Context(), "orders", 1, nil); won || err == nil || !strings.Contains(err.Error(), "an answer of 0 parts") {
		t.Errorf("Swap: %v, %v", won, err)
	}
	if _, err := s.Tell(t.Context(), "orders", "a", nil, true); err == nil {
		t.Error("Tell has no error")
	}
}

// What a watcher hears while it reads is often what it reads: the answer of a Swap of its own, and the message of it.
func TestRumours(t *testing.T) {
	for _, c := range []struct {
		what   string
		heard  []uint64 // since it began to read, when it had version 1
		read   uint64
		unsure bool // it must read again
	}{
		{"nothing", nil, 1, false},
		{"what it has", []uint64{1}, 1, false},
		{"what it reads, before or after", []uint64{2, 2}, 2, false},
		{"another than it reads", []uint64{3}, 2, true},
		{"that the record is lost, and it reads that", []uint64{0}, 0, false},
		{"that the record is lost, and it reads one", []uint64{0}, 2, true},
		{"a newer one, and then what a late answer says", []uint64{3, 2}, 2, true},
		{"one after the other", []uint64{2, 3}, 3, true},
	} {
		s := New(nil, Config{})
		w := &watcher{key: "orders", nudge: make(chan struct{}, 1), version: 1}
		s.watchers[w.key] = []*watcher{w}
		for _, version := range c.heard {
			s.saw("orders", version)
			s.saw("tills", 7)
		}
		if woken := len(w.nudge) == 1; c.unsure && !woken {
			t.Errorf("hears of %s: isn't woken", c.what)
		}
		w.version = c.read
		if got := s.news(w); got != c.unsure {
			t.Errorf("hears of %s, reads version %d: reads again %v, want %v", c.what, c.read, got, c.unsure)
		}
	}
}

// A breaker tells every few seconds: a Watch beside it never needs to ask by itself.
func TestAPollIsSparedByWhatIsTold(t *testing.T) {
	s := New(nil, Config{})
	w := &watcher{key: "orders", nudge: make(chan struct{}, 1), version: 1, heard: time.Now().Add(-time.Hour)}
	s.watchers[w.key] = []*watcher{w}
	if s.silence(w) < s.poll {
		t.Error("heard an hour ago, and that is not long ago")
	}
	s.saw("orders", 1)
	if s.silence(w) > s.poll/2 || len(w.nudge) != 0 {
		t.Error("what it has was told again: it must not ask")
	}
}
