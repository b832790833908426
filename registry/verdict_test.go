package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func verdict(id string, state eider.BreakerState) eider.Verdict {
	return eider.Verdict{Key: eider.Key{ID: id}, Incarnation: eider.Incarnation{Nonce: 1},
		Breaker: eider.Breaker{State: state, Rule: eider.BreakerSlowRate, Count: 7, Of: 10, Since: time.Now(), Retry: time.Now().Add(time.Second)}}
}

// heardOf returns what a node hears within a time: each message of verdicts as "a open, b closed", by id.
func heardOf(c *watchTalk, d time.Duration) (out []string) {
	for _, m := range idle(c, d) {
		if v := m.GetVerdicts(); v != nil {
			out = append(out, inShort(v))
		}
	}
	return out
}

func inShort(m *pb.Verdicts) string {
	slices.SortFunc(m.Verdicts, func(a, b *pb.Verdict) int { return cmp.Compare(a.GetId(), b.GetId()) })
	var words []string
	for _, v := range m.Verdicts {
		words = append(words, v.GetId()+" "+eider.BreakerState(v.GetState()).String())
	}
	return strings.Join(words, ", ")
}

func expectHeard(t *testing.T, c *watchTalk, d time.Duration, want ...string) {
	t.Helper()
	if got := heardOf(c, d); !slices.Equal(got, want) {
		t.Errorf("within %s the node heard %q, want %q", d, got, want)
	}
}

func TestAVerdictIsToldAtOnceAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		s.Verdicts(verdict("a", eider.BreakerClosed)) // says nothing: nothing else was said
		expectHeard(t, c, time.Second)
		begin := time.Now()
		s.Verdicts(verdict("a", eider.BreakerOpen), verdict("b", eider.BreakerClosed))
		m := until(c, (*pb.WatchRequest).GetVerdicts)
		want := &pb.Verdicts{Service: "orders", Verdicts: []*pb.Verdict{{Id: "a", Nonce: 1, State: pb.BreakerState_BREAKER_STATE_OPEN,
			Rule: pb.BreakerRule_BREAKER_RULE_SLOW_RATE, Count: 7, Of: 10, RetryMs: 1000}}}
		if !proto.Equal(m, want) || time.Since(begin) != 0 {
			t.Errorf("after %s it told %v, want %v at once", time.Since(begin), m, want)
		}
		s.Verdicts(verdict("a", eider.BreakerClosed))
		expectHeard(t, c, time.Second, "a closed")
		s.Verdicts(verdict("a", eider.BreakerClosed))
		expectHeard(t, c, time.Second)
	})
}

// A breaker that flaps a thousand times a second costs the node four small messages in it, and the last word is right.
func TestVerdictsThatFlapAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for range 1000 {
				s.Verdicts(verdict("a", eider.BreakerOpen), verdict("b", eider.BreakerHalfOpen))
				s.Verdicts(verdict("a", eider.BreakerClosed), verdict("b", eider.BreakerRamping))
				<-time.After(time.Millisecond)
			}
		}()
		got := heardOf(c, 2*time.Second)
		<-stop
		if n := len(got); n < 4 || n > 7 {
			t.Errorf("the node heard %d messages in a second, want about four: %q", n, got)
		}
		if last := got[len(got)-1]; last != "a closed, b ramping" && last != "b ramping" {
			t.Errorf("the last word is %q", last)
		}
	})
}

func TestVerdictsAreToldAgainOnANewStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		s.Verdicts(verdict("a", eider.BreakerOpen), verdict("b", eider.BreakerOpen))
		expectHeard(t, c, time.Second, "a open, b open")
		c.bye <- nil
		synctest.Wait()
		s.Verdicts(verdict("b", eider.BreakerClosed)) // to nobody
		c = node.watch(2)
		until(c, (*pb.WatchRequest).GetSubscribe) // first
		expectHeard(t, c, time.Second, "a open")
		c.say(&pb.WatchReply{Kind: &pb.WatchReply_Problem{Problem: &pb.Problem{Service: "orders", Error: &pb.Error{Kind: pb.Kind_KIND_UNAVAILABLE}}}})
		until(c, (*pb.WatchRequest).GetSubscribe) // who was refused wasn't heard
		expectHeard(t, c, time.Second, "a open")
	})
}

