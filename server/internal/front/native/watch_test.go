package native

import (
	"fmt"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/replica"
)

func encoded(t *testing.T, number uint64) []byte {
	t.Helper()
	b, err := proto.Marshal(&pb.WatchReply{Kind: &pb.WatchReply_View{View: &pb.View{Service: "orders", Cursor: &pb.Cursor{Run: 1, Number: number}}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWatchFromHelloToGoodbye(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.watching("10.0.0.2")
		dep := []*pb.Departure{{Id: "1", Nonce: 9}, {Id: "no id", Nonce: 9}, {Id: "2"}}
		at := &pb.Cursor{Run: 1, Number: 5}
		for _, m := range []*pb.WatchRequest{
			{Kind: &pb.WatchRequest_Subscribe{Subscribe: &pb.Subscribe{Service: "orders", Cursor: at, LetGo: dep}}},
			{Kind: &pb.WatchRequest_Ack{Ack: &pb.Ack{Service: "orders", Cursor: at, LetGo: dep, NoAlternative: dep}}},
			{Kind: &pb.WatchRequest_Ack{Ack: &pb.Ack{Service: "others", Cursor: at}}},
			{Kind: &pb.WatchRequest_Doubt{Doubt: &pb.Doubt{Service: "orders", Id: "1", Nonce: 9}}},
			{Kind: &pb.WatchRequest_Doubt{Doubt: &pb.Doubt{Service: "others", Id: "1", Nonce: 9}}},
			{Kind: &pb.WatchRequest_Unsubscribe{Unsubscribe: &pb.Unsubscribe{Service: "orders"}}},
			{Kind: &pb.WatchRequest_Unsubscribe{Unsubscribe: &pb.Unsubscribe{Service: "orders"}}},
			{Kind: &pb.WatchRequest_Ping{Ping: &pb.Ping{Number: 77}}},
		} {
			tell(t, s.Send, m)
		}
		if p := hear(t, s.Recv).GetPong(); p.GetNumber() != 77 {
			t.Fatalf("pong: %v", p)
		}
		want := []string{"watch checkout@1 false 10.0.0.2", "subscribe orders 1:5 1", "ack orders 1:5 1 1", "doubt orders/1", "unsubscribe orders"}
		if got := fmt.Sprint(r.fake.calls); got != fmt.Sprint(want) {
			t.Fatalf("the replica heard %s, want %s", got, want)
		}
		tell(t, s.Send, &pb.WatchRequest{Kind: &pb.WatchRequest_Goodbye{Goodbye: &pb.Goodbye{}}})
		if code, _ := hearEnd(t, s.Recv); code != codes.OK {
			t.Fatalf("goodbye: %v", code)
		}
		if how := r.fake.stream(0).over(t); how != replica.Bye {
			t.Fatalf("goodbye ended as %d", how)
		}
	})
}

func TestViewsGoOutAsTheyAre(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.watching("10.0.0.2")
		one, two := encoded(t, 1), encoded(t, 2)
		two = append(two, 0xa2, 0x06, 0x03, 'o', 'd', 'd') // an unknown field: only the very bytes keep its place
		r.fake.stream(0).views <- [][]byte{one, two}
		for i, want := range [][]byte{one, two} {
			m := hear(t, s.Recv)
			if m.GetView().GetCursor().GetNumber() != uint64(i+1) {
				t.Fatalf("view %d: %v", i, m)
			}
			if got, _ := proto.Marshal(m); len(got) != len(want) {
				t.Fatalf("view %d has %d bytes, want %d", i, len(got), len(want))
			}
		}
	})
}

func TestRawIsNotCopied(t *testing.T) {
	b := raw(encoded(t, 1))
	out, err := newCodec().Marshal(&b)
	if err != nil || len(out) != 1 || &out[0].ReadOnlyData()[0] != &b[0] {
		t.Fatalf("%v, %v", out, err)
	}
}

func TestObserverOwesNothing(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.watch(r.dial("10.0.0.2"))
		tell(t, s.Send, watchHello(true))
		hear(t, s.Recv)
		dep := []*pb.Departure{{Id: "1", Nonce: 9}}
		tell(t, s.Send, &pb.WatchRequest{Kind: &pb.WatchRequest_Subscribe{Subscribe: &pb.Subscribe{Service: "orders", LetGo: dep}}})
		tell(t, s.Send, &pb.WatchRequest{Kind: &pb.WatchRequest_Ack{Ack: &pb.Ack{Service: "orders", LetGo: dep}}})
		tell(t, s.Send, &pb.WatchRequest{Kind: &pb.WatchRequest_Doubt{Doubt: &pb.Doubt{Service: "orders", Id: "1", Nonce: 9}}})
		synctest.Wait()
		want := []string{"watch checkout@1 true 10.0.0.2", "subscribe orders 0:0 0"}
		if got := fmt.Sprint(r.fake.calls); got != fmt.Sprint(want) {
			t.Fatalf("the replica heard %s, want %s", got, want)
		}
	})
}

func TestSubscriptionProblemsLeaveTheStreamAlone(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.watching("10.0.0.2")
		tell(t, s.Send, subscribe("Orders!\xff"[:7]))
		if p := hear(t, s.Recv).GetProblem(); p.GetError().GetKind() != pb.Kind_KIND_INVALID {
			t.Fatalf("problem: %v", p)
		}
		r.fake.mu.Lock()
		r.fake.err = eider.Errorf(eider.Limited, "subscribe orders", "too many")
		r.fake.mu.Unlock()
		tell(t, s.Send, subscribe("orders"))
		if p := hear(t, s.Recv).GetProblem(); p.GetService() != "orders" || p.GetError().GetKind() != pb.Kind_KIND_LIMITED {
			t.Fatalf("problem: %v", p)
		}
	})
}

func TestReplicaThatIsAwayAnswersUnavailable(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.fake.openErr = eider.Errorf(eider.Unavailable, "", "not running yet")
		s := r.watch(r.dial("10.0.0.2"))
		tell(t, s.Send, watchHello(false))
		if e := hear(t, s.Recv).GetEnd(); e.GetError().GetKind() != pb.Kind_KIND_UNAVAILABLE {
			t.Fatalf("end: %v", e)
		}
		if code, _ := hearEnd(t, s.Recv); code != codes.Unavailable {
			t.Fatalf("status: %v", code)
		}
	})
}
