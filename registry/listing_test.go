package registry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestRegisterListsAndCarriesTheNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{Zone: "z1"})
		l, err := reg.Register(orders)
		if err != nil {
			t.Fatal(err)
		}
		if s := l.State(); s.Listed || s.Err == nil || s.Bound != 8*time.Second {
			t.Errorf("before any answer the state is %+v", s)
		}
		c := node.attach()
		m := until(c, (*pb.AttachRequest).GetRegister)
		if r := m.GetRecord(); r.GetStatus() != pb.Status_STATUS_UP || r.GetAttachment() != 1 || r.GetIncarnation().GetNumber() != 0 ||
			r.GetIncarnation().GetNonce() == 0 || r.GetZone() != "z1" || r.GetAddress() != orders.Address {
			t.Errorf("registered as %v", r)
		}
		c.say(grant(m, 7))
		synctest.Wait()
		if s := l.State(); !s.Listed || s.In.Number != 7 || s.Bound != 3*time.Second || s.Err != nil {
			t.Errorf("after the grant the state is %+v", s)
		}
		c.bye <- nil // the node ends the stream
		again := until(node.attach(), (*pb.AttachRequest).GetRegister).GetRecord()
		if again.GetAttachment() != 2 || again.GetIncarnation().GetNumber() != 7 || again.GetIncarnation().GetNonce() != m.GetRecord().GetIncarnation().GetNonce() {
			t.Errorf("attached again as %v, want the same incarnation with attachment 2", again)
		}
		if s := l.State(); s.Listed || eider.KindOf(s.Err) != eider.Unavailable {
			t.Errorf("without a stream the state is %+v", s)
		}
	})
}

func TestRegisterReportsEveryFaultAtOnce(t *testing.T) {
	reg := Open(Config{Addr: "127.0.0.1:1"})
	defer reg.Close()
	_, err := reg.Register(Registration{Service: "Or ders", Address: "nowhere", Zone: "a b", Lease: -1, Status: eider.Draining})
	if eider.KindOf(err) != eider.Invalid {
		t.Fatalf("Register = %v, want an invalid one", err)
	}
	for _, word := range []string{"service", "address", "zone", "lease", "status"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error doesn't name the %s: %v", word, err)
		}
	}
	bad := Open(Config{Addr: "a:1, nowhere, b:0"})
	defer bad.Close()
	if _, err = bad.Register(orders); eider.KindOf(err) != eider.Invalid || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), "b:0") {
		t.Errorf("with bad addresses Register = %v, want both named", err)
	}
	if _, err = bad.Follow("orders"); eider.KindOf(err) != eider.Invalid {
		t.Errorf("with bad addresses Follow = %v", err)
	}
}

func TestBeatsAreJitteredAndAskForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		reg.Register(orders)
		c := node.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		last, echoes, exact := time.Now(), 0, 0
		for range 60 {
			m := c.hear()
			if m.GetBeat() == nil {
				t.Fatalf("between beats came %v", m)
			}
			gap := time.Since(last)
			if gap > 2*time.Second || gap < time.Second && !m.GetBeat().GetEcho() {
				t.Errorf("a beat came %s after the one before, want at most 2s", gap)
			}
			if gap == 2*time.Second {
				exact++
			}
			if m.GetBeat().GetEcho() {
				echoes++
			}
			answer(c, m)
			last = time.Now()
		}
		if echoes < 10 {
			t.Errorf("%d of 60 beats asked for an answer, want one every 5s", echoes)
		}
		if exact > 3 {
			t.Errorf("%d of 60 beats came by the clock: there's no jitter", exact)
		}
	})
}

func TestSetStatusIsToldAndToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		start := orders
		start.Status = eider.Starting
		l, _ := node.open(Config{}).Register(start)
		c := node.attach()
		m := until(c, (*pb.AttachRequest).GetRegister)
		if m.GetRecord().GetStatus() != pb.Status_STATUS_STARTING {
			t.Errorf("registered as %s", m.GetRecord().GetStatus())
		}
		if err := l.SetStatus(eider.Up); err != nil {
			t.Fatal(err)
		}
		c.say(grant(m, 1))
		if s := until(c, (*pb.AttachRequest).GetSetStatus); s.GetStatus() != pb.Status_STATUS_UP || s.GetId() != "1" {
			t.Errorf("told %v, want UP", s)
		}
		l.SetStatus(eider.Down)
		until(c, (*pb.AttachRequest).GetSetStatus)
		c.bye <- nil
		if m = until(node.attach(), (*pb.AttachRequest).GetRegister); m.GetRecord().GetStatus() != pb.Status_STATUS_DOWN {
			t.Errorf("attached again as %s, want DOWN", m.GetRecord().GetStatus())
		}
		if err := l.SetStatus(eider.Draining); eider.KindOf(err) != eider.Invalid {
			t.Errorf("SetStatus(DRAINING) = %v", err)
		}
		l.Leave()
		if err := l.SetStatus(eider.Up); eider.KindOf(err) != eider.Closed {
			t.Errorf("SetStatus after Leave = %v", err)
		}
	})
}

func TestRefusedIsTriedAgain(t *testing.T) {
	for _, row := range []struct {
		kind     eider.Kind
		after    time.Duration
		min, max time.Duration // until the next try
	}{
		{eider.Conflict, 0, 0, 100 * time.Millisecond},
		{eider.Stale, 0, 0, 100 * time.Millisecond},
		{eider.Limited, 30 * time.Second, 30 * time.Second, 38 * time.Second},
		{eider.Limited, 1000 * time.Hour, time.Minute, 75 * time.Second},
		{eider.Invalid, 0, 0, 5 * time.Second},
	} {
		t.Run(row.kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := newFake(t)
				l, _ := node.open(Config{}).Register(orders)
				c := node.attach()
				m := until(c, (*pb.AttachRequest).GetRegister)
				c.say(refusal(m, row.kind, row.after))
				synctest.Wait()
				if s := l.State(); s.Listed || eider.KindOf(s.Err) != row.kind || !strings.Contains(s.Err.Error(), "because") {
					t.Errorf("refused, the state is %+v", s)
				}
				begin := time.Now()
				m = until(c, (*pb.AttachRequest).GetRegister)
				if took := time.Since(begin); took < row.min || took > row.max {
					t.Errorf("tried again after %s, want %s to %s", took, row.min, row.max)
				}
				if m.GetRecord().GetAttachment() != 2 {
					t.Errorf("tried again with attachment %d, want 2", m.GetRecord().GetAttachment())
				}
				c.say(grant(m, 1))
				synctest.Wait()
				if !l.State().Listed {
					t.Errorf("granted, the state is %v", l.State())
				}
			})
		})
	}
}

func TestR13RefusalsAtOnceAreNoLoop(t *testing.T) {
	for _, kind := range []eider.Kind{eider.Conflict, eider.Stale, eider.Internal, eider.Unavailable, eider.Invalid} {
		synctest.Test(t, func(t *testing.T) {
			node := newFake(t)
			node.open(Config{}).Register(orders)
			c := node.attach()
			end, n := time.Now().Add(10*time.Minute), 0
			for time.Now().Before(end) && n < 5000 {
				m := until(c, (*pb.AttachRequest).GetRegister)
				c.say(refusal(m, kind, 0))
				n++
			}
			if n > 400 || n < 8 {
				t.Errorf("%s: %d registrations in ten minutes of refusals, want some and not many", kind, n)
			}
		})
	}
}

