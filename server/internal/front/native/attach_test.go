package native

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/replica"
)

func TestAttachFromHelloToLeft(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		tell(t, s.Send, register("1"))
		got := hear(t, s.Recv).GetRegistered()
		if got.GetService() != "orders" || got.GetId() != "1" || got.GetNumber() != 7 || got.GetAttachment() != 1 ||
			got.GetLeaseMs() != 20_000 || got.GetBoundMs() != 8_000 {
			t.Fatalf("registered: %v", got)
		}
		tell(t, s.Send, beat())
		if hear(t, s.Recv).GetBeaten() == nil {
			t.Fatal("a beat that asks for an echo had none")
		}
		tell(t, s.Send, &pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{Work: []*pb.Work{
			{Service: "orders", Id: "2", Arrived: 9}, // of another stream
			{Service: "orders", Id: "1", Arrived: 5, Completed: 3, Ended: 4, SlowestMs: 250, Unknown: true},
		}}}})
		tell(t, s.Send, &pb.AttachRequest{Kind: &pb.AttachRequest_SetStatus{SetStatus: &pb.SetStatus{Service: "orders", Id: "1", Status: pb.Status_STATUS_DOWN}}})
		tell(t, s.Send, &pb.AttachRequest{Kind: &pb.AttachRequest_Leave{Leave: &pb.Leave{Service: "orders", Id: "1", UnknownMs: 1500}}})
		tell(t, s.Send, &pb.AttachRequest{Kind: &pb.AttachRequest_Left{Left: &pb.Left{Service: "orders", Id: "1"}}})
		if l := hear(t, s.Recv).GetLeft(); l.GetId() != "1" {
			t.Fatalf("left: %v", l)
		}
		for _, call := range []string{"attach orders@1 false 10.0.0.2", "register orders/1 UP 9s", "beat", "status orders/1 DOWN", "leave orders/1", "left orders/1",
			"work orders/1 {Arrived:5 Completed:3 Ended:4 Slowest:250ms Unknown:true}", "unknown orders/1 1.5s"} {
			if !r.fake.said(call) {
				t.Errorf("the replica didn't hear %q; it heard %q", call, r.fake.calls)
			}
		}
		if r.fake.heard("work orders/2") {
			t.Error("the replica heard of the work of an instance that isn't on the stream")
		}
		s.CloseSend()
		if code, text := hearEnd(t, s.Recv); code != codes.OK {
			t.Fatalf("end: %v %s", code, text)
		}
		if how := r.fake.stream(0).over(t); how != replica.Lost {
			t.Fatalf("ended as %d", how)
		}
	})
}

func TestNoticesBecomeBoundAndProgress(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		key := eider.Key{Service: "orders", ID: "1"}
		r.fake.stream(0).notices <- replica.Notice{Key: key, Bound: 3 * time.Second}
		if b := hear(t, s.Recv).GetBound(); b.GetId() != "1" || b.GetBoundMs() != 3000 {
			t.Fatalf("bound: %v", b)
		}
		d := eider.Drain{Departure: eider.Departure{Key: key}, Bound: time.Second, Reached: true, Total: 40, Open: 2,
			Members: make([]eider.Member, 40)}
		d.Members[0] = eider.Member{Caller: "checkout@1", Kind: eider.Native, State: eider.Waiting, Stream: true, Cap: time.Second}
		r.fake.stream(0).notices <- replica.Notice{Drain: d}
		p := hear(t, s.Recv).GetProgress()
		if !p.GetBarrier() || p.GetTotal() != 40 || p.GetOpen() != 2 || p.GetBoundMs() != 1000 || len(p.GetMembers()) != eider.MaxMembers {
			t.Fatalf("progress: %v", p)
		}
		if m := p.GetMembers()[0]; m.GetCaller() != "checkout@1" || m.GetState() != "waiting" || m.GetCapMs() != 1000 || !m.GetStream() {
			t.Fatalf("member: %v", m)
		}
	})
}

func TestAttachEndsAsItsProcessSays(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		tell(t, s.Send, &pb.AttachRequest{Kind: &pb.AttachRequest_Moving{Moving: &pb.Moving{}}})
		if code, _ := hearEnd(t, s.Recv); code != codes.OK {
			t.Fatalf("moving: %v", code)
		}
		if how := r.fake.stream(0).over(t); how != replica.Moving {
			t.Fatalf("moving ended as %d", how)
		}
		r.attached("10.0.0.3")
		r.net.Cut("10.0.0.3", node)
		if how := r.fake.stream(1).over(t); how != replica.Lost {
			t.Fatalf("a cut ended as %d", how)
		}
	})
}

func TestStaleStreamIsToldToComeBack(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		r.fake.stream(0).fail <- eider.Errorf(eider.Stale, "", "orders/1 had lapsed here; attach anew")
		end := hear(t, s.Recv).GetEnd()
		if !end.GetReattach() || end.GetError().GetKind() != pb.Kind_KIND_STALE {
			t.Fatalf("end: %v", end)
		}
		if code, _ := hearEnd(t, s.Recv); code != codes.Aborted {
			t.Fatalf("status: %v", code)
		}
		r.fake.stream(0).over(t)
	})
}

