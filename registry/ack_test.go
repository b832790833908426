package registry

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// acked formats what an acknowledgement says: cursor; let go; no alternative.
func acked(m *pb.Ack) string {
	names := func(deps []*pb.Departure) (out string) {
		for _, d := range deps {
			out += d.GetId()
		}
		return out
	}
	return fmt.Sprintf("%d;%s;%s", m.GetCursor().GetNumber(), names(m.GetLetGo()), names(m.GetNoAlternative()))
}

func expectAck(t *testing.T, c *watchTalk, within time.Duration, want string) {
	t.Helper()
	begin := time.Now()
	if got := acked(until(c, (*pb.WatchRequest).GetAck)); got != want {
		t.Errorf("acknowledged %q, want %q", got, want)
	}
	if took := time.Since(begin); took > within {
		t.Errorf("acknowledged %q after %s, want at most %s", want, took, within)
	}
}

func at(number uint64) eider.Cursor { return eider.Cursor{Run: 1, Number: number} }

func TestAcksOfCursorsAreCoalescedAndNewsIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		s.Ack(at(1), nil, nil)
		expectAck(t, c, ackAfter, "1;;")
		s.Ack(at(2), nil, nil)
		synctest.Wait()
		s.Ack(at(3), nil, nil)
		synctest.Wait()
		s.Ack(at(4), nil, nil)
		expectAck(t, c, 100*time.Millisecond, "4;;")
		s.Ack(at(5), []eider.Departure{dep("a")}, nil)
		expectAck(t, c, 0, "5;a;")
		s.Ack(at(5), []eider.Departure{dep("a")}, []eider.Departure{dep("b")})
		expectAck(t, c, 0, "5;a;b")
		s.Ack(at(5), []eider.Departure{dep("a")}, []eider.Departure{dep("b")})
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("an acknowledgement without news was sent: %v", said)
		}
	})
}

// A departure is acknowledged once all followers of the process have let go, and has no alternative if one says so.
func TestAcksAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s1, c := followed(t, node, reg)
		s2, _ := reg.Follow("orders")
		if u := update(t, s2); u.View == nil {
			t.Error("a second follower isn't given what is held")
		}
		s1.Ack(at(2), []eider.Departure{dep("a")}, nil)
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("one of two has let go, and that was told: %v", said)
		}
		s2.Ack(at(1), nil, []eider.Departure{dep("a")})
		expectAck(t, c, 100*time.Millisecond, "1;;a")
		s2.Ack(at(2), []eider.Departure{dep("b"), dep("a")}, nil)
		expectAck(t, c, 0, "2;a;")
		s3, _ := reg.Follow("orders")
		s1.Ack(at(3), []eider.Departure{dep("a"), dep("b")}, nil)
		idle(c, time.Minute)
		s3.Close() // what only it hadn't let go of is let go of now
		expectAck(t, c, 0, "2;ab;")
		s2.Close()
		expectAck(t, c, 100*time.Millisecond, "3;ab;")
		s1.Close()
		if m := until(c, (*pb.WatchRequest).GetUnsubscribe); m.GetService() != "orders" {
			t.Errorf("unsubscribed %v", m)
		}
		if _, err := s1.Next(t.Context()); eider.KindOf(err) != eider.Closed {
			t.Errorf("Next on a closed subscription = %v", err)
		}
		s1.Ack(at(9), nil, nil)
		s1.Close()
		if _, err := reg.Follow("orders"); err != nil {
			t.Fatal(err)
		}
		until(c, (*pb.WatchRequest).GetSubscribe)
	})
}

// A follower that comes after the others have let go may pick, before it has said a word: what they have let go
// of is taken back at once, in time for a leave that the node hears of only now.
func TestLateFollowerTakesBackWhatOthersLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s, c := followed(t, node, reg)
		s.Ack(at(1), []eider.Departure{dep("a")}, nil)
		expectAck(t, c, 0, "1;a;")
		if _, err := reg.Follow("orders"); err != nil {
			t.Fatal(err)
		}
		expectAck(t, c, 0, "0;;")
	})
}