// Registered, and then told at every word that it isn't: the pause must grow although every registration succeeds.
func TestR13GrantedAndForgottenIsNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, _ := node.open(Config{}).Register(orders)
		c := node.attach()
		end, n := time.Now().Add(10*time.Minute), 0
		for time.Now().Before(end) && n < 5000 {
			m := until(c, (*pb.AttachRequest).GetRegister)
			c.say(grant(m, 1), refusal(m, eider.NotFound, 0))
			n++
		}
		if n > 400 {
			t.Errorf("%d registrations in ten minutes", n)
		}
		if s := l.State(); s.Listed {
			t.Errorf("the state is %v", s)
		}
	})
}

// A process that serves on after an outage of an hour is listed again by itself, and has said all the time that it wasn't.
func TestR9LongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, _ := node.open(Config{}).Register(orders)
		c := node.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		synctest.Wait()
		node.kill(errRefused)
		synctest.Wait()
		lost := time.Now()
		before := node.dialled()
		time.Sleep(time.Hour)
		s := l.State()
		if s.Listed || !s.Since.Equal(lost) {
			t.Errorf("an hour into the outage the state is %v, want not listed since %s", s, lost.Format(time.TimeOnly))
		}
		if !errors.Is(s.Err, errRefused) || !strings.HasPrefix(s.String(), "not listed since ") || !strings.Contains(s.String(), "refused") {
			t.Errorf("the state doesn't say why: %v", s)
		}
		if n := node.dialled() - before; n < 1800 || n > 6000 {
			t.Errorf("%d dials in an hour, want about one a second", n)
		}
		node.start()
		begin := time.Now()
		c = node.attach()
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("back %s after the registry, want at most 2s", took)
		}
		m := until(c, (*pb.AttachRequest).GetRegister)
		c.say(grant(m, 1))
		synctest.Wait()
		if s = l.State(); !s.Listed || m.GetRecord().GetIncarnation().GetNumber() != 1 {
			t.Errorf("after the outage the state is %v, registered as %v", s, m.GetRecord())
		}
	})
}

// A process whose successor has come and gone while it was paused is called stale for good; it lives, so it
// comes back as a new incarnation.
func TestR9OutlivedByASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, c := listedOne(node, node.open(Config{}))
		first := l.State().In
		c.bye <- nil
		c = node.attach()
		for try := range 2 {
			m := until(c, (*pb.AttachRequest).GetRegister)
			if got := m.GetRecord().GetIncarnation().GetNonce(); got != first.Nonce {
				t.Fatalf("try %d is by the nonce %x, want %x: one refusal may be of a late attach", try, got, first.Nonce)
			}
			c.say(refusal(m, eider.Stale, 0))
		}
		m := until(c, (*pb.AttachRequest).GetRegister)
		in := m.GetRecord().GetIncarnation()
		if in.GetNonce() == first.Nonce || in.GetNumber() != 0 || m.GetRecord().GetAttachment() != 1 {
			t.Fatalf("it comes back as %v", m.GetRecord())
		}
		c.say(grant(m, 9))
		synctest.Wait()
		if s := l.State(); !s.Listed || s.In.Number != 9 || s.In.Nonce != in.GetNonce() {
			t.Errorf("listed as %v", s)
		}
	})
}

func TestStateIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		l, _ := reg.Register(orders)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		states := make(chan State, 16)
		go func() {
			defer close(states)
			for s := range l.Watch(ctx) {
				states <- s
			}
		}()
		if s := <-states; s.Listed {
			t.Error("listed before any registry has said so")
		}
		c := node.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		for s := range states {
			if s.Listed {
				break
			}
		}
		go l.Left(ctx)
		until(c, (*pb.AttachRequest).GetLeft)
		c.say(&pb.AttachReply{Kind: &pb.AttachReply_Left{Left: &pb.Left{Service: "orders", Id: "1"}}})
		var last State
		for s := range states { // ends by itself
			last = s
		}
		if last.Listed || eider.KindOf(last.Err) != eider.Closed {
			t.Errorf("the last state is %v, want one that has left", last)
		}
	})
}
