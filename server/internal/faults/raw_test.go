//go:build linux

package faults

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// rawClient speaks the protocol as written, without the SDK's manners.
func rawClient(t *testing.T, addr string) pb.RegistryClient {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return pb.NewRegistryClient(cc)
}

// talker is one raw stream.
type talker[Req, Reply any] struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[Req, Reply]
	cut    context.CancelFunc
}

func (c *talker[Req, Reply]) say(m *Req) {
	c.t.Helper()
	if err := c.stream.Send(m); err != nil {
		_, why := c.stream.Recv()
		c.t.Fatalf("send: %v, %v", err, why)
	}
}

// hear reads until a reply is as it should be.
func (c *talker[Req, Reply]) hear(what string, ok func(*Reply) bool) *Reply {
	c.t.Helper()
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.t.Fatalf("no %s: %v", what, err)
		}
		if ok(m) {
			return m
		}
	}
}

type attacher struct {
	*talker[pb.AttachRequest, pb.AttachReply]
}

func attach(t *testing.T, rc pb.RegistryClient, caller string) attacher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := rc.Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a := attacher{&talker[pb.AttachRequest, pb.AttachReply]{t, stream, cancel}}
	a.say(&pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: caller}}})
	a.hear("welcome", func(m *pb.AttachReply) bool { return m.GetWelcome() != nil })
	return a
}

// register sends a registration of orders/a and returns the answer.
func (a attacher) register(nonce, number, attachment uint64) *pb.AttachReply {
	a.t.Helper()
	a.say(&pb.AttachRequest{Kind: &pb.AttachRequest_Register{Register: &pb.Register{Record: &pb.Record{
		Service: "orders", Id: "a", Address: "127.0.0.1:1", Status: pb.Status_STATUS_UP, Attachment: attachment,
		Incarnation: &pb.Incarnation{Number: number, Nonce: nonce}}}}})
	return a.answer()
}

func (a attacher) answer() *pb.AttachReply {
	a.t.Helper()
	return a.hear("answer", func(m *pb.AttachReply) bool { return m.GetRegistered() != nil || m.GetRefused() != nil })
}

func (a attacher) beat() {
	a.t.Helper()
	a.say(&pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{Echo: true}}})
}

func (a attacher) left() {
	a.t.Helper()
	a.say(&pb.AttachRequest{Kind: &pb.AttachRequest_Leave{Leave: &pb.Leave{Service: "orders", Id: "a"}}})
	a.say(&pb.AttachRequest{Kind: &pb.AttachRequest_Left{Left: &pb.Left{Service: "orders", Id: "a"}}})
}

// refused demands that an answer is a refusal of a kind.
func refused(t *testing.T, m *pb.AttachReply, kind pb.Kind, sentence string) {
	t.Helper()
	e := m.GetRefused().GetError()
	if e.GetKind() != kind || !strings.Contains(e.GetMessage(), sentence) {
		t.Errorf("answered %v; want a refusal of %v that says %q", m, kind, sentence)
	}
}

// A heartbeat that comes after the leave renews nothing and creates nothing; nor does a late registration of the
// incarnation that has left, whatever it counts its attaches to, on this stream or another.
func TestD16ALateHeartbeatDoesNotRecreate(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	rc := rawClient(t, s.grpc)
	first := attach(t, rc, "first")
	if first.register(11, 0, 1).GetRegistered().GetNumber() != 1 {
		t.Fatal("not registered as 1")
	}
	first.left()
	first.hear("word that it has left", func(m *pb.AttachReply) bool { return m.GetLeft() != nil })
	first.beat()
	first.hear("echo", func(m *pb.AttachReply) bool { return m.GetBeaten() != nil })
	refused(t, first.register(11, 1, 2), pb.Kind_KIND_STALE, "has left")
	other := attach(t, rc, "first")
	refused(t, other.register(11, 1, 99), pb.Kind_KIND_STALE, "has left")
	v := s.view("orders")
	if len(v.Instances) != 0 || len(v.Gone) != 1 || v.Gone[0].Status != eider.Left {
		t.Errorf("it is there again: %+v", v)
	}
	if m := other.register(12, 0, 1); m.GetRegistered().GetNumber() != 2 {
		t.Errorf("a new incarnation is answered %v", m)
	}
}

