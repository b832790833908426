package native

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/replica"
)

// fake is a registry that notes what it is told and says what it is given.
type fake struct {
	mu        sync.Mutex
	calls     []string
	openErr   error // what Attach and Watch answer
	openIn    time.Duration
	err       error // what Register, SetStatus, Leave, Left and Subscribe answer
	postponed map[string]time.Duration
	broken    []string // what should never have reached a replica
	opened    []*fakeStream
}

// fakeStream is either kind of stream.
type fakeStream struct {
	f       *fake
	peer    replica.Peer
	notices chan replica.Notice
	views   chan [][]byte
	fail    chan error
	ended   chan replica.Ending
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fake) said(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.calls, call)
}

// heard tells whether a call began so.
func (f *fake) heard(beginning string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.calls, func(call string) bool { return strings.HasPrefix(call, beginning) })
}

func (f *fake) open(what string, p replica.Peer) (*fakeStream, error) {
	f.note("%s %s %v %s", what, p.Caller, p.Observer, p.Addr)
	<-time.After(f.openIn)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.openErr != nil {
		return nil, f.openErr
	}
	s := &fakeStream{f: f, peer: p, notices: make(chan replica.Notice, 8), views: make(chan [][]byte, 8),
		fail: make(chan error, 1), ended: make(chan replica.Ending, 1)}
	f.opened = append(f.opened, s)
	return s, nil
}

// stream returns the newest stream, once there is one.
func (f *fake) stream(i int) *fakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened[i]
}

func (f *fake) Attach(p replica.Peer) (replica.Attachment, error) {
	s, err := f.open("attach", p)
	if err != nil {
		return nil, err
	}
	return fakeAttachment{s}, nil
}

func (f *fake) Watch(p replica.Peer) (replica.Watcher, error) {
	s, err := f.open("watch", p)
	if err != nil {
		return nil, err
	}
	return fakeWatcher{s}, nil
}

func (f *fake) Postpone(key eider.Key, _ [16]byte, by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.postponed[key.String()] += by
}

func (f *fake) PostponeCaller(p replica.Peer, by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.postponed[p.Caller+" at "+p.Addr.String()] += by
}

func (f *fake) Node() eider.Node                               { return eider.Node{Name: "n1", Run: 0xabc} }
func (f *fake) Services() []eider.Summary                      { return nil }
func (f *fake) Glances() iter.Seq[replica.Glance]              { return func(func(replica.Glance) bool) {} }
func (f *fake) Summary(string) (eider.Summary, bool)           { return eider.Summary{}, false }
func (f *fake) Running() replica.Running                       { return replica.Running{} }
func (f *fake) Callers(string) []eider.Caller                  { return nil }
func (f *fake) Breakers(string) ([]eider.Breakers, int)        { return nil, 0 }
func (f *fake) Drains(string) []eider.Drain                    { return nil }
func (f *fake) Timing(string) (eider.Timing, bool)             { return eider.Timing{}, false }
func (f *fake) Events(uint64) ([]eider.Event, bool)            { return nil, true }
func (f *fake) EventsWait(ctx context.Context, _ uint64) error { <-ctx.Done(); return ctx.Err() }
func (f *fake) Run(ctx context.Context) error                  { <-ctx.Done(); return nil }
func (f *fake) View(service string) (*eider.View, bool)        { return nil, false }
func (s *fakeStream) End(how replica.Ending)                   { s.f.note("end %d", how); s.ended <- how }
func (s *fakeStream) answer(format string, args ...any) error {
	s.f.note(format, args...)
	return s.f.failure()
}
func (f *fake) failure() error { f.mu.Lock(); defer f.mu.Unlock(); return f.err }

func (s *fakeStream) breaks(format string, args ...any) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.broken = append(s.f.broken, fmt.Sprintf(format, args...))
}

// check holds what a stranger said of a service to what a replica may rely on.
func (s *fakeStream) check(service string, deps []eider.Departure) {
	if err := eider.CheckService(service); err != nil {
		s.breaks("%v", err)
	}
	if len(deps) > maxDepartures {
		s.breaks("%d departures", len(deps))
	}
	for _, d := range deps {
		if eider.CheckID(d.ID) != nil || d.Service != service || d.Incarnation.Nonce == 0 {
			s.breaks("departure %v", d)
		}
	}
}

// over returns how the stream was ended; it waits for a minute, of the bubble's.
func (s *fakeStream) over(t *testing.T) replica.Ending {
	t.Helper()
	select {
	case how := <-s.ended:
		return how
	case <-time.After(time.Minute):
		t.Fatal("the replica's stream wasn't ended within a minute")
		return 0
	}
}

type fakeAttachment struct{ *fakeStream }

func (s fakeAttachment) Register(rec eider.Record, lease time.Duration, _ [16]byte) (replica.Grant, error) {
	if err := checkRecord(&rec); err != nil {
		s.breaks("register %s: %v", rec.Key, err)
	}
	err := s.answer("register %s %s %s", rec.Key, rec.Status, lease)
	rec.Incarnation.Number = 7
	return replica.Grant{Record: rec, Lease: 20 * time.Second, Bound: 8 * time.Second}, err
}
func (s fakeAttachment) Beat(work ...replica.Work) {
	s.f.note("beat")
	for _, w := range work {
		s.f.note("work %s %+v", w.Key, w.Done)
	}
}
func (s fakeAttachment) Leave(key eider.Key, unknown time.Duration) error {
	if unknown > 0 {
		s.f.note("unknown %s %s", key, unknown)
	}
	return s.answer("leave %s", key)
}
func (s fakeAttachment) Left(key eider.Key) error { return s.answer("left %s", key) }
func (s fakeAttachment) SetStatus(key eider.Key, status eider.Status) error {
	return s.answer("status %s %s", key, status)
}
func (s fakeAttachment) Next(ctx context.Context) (replica.Notice, error) {
	select {
	case n := <-s.notices:
		return n, nil
	case err := <-s.fail:
		return replica.Notice{}, err
	case <-ctx.Done():
		return replica.Notice{}, ctx.Err()
	}
}

type fakeWatcher struct{ *fakeStream }

func (s fakeWatcher) Subscribe(service string, from eider.Cursor, letGo []eider.Departure) error {
	s.check(service, letGo)
	return s.answer("subscribe %s %s %d", service, from, len(letGo))
}
func (s fakeWatcher) Unsubscribe(service string) { s.f.note("unsubscribe %s", service) }
func (s fakeWatcher) Ack(service string, at eider.Cursor, letGo, noAlternative []eider.Departure) {
	s.check(service, letGo)
	s.check(service, noAlternative)
	s.f.note("ack %s %s %d %d", service, at, len(letGo), len(noAlternative))
}
func (s fakeWatcher) Doubt(d eider.Departure) { s.f.note("doubt %s", d.Key) }
func (s fakeWatcher) Verdicts(service string, said []eider.Verdict) {
	s.check(service, nil)
	words := ""
	for _, v := range said {
		if eider.CheckID(v.ID) != nil || v.Incarnation.Nonce == 0 || int(v.State) >= eider.BreakerStates || int(v.Rule) >= eider.BreakerRules || v.Service != service {
			s.breaks("verdict %+v", v)
		}
		words += fmt.Sprintf(" %s %s", v.ID, v.State)
	}
	if len(said) > eider.MaxVerdicts {
		s.breaks("%d verdicts", len(said))
	}
	s.f.note("verdicts %s%s", service, words)
}
func (s fakeWatcher) Next(ctx context.Context) ([][]byte, error) {
	select {
	case views := <-s.views:
		return views, nil
	case err := <-s.fail:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
