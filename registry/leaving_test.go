package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func progress(barrier bool, open uint32) *pb.AttachReply {
	return &pb.AttachReply{Kind: &pb.AttachReply_Progress{Progress: &pb.Progress{
		Service: "orders", Id: "1", BoundMs: 5000, Barrier: barrier, Total: 2, Open: open,
		Members: []*pb.Member{{Caller: "checkout@b2f19c", Kind: "native", State: "waiting", Stream: true, CapMs: 8000}}}}}
}

func leftReply() *pb.AttachReply {
	return &pb.AttachReply{Kind: &pb.AttachReply_Left{Left: &pb.Left{Service: "orders", Id: "1"}}}
}

func isOpen(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// listedOne registers one instance and has it granted.
func listedOne(node *fake, reg *Registry) (*Listing, *attachTalk) {
	l, err := reg.Register(orders)
	if err != nil {
		node.t.Fatal(err)
	}
	c := node.attach()
	c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
	synctest.Wait()
	return l, c
}

func TestLeaveReachesItsBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, c := listedOne(node, node.open(Config{}))
		g := l.Leave()
		if g != l.Leave() {
			t.Error("a second Leave began another departure")
		}
		until(c, (*pb.AttachRequest).GetLeave)
		if d, heard := g.Drain(); heard || d.Status != eider.Draining || d.Bound != 3*time.Second {
			t.Errorf("before any progress: %+v, heard %t", d, heard)
		}
		changed := g.Changed()
		c.say(progress(false, 1))
		<-changed
		if d, heard := g.Drain(); !heard || d.Total != 2 || d.Open != 1 || len(d.Members) != 1 || d.Members[0].Cap != 8*time.Second || g.Bound() != 5*time.Second {
			t.Errorf("with progress: %+v, heard %t", d, heard)
		}
		if !isOpen(g.Barrier()) {
			t.Error("the barrier is reached while one is waited for")
		}
		time.Sleep(300 * time.Millisecond)
		c.say(progress(true, 0))
		<-g.Barrier()
		if d, _ := g.Drain(); !d.Reached || d.Barrier != 300*time.Millisecond {
			t.Errorf("at the barrier: %+v", d)
		}
		c.say(progress(false, 1)) // a node that knows less doesn't take it back
		synctest.Wait()
		if d, _ := g.Drain(); !d.Reached {
			t.Error("the barrier was taken back")
		}
		done := make(chan error)
		go func() { done <- l.Left(t.Context()) }()
		until(c, (*pb.AttachRequest).GetLeft)
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("Left returned %v before the registry has heard", err)
		default:
		}
		c.say(leftReply())
		if err := <-done; err != nil {
			t.Errorf("Left = %v", err)
		}
		if err := l.Left(t.Context()); err != nil {
			t.Errorf("a second Left = %v", err)
		}
		if d, _ := g.Drain(); d.Status != eider.Left {
			t.Errorf("after Left the drain is %s", d.Status)
		}
	})
}

// Stopped before any registry has heard of it: it is never registered, and nobody is waited for.
func TestD14StoppedListingIsNeverBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		node.kill(errRefused)
		l, _ := node.open(Config{}).Register(orders)
		time.Sleep(time.Second)
		g := l.Leave()
		if isOpen(g.Barrier()) {
			t.Error("the barrier waits for callers of an instance that no registry has heard of")
		}
		node.start()
		c := node.attach()
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("a listing that was stopped before it began was told: %v", said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Left(ctx); err != nil {
			t.Errorf("Left = %v", err)
		}
	})
}

// Stopped while the registration is under way: the departure follows it.
func TestD14StoppedWhileRegistering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, _ := node.open(Config{}).Register(orders)
		c := node.attach()
		m := until(c, (*pb.AttachRequest).GetRegister)
		g := l.Leave()
		synctest.Wait()
		if !isOpen(g.Barrier()) {
			t.Error("the barrier is reached although the registry may have listed it")
		}
		c.say(grant(m, 1))
		until(c, (*pb.AttachRequest).GetLeave)
	})
}

func TestD14ClosedHandleRegistersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		reg.Close()
		used := node.open(Config{})
		used.Register(Registration{Service: "search", Address: "10.0.0.7:1"})
		node.attach()
		used.Close()
		if _, err := used.Register(orders); eider.KindOf(err) != eider.Closed {
			t.Errorf("Register on a handle that was used and closed = %v", err)
		}
		if _, err := reg.Register(orders); eider.KindOf(err) != eider.Closed {
			t.Errorf("Register on a closed handle = %v", err)
		}
		if _, err := reg.Follow("orders"); eider.KindOf(err) != eider.Closed {
			t.Errorf("Follow on a closed handle = %v", err)
		}
		for _, err := range reg.Watch(t.Context(), "orders") {
			if eider.KindOf(err) != eider.Closed {
				t.Errorf("Watch on a closed handle yields %v", err)
			}
		}
		if node.dialled() != 1 { // the used one's
			t.Error("a closed handle dialled")
		}
	})
}