// On a new stream the caller names what it has let go of, and repeats what it couldn't.
func TestReconnectNamesWhatWasLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		s.Ack(at(1), []eider.Departure{dep("a")}, []eider.Departure{dep("b")})
		expectAck(t, c, 0, "1;a;b")
		c.bye <- nil
		c = node.watch(2)
		m := until(c, (*pb.WatchRequest).GetSubscribe)
		if len(m.GetLetGo()) != 1 || m.GetLetGo()[0].GetId() != "a" || m.GetLetGo()[0].GetNonce() != 1 {
			t.Errorf("subscribed naming %v, want a", m.GetLetGo())
		}
		expectAck(t, c, 0, "0;a;b") // no cursor of this run yet
		c.say(viewOf(2, 9, 0, "a", "b"))
		s.Ack(eider.Cursor{Run: 2, Number: 9}, []eider.Departure{dep("a"), dep("b")}, nil)
		expectAck(t, c, 0, "9;ab;")
	})
}

func TestDoubtIsToldNowOrNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		s.Doubt(eider.Departure{Key: eider.Key{ID: "a"}, Incarnation: eider.Incarnation{Nonce: 7}})
		if d := until(c, (*pb.WatchRequest).GetDoubt); d.GetService() != "orders" || d.GetId() != "a" || d.GetNonce() != 7 {
			t.Errorf("doubted %v", d)
		}
		node.kill(errRefused)
		synctest.Wait()
		s.Doubt(dep("a"))
		node.start()
		c = node.watch(1)
		until(c, (*pb.WatchRequest).GetSubscribe)
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("a doubt of long ago was told: %v", said)
		}
	})
}

// A node reads no message above 64 KiB: a caller of thousands of instances that all leave at once must not lose
// its stream for naming them, each time anew.
func TestAckFitsIntoAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		var many []eider.Departure
		for i := range 4000 {
			many = append(many, dep(fmt.Sprintf("orders-%0100d", i)))
		}
		s.Ack(at(1), many[:2000], many[2000:])
		m := until(c, (*pb.WatchRequest).GetAck)
		if size := proto.Size(m); size > 63<<10 || len(m.GetLetGo()) < 400 {
			t.Errorf("an acknowledgement of %d departures has %d bytes, want as many as fit into 63 KiB", len(m.GetLetGo()), size)
		}
		c.bye <- nil
		c = node.watch(1)
		if size := proto.Size(until(c, (*pb.WatchRequest).GetSubscribe)); size > 63<<10 {
			t.Errorf("a subscription has %d bytes", size)
		}
	})
}

// A node takes two callers of one name for one process, and the let-go of either for that of both.
func TestCallersOfAFleetHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 50_000 {
		name := callerName("checkout")
		if seen[name] {
			t.Fatalf("%s was drawn twice by a fleet of 50,000", name)
		}
		seen[name] = true
	}
}

// What one follower has let go of for a hold, and another for a leave, both have let go of for neither: and a hold's
// count travels.
func TestAHoldAndALeaveAreLetGoOfEachByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s1, c := followed(t, node, reg)
		s2, _ := reg.Follow("orders")
		update(t, s2)
		held := dep("a")
		held.Hold = 7
		s1.Ack(at(1), []eider.Departure{held}, nil)
		s2.Ack(at(1), []eider.Departure{dep("a")}, nil)
		for _, m := range idle(c, time.Minute) {
			if len(m.GetAck().GetLetGo()) != 0 {
				t.Errorf("one of two has let go for a hold, the other for a leave, and that was told: %v", m)
			}
		}
		s2.Ack(at(1), []eider.Departure{dep("a"), held}, nil)
		if m := until(c, (*pb.WatchRequest).GetAck); len(m.GetLetGo()) != 1 || m.GetLetGo()[0].GetHold() != 7 {
			t.Errorf("both have let go for hold 7, and %v was told", m.GetLetGo())
		}
	})
}