// A node that doesn't know verdicts ends a stream for them, so it is told none.
func TestVerdictsArentToldToAnOlderNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		s.Verdicts(verdict("a", eider.BreakerOpen))
		expectHeard(t, c, time.Second, "a open")
		c.bye <- nil
		c = next(t, node.watches)
		c.hear()
		c.say(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 2, BeatMs: 2000}}})
		s.Verdicts(verdict("b", eider.BreakerOpen))
		expectHeard(t, c, time.Minute)
	})
}

func TestOfSeveralFollowersTheGravestWordCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s, c := followed(t, node, reg)
		other, err := reg.Follow("orders")
		if err != nil {
			t.Fatal(err)
		}
		s.Verdicts(verdict("a", eider.BreakerHalfOpen))
		expectHeard(t, c, time.Second, "a half-open")
		other.Verdicts(verdict("a", eider.BreakerOpen), verdict("b", eider.BreakerForcedOpen))
		expectHeard(t, c, time.Second, "a open, b forced open")
		other.Verdicts(verdict("a", eider.BreakerRamping))
		expectHeard(t, c, time.Second, "a half-open")
		other.Verdicts(verdict("a", eider.BreakerOpen))
		other.Close()
		expectHeard(t, c, time.Second, "a half-open, b closed")
		if reg.follow.verdicts != 1 {
			t.Errorf("%d verdicts are kept, want 1", reg.follow.verdicts)
		}
	})
}

// Rosters come and go for years, and so do instances: nothing of them may stay.
func TestVerdictsAreBoundedAndEndWithTheirInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s, c := followed(t, node, reg)
		var many []eider.Verdict
		for i := range 2 * eider.MaxVerdicts {
			many = append(many, verdict(fmt.Sprintf("%0128d", i), eider.BreakerOpen))
		}
		s.Verdicts(many...)
		m := until(c, (*pb.WatchRequest).GetVerdicts)
		if n, size := len(m.GetVerdicts()), proto.Size(m); n != eider.MaxVerdicts || size > 60<<10 {
			t.Errorf("it told %d verdicts in %d bytes", n, size)
		}
		s.Verdicts(verdict("", eider.BreakerOpen), verdict("x", 99), eider.Verdict{Key: eider.Key{ID: "y"}, Breaker: eider.Breaker{State: eider.BreakerOpen}})
		s.Verdicts(verdict("a", eider.BreakerOpen)) // no room
		expectHeard(t, c, time.Second)
		c.say(viewOf(1, 2, 1, "c")) // complete, and has none of them
		synctest.Wait()
		s.Verdicts(verdict("a", eider.BreakerOpen), verdict("b", eider.BreakerOpen))
		expectHeard(t, c, time.Second, "a open, b open")
		v := &pb.View{Service: "orders", Cursor: &pb.Cursor{Run: 1, Number: 3}, Complete: true, Base: 2}
		in := pb.Instance{Record: &pb.Record{Id: "a", Incarnation: &pb.Incarnation{Number: 2, Nonce: 2}, Attachment: 1, Version: 1, Status: pb.Status_STATUS_UP, Address: "10.0.0.7:80"}}
		v.Instances = append(v.Instances, &in) // another process under the id of a
		c.say(&pb.WatchReply{Kind: &pb.WatchReply_View{View: v}})
		synctest.Wait()
		f := reg.follow.feeds["orders"]
		if len(s.verdicts) != 1 || reg.follow.verdicts != 1 || len(f.told) != 1 || len(f.rejudged) != 0 {
			t.Errorf("kept are %d verdicts, %d in all, %d told, %d to be told; want those of b alone", len(s.verdicts), reg.follow.verdicts, len(f.told), len(f.rejudged))
		}
	})
}

func TestAnObserverTellsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s, err := reg.observe.join("orders")
		if err != nil {
			t.Fatal(err)
		}
		c := node.watch(1)
		s.Verdicts(verdict("a", eider.BreakerOpen))
		expectHeard(t, c, time.Second)
	})
}