// "Not found" to whatever a leaving client says, and every new stream, finds it DRAINING.
func TestR5LeavingClientNeverRegistersAsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, c := listedOne(node, node.open(Config{}))
		l.Leave()
		until(c, (*pb.AttachRequest).GetLeave)
		c.say(refusal(&pb.Register{Record: &pb.Record{Service: "orders", Id: "1"}}, eider.NotFound, 0))
		for round := range 5 {
			m := until(c, (*pb.AttachRequest).GetRegister)
			if m.GetRecord().GetStatus() != pb.Status_STATUS_DRAINING {
				t.Fatalf("round %d: a leaving client registered as %s", round, m.GetRecord().GetStatus())
			}
			c.say(grant(m, 1))
			until(c, (*pb.AttachRequest).GetLeave) // at once
			c.say(&pb.AttachReply{Kind: &pb.AttachReply_End{End: &pb.End{Reattach: true}}})
			c.bye <- nil
			c = node.attach()
		}
	})
}

// Once it has left, nothing brings it back: no late answer, no lost stream, no late status.
func TestD16NothingRevivesWhatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, c := listedOne(node, node.open(Config{}))
		go l.Left(t.Context())
		until(c, (*pb.AttachRequest).GetLeave)
		until(c, (*pb.AttachRequest).GetLeft)
		c.say(leftReply())
		synctest.Wait()
		if err := l.SetStatus(eider.Up); err == nil {
			t.Error("a status was taken after Left")
		}
		reg := &pb.Register{Record: &pb.Record{Service: "orders", Id: "1", Attachment: 1}}
		c.say(refusal(reg, eider.NotFound, 0), grant(reg, 2), progress(false, 1))
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("after Left the client said %v", said)
		}
		c.bye <- nil
		if said := idle(node.attach(), time.Minute); len(said) != 0 {
			t.Errorf("on a new stream after Left the client said %v", said)
		}
		if s := l.State(); s.Listed {
			t.Errorf("the state is %v", s)
		}
	})
}

// The registry hangs in the very moment of leaving: nothing blocks but Left, and that by its context; the
// bound stands for the missing acknowledgement; and the leave is told as soon as somebody hears it.
func TestD15RegistryHangsAtTheLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, c := listedOne(node, node.open(Config{}))
		begin := time.Now()
		g := l.Leave()
		if g.Bound() != 3*time.Second || !isOpen(g.Barrier()) || time.Since(begin) != 0 {
			t.Errorf("bound %s, barrier open %t, after %s", g.Bound(), isOpen(g.Barrier()), time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Left(ctx)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || eider.KindOf(err) != eider.Unavailable || took != time.Second {
			t.Errorf("Left = %v after %s", err, took)
		}
		_ = c // never answers again: it is cut, and a new stream is opened
		c = node.attach()
		if took := time.Since(begin); took > 17*time.Second {
			t.Errorf("the hung stream was cut after %s, want at most 15s", took)
		}
		m := until(c, (*pb.AttachRequest).GetRegister)
		if m.GetRecord().GetStatus() != pb.Status_STATUS_DRAINING {
			t.Errorf("registered as %s", m.GetRecord().GetStatus())
		}
		c.say(grant(m, 1))
		until(c, (*pb.AttachRequest).GetLeave)
		until(c, (*pb.AttachRequest).GetLeft)
		c.say(leftReply())
		if err = l.Left(t.Context()); err != nil {
			t.Errorf("Left = %v", err)
		}
	})
}

// A listing that only wants to end finds somebody else in its place: there's nothing to end.
func TestLeftEndsWhenSuperseded(t *testing.T) {
	for _, kind := range []eider.Kind{eider.Conflict, eider.Invalid, eider.Stale} {
		synctest.Test(t, func(t *testing.T) {
			node := newFake(t)
			l, c := listedOne(node, node.open(Config{}))
			c.bye <- nil
			c = node.attach()
			done := make(chan error, 1)
			go func() { done <- l.Left(t.Context()) }()
			for range staleTries + 1 {
				m := until(c, (*pb.AttachRequest).GetRegister)
				c.say(refusal(m, kind, 0))
				synctest.Wait()
				if kind != eider.Stale {
					break
				}
			}
			if err := <-done; err != nil {
				t.Errorf("%s: Left = %v", kind, err)
			}
		})
	}
}

func TestSameKeyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		l, c := listedOne(node, reg)
		if _, err := reg.Register(orders); eider.KindOf(err) != eider.Conflict {
			t.Errorf("registering the same key twice = %v", err)
		}
		l.Leave()
		until(c, (*pb.AttachRequest).GetLeave)
		second, err := reg.Register(orders) // its successor waits for it
		if err != nil {
			t.Fatal(err)
		}
		if said := idle(c, 20*time.Second); len(said) != 0 {
			t.Errorf("before the first has left came %v", said)
		}
		go l.Left(t.Context())
		until(c, (*pb.AttachRequest).GetLeft)
		c.say(leftReply())
		m := until(c, (*pb.AttachRequest).GetRegister)
		c.say(grant(m, 2))
		synctest.Wait()
		if s := second.State(); !s.Listed || s.In.Number != 2 {
			t.Errorf("the successor's state is %v", s)
		}
	})
}
