package native

import (
	"fmt"
	"testing"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

func verdictsOf(service string, all ...*pb.Verdict) *pb.WatchRequest {
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Verdicts{Verdicts: &pb.Verdicts{Service: service, Verdicts: all}}}
}

// What a stranger says of breakers reaches the replica only if it can be so, of a service that he follows.
func TestVerdictsReachTheReplica(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.watching("10.0.0.2")
		var many []*pb.Verdict
		for i := range 1000 {
			many = append(many, &pb.Verdict{Id: fmt.Sprint(i), Nonce: 1, State: pb.BreakerState_BREAKER_STATE_OPEN})
		}
		for _, m := range []*pb.WatchRequest{
			verdictsOf("orders", many[0]), // isn't followed
			subscribe("orders"),
			verdictsOf("orders", &pb.Verdict{Id: "1", Nonce: 9, State: pb.BreakerState_BREAKER_STATE_OPEN, Rule: 99}, &pb.Verdict{Id: "2", Nonce: 9}),
			verdictsOf("orders", &pb.Verdict{Id: "1", Nonce: 9, State: 7}, &pb.Verdict{Id: "\x1b[2J", Nonce: 9, State: 2}, &pb.Verdict{Id: "1", State: 2}, &pb.Verdict{}),
			verdictsOf("orders", many...),
			{Kind: &pb.WatchRequest_Ping{Ping: &pb.Ping{Number: 77}}},
		} {
			tell(t, s.Send, m)
		}
		hear(t, s.Recv) // the pong
		want := []string{"watch checkout@1 false 10.0.0.2", "subscribe orders 0:0 0", "verdicts orders 1 open 2 closed", "verdicts orders"}
		calls := r.fake.calls
		if len(calls) != 5 || fmt.Sprint(calls[:4]) != fmt.Sprint(want) || len(r.fake.broken) != 0 {
			t.Errorf("the replica heard %.300q, %q; want %q and 256 of 1000", calls, r.fake.broken, want)
		}
	})
}

func TestAnObserverHasNoVerdicts(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.watch(r.dial("10.0.0.2"))
		tell(t, s.Send, watchHello(true))
		if w := hear(t, s.Recv).GetWelcome(); !w.GetVerdicts() {
			t.Errorf("nobody would tell it of a breaker: %v", w)
		}
		tell(t, s.Send, subscribe("orders"))
		tell(t, s.Send, verdictsOf("orders", &pb.Verdict{Id: "1", Nonce: 9, State: pb.BreakerState_BREAKER_STATE_OPEN}))
		tell(t, s.Send, &pb.WatchRequest{Kind: &pb.WatchRequest_Ping{Ping: &pb.Ping{Number: 77}}})
		hear(t, s.Recv)
		if n := len(r.fake.calls); n != 2 {
			t.Errorf("the replica heard %q", r.fake.calls)
		}
	})
}