func TestRefusalsNameTheInstanceAndTheFault(t *testing.T) {
	const long = 4096
	bad := func(change func(*pb.Register)) *pb.AttachRequest {
		m := register("1")
		change(m.GetRegister())
		return m
	}
	for name, row := range map[string]struct {
		m    *pb.AttachRequest
		kind pb.Kind
	}{
		"no record":      {bad(func(m *pb.Register) { m.Record = nil }), pb.Kind_KIND_INVALID},
		"no nonce":       {bad(func(m *pb.Register) { m.Record.Incarnation = nil }), pb.Kind_KIND_INVALID},
		"upper case":     {bad(func(m *pb.Register) { m.Record.Service = "Orders" }), pb.Kind_KIND_INVALID},
		"long id":        {bad(func(m *pb.Register) { m.Record.Id = string(make([]byte, long)) }), pb.Kind_KIND_INVALID},
		"long runes":     {bad(func(m *pb.Register) { m.Record.Id = "x" + strings.Repeat("é", 200) }), pb.Kind_KIND_INVALID},
		"gone already":   {bad(func(m *pb.Register) { m.Record.Status = pb.Status_STATUS_LEFT }), pb.Kind_KIND_INVALID},
		"status 99":      {bad(func(m *pb.Register) { m.Record.Status = 99 }), pb.Kind_KIND_INVALID},
		"attachment 0":   {bad(func(m *pb.Register) { m.Record.Attachment = 0 }), pb.Kind_KIND_INVALID},
		"port 70000":     {bad(func(m *pb.Register) { m.Record.Ports = map[string]uint32{"x": 70000} }), pb.Kind_KIND_INVALID},
		"foreign leave":  {&pb.AttachRequest{Kind: &pb.AttachRequest_Leave{Leave: &pb.Leave{Service: "orders", Id: "9"}}}, pb.Kind_KIND_NOT_FOUND},
		"foreign left":   {&pb.AttachRequest{Kind: &pb.AttachRequest_Left{Left: &pb.Left{Service: "orders", Id: "9"}}}, pb.Kind_KIND_NOT_FOUND},
		"foreign status": {&pb.AttachRequest{Kind: &pb.AttachRequest_SetStatus{SetStatus: &pb.SetStatus{Service: "orders", Id: "9", Status: pb.Status_STATUS_UP}}}, pb.Kind_KIND_NOT_FOUND},
		"status left":    {&pb.AttachRequest{Kind: &pb.AttachRequest_SetStatus{SetStatus: &pb.SetStatus{Service: "orders", Id: "1", Status: pb.Status_STATUS_LEFT}}}, pb.Kind_KIND_INVALID},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				s := r.attached("10.0.0.2")
				if name == "status left" {
					tell(t, s.Send, register("1"))
					hear(t, s.Recv)
				}
				before := len(r.fake.calls)
				tell(t, s.Send, row.m)
				got := hear(t, s.Recv).GetRefused()
				if got.GetError().GetKind() != row.kind || got.GetError().GetMessage() == "" || len(got.GetId()) > eider.MaxName {
					t.Fatalf("refused: %v", got)
				}
				if len(r.fake.calls) != before {
					t.Fatalf("the replica heard of it: %q", r.fake.calls[before:])
				}
				tell(t, s.Send, beat()) // one bad instance ends nobody's stream
				if hear(t, s.Recv).GetBeaten() == nil {
					t.Fatal("no echo")
				}
			})
		})
	}
}

func TestReplicaRefusalReachesTheProcess(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		r.fake.mu.Lock()
		r.fake.err = &eider.Error{Op: "register orders/1", Kind: eider.Conflict, Err: errGone}
		r.fake.mu.Unlock()
		tell(t, s.Send, register("1"))
		got := hear(t, s.Recv).GetRefused()
		if got.GetId() != "1" || got.GetError().GetKind() != pb.Kind_KIND_CONFLICT {
			t.Fatalf("refused: %v", got)
		}
		synctest.Wait()
		if st := r.srv.Stats(); st.Streams != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

// A message of ours that can't be encoded is our defect: the process is told Internal, the log why.
func TestWhatCantBeEncodedIsLogged(t *testing.T) {
	var log strings.Builder
	inBubble(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		r.fake.stream(0).notices <- replica.Notice{Key: eider.Key{Service: "orders", ID: "\xff"}}
		if code, _ := hearEnd(t, s.Recv); code != codes.Internal {
			t.Errorf("status: %v", code)
		}
		r.fake.stream(0).over(t)
	})
	if !strings.Contains(log.String(), "caller=orders@1") || !strings.Contains(log.String(), "UTF-8") {
		t.Errorf("the log: %s", log.String())
	}
}