// An older incarnation that wakes up late writes nothing over its successor: no status, no leave, no end, no
// registration; and its heartbeats don't keep the successor's lease.
func TestD16ALateWriteOfAnOlderIncarnationChangesNothing(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true, Beat: 100 * time.Millisecond, Lease: time.Second})
	rc := rawClient(t, s.grpc)
	old := attach(t, rc, "old")
	old.register(11, 0, 1)
	s.happened(eider.EventSuspect, "orders", "a") // it hangs, and its successor starts elsewhere
	next := attach(t, rc, "next")
	if m := next.register(22, 0, 1); m.GetRegistered().GetNumber() != 2 {
		t.Fatalf("the successor of a suspect is answered %v", m)
	}
	is := func(why string) {
		t.Helper()
		next.beat() // and so what was sent before is done
		next.hear("echo", func(m *pb.AttachReply) bool { return m.GetBeaten() != nil })
		v := s.view("orders")
		if in, ok := v.Find("a"); !ok || in.Incarnation.Nonce != 22 || in.Status != eider.Up || in.Version != 1 {
			t.Errorf("after %s it is %+v", why, v)
		}
	}
	old.say(&pb.AttachRequest{Kind: &pb.AttachRequest_SetStatus{SetStatus: &pb.SetStatus{Service: "orders", Id: "a", Status: pb.Status_STATUS_DOWN}}})
	refused(t, old.answer(), pb.Kind_KIND_STALE, "doesn't hold it")
	is("a late status")
	old.left()
	refused(t, old.answer(), pb.Kind_KIND_STALE, "doesn't hold it")
	refused(t, old.answer(), pb.Kind_KIND_STALE, "doesn't hold it")
	is("a late leave")
	for _, number := range []uint64{0, 1} {
		refused(t, old.register(11, number, 50), pb.Kind_KIND_STALE, "superseded")
	}
	is("a late registration")
	old.say(&pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{}}})
	old.hear("end, so that it attaches anew", func(m *pb.AttachReply) bool { return m.GetEnd().GetReattach() })
	is("a late beat")
	again := attach(t, rc, "old") // it beats on another stream; the successor is silent now
	beating, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ; beating.Err() == nil; <-tick.C {
			again.stream.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{}}})
		}
	}()
	s.happened(eider.EventLapsed, "orders", "a")
	stop()
	<-done
}

// watching is a raw caller.
type watching struct {
	*talker[pb.WatchRequest, pb.WatchReply]
}

func watch(t *testing.T, rc pb.RegistryClient, caller string, letGo ...*pb.Departure) watching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := rc.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w := watching{&talker[pb.WatchRequest, pb.WatchReply]{t, stream, cancel}}
	w.say(&pb.WatchRequest{Kind: &pb.WatchRequest_Hello{Hello: &pb.Hello{Caller: caller}}})
	w.say(&pb.WatchRequest{Kind: &pb.WatchRequest_Subscribe{Subscribe: &pb.Subscribe{Service: "orders", LetGo: letGo}}})
	w.hear("view", func(m *pb.WatchReply) bool { return m.GetView() != nil })
	return w
}

// moves sends Moving and waits until the node has ended the stream.
func (w watching) moves() {
	w.say(&pb.WatchRequest{Kind: &pb.WatchRequest_Moving{Moving: &pb.Moving{}}})
	for {
		if _, err := w.stream.Recv(); err != nil {
			return
		}
	}
}

// A move to another node is no goodbye: a drain waits for whoever moved away under its cap, and for whoever comes
// back until it names what it has let go of. Who says goodbye isn't waited for.
func TestACallerThatMovesIsStillWaitedFor(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true, Cap: 1500 * time.Millisecond})
	rc := rawClient(t, s.grpc)
	a := start(t, s, "orders", "a")
	watch(t, rc, "mover@1").moves()
	watch(t, rc, "returner@2").moves()
	bye := watch(t, rc, "leaver@3")
	bye.say(&pb.WatchRequest{Kind: &pb.WatchRequest_Goodbye{Goodbye: &pb.Goodbye{}}})
	for err := error(nil); err == nil; _, err = bye.stream.Recv() {
	}
	eventually(t, "goodbye", func() bool { return !s.calls("leaver@3") }) // the stream's end is told a moment earlier
	a.hears(syscall.SIGTERM)
	eventually(t, "drain", func() bool { d := s.drains("orders"); return len(d) == 1 && d[0].Open == 2 })
	in, _ := s.view("orders").Find("a")
	watch(t, rc, "returner@2", &pb.Departure{Id: "a", Nonce: in.Incarnation.Nonce})
	r := a.awaitKind("report").Report
	mover, ok1 := member(r.Members, "mover@1")
	returner, ok2 := member(r.Members, "returner@2")
	if !ok1 || !ok2 || mover.State == eider.LetGo || mover.Stream || returner.State != eider.LetGo || r.Waited != 2 {
		t.Errorf("%v: %+v", r, r.Members)
	}
	if r.Pause < 1400*time.Millisecond || r.Exit != drain.ExitClean {
		t.Errorf("%v", r)
	}
}
