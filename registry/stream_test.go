package registry

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// A node that ends every stream at once, in whatever way, is never asked in a loop.
func TestR13StreamsEndedAtOnceAreNoLoop(t *testing.T) {
	end := func(e *pb.End) func(*watchTalk) error {
		return func(c *watchTalk) error {
			c.say(&pb.WatchReply{Kind: &pb.WatchReply_End{End: e}})
			return nil
		}
	}
	welcomed := func(c *watchTalk) error {
		c.say(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 1}}})
		return nil
	}
	for name, refuse := range map[string]func(*watchTalk) error{
		"status":            func(*watchTalk) error { return status.Error(codes.Internal, "no") },
		"unavailable":       func(*watchTalk) error { return status.Error(codes.Unavailable, "no") },
		"nothing":           func(*watchTalk) error { return nil },
		"welcome":           welcomed,
		"end":               end(&pb.End{}),
		"reattach":          end(&pb.End{Reattach: true, Error: &pb.Error{Kind: pb.Kind_KIND_STALE, Message: "attach anew"}}),
		"no welcome":        func(c *watchTalk) error { c.say(viewOf(1, 1, 0, "a")); return nil },
		"welcome, and then": func(c *watchTalk) error { welcomed(c); return end(&pb.End{Reattach: true})(c) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := newFake(t)
				s, _ := node.open(Config{}).Follow("orders")
				n := 0
				for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && n < 5000; n++ {
					c := next(t, node.watches)
					c.bye <- refuse(c)
				}
				if n < 60 || n > 400 {
					t.Errorf("%d streams in three minutes, want about one a second", n)
				}
				if u, _ := s.news(); u.Err == nil || u.Connected || u.View != nil {
					t.Errorf("the follower's news is %+v", u)
				}
				c := node.watch(1)
				until(c, (*pb.WatchRequest).GetSubscribe)
				c.say(viewOf(1, 2, 0, "a"))
				for u := update(t, s); !u.Connected || u.View == nil; u = update(t, s) {
				}
			})
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		l, _ := node.open(Config{}).Register(orders)
		c := node.attach()
		until(c, (*pb.AttachRequest).GetRegister)
		c.say(&pb.AttachReply{Kind: &pb.AttachReply_End{End: &pb.End{Error: &pb.Error{
			Kind: pb.Kind_KIND_LIMITED, Message: "too many at once", RetryAfterMs: 30_000}}}})
		c.bye <- status.Error(codes.ResourceExhausted, "too many at once")
		begin := time.Now()
		synctest.Wait()
		if s := l.State(); eider.KindOf(s.Err) != eider.Limited {
			t.Errorf("the state is %v", s)
		}
		node.attach()
		if took := time.Since(begin); took < 30*time.Second || took > 38*time.Second {
			t.Errorf("came back after %s, want 30s to 37.5s", took)
		}
		if node.dialled() != 1 {
			t.Errorf("%d dials, want 1: the connection stood", node.dialled())
		}
	})
}

func TestHungAttachIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		listedOne(node, node.open(Config{}))
		begin := time.Now()
		node.attach() // the first stream says nothing more
		if took := time.Since(begin); took < 10*time.Second || took > 16*time.Second {
			t.Errorf("the hung stream was replaced after %s, want 10s after a question", took)
		}
		if node.dialled() != 2 {
			t.Errorf("%d dials, want 2: a connection whose node hangs is given up", node.dialled())
		}
	})
}

// A node that takes the connection and never says Welcome.
func TestSilentNodeIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		node.open(Config{}).Register(orders)
		next(t, node.attaches)
		begin := time.Now()
		node.attach()
		if took := time.Since(begin); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("another stream came after %s, want 10s", took)
		}
	})
}

func TestCloseSaysGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		s, c := followed(t, node, reg)
		s.Ack(at(1), []eider.Departure{dep("a")}, nil)
		begin := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			reg.Close()
		}()
		expectAck(t, c, 0, "1;a;") // what was owed is said before
		until(c, (*pb.WatchRequest).GetGoodbye)
		c.bye <- nil
		<-done
		if took := time.Since(begin); took != 0 {
			t.Errorf("Close took %s", took)
		}
		if _, err := s.Next(t.Context()); eider.KindOf(err) != eider.Closed {
			t.Errorf("Next on a closed handle = %v", err)
		}
		reg.Close()
	})
}

func TestCloseLosesWhoHasNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		l, c := listedOne(node, reg)
		begin := time.Now()
		reg.Close()
		if took := time.Since(begin); took != 0 {
			t.Errorf("Close took %s", took)
		}
		for m := range c.got {
			if m.GetBeat() == nil {
				t.Errorf("Close said %v for an instance that hasn't left", m)
			}
		}
		if err := c.stream.Context().Err(); err == nil {
			t.Error("the stream isn't ended")
		}
		if err := l.Left(t.Context()); eider.KindOf(err) != eider.Unavailable {
			t.Errorf("Left after Close = %v", err)
		}
	})
}

func TestCloseIsBoundedUnderAHungNode(t *testing.T) {
	for name, stage := range map[string]func(*testing.T, *fake, *Registry){
		"following":  func(t *testing.T, node *fake, reg *Registry) { followed(t, node, reg) },
		"observing":  func(t *testing.T, node *fake, reg *Registry) { go drainViews(t, reg); node.watch(1) },
		"no welcome": func(t *testing.T, node *fake, reg *Registry) { reg.Follow("orders"); next(t, node.watches) },
		"away": func(t *testing.T, node *fake, reg *Registry) {
			node.kill(errRefused)
			reg.Follow("orders")
			reg.Register(orders)
			<-time.After(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := newFake(t)
				reg := node.open(Config{})
				stage(t, node, reg)
				node.hung.Store(true)
				begin := time.Now()
				reg.Close()
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("Close took %s, want at most 2s", took)
				}
			})
		})
	}
}

func drainViews(t *testing.T, reg *Registry) {
	for range reg.Watch(t.Context(), "orders") {
	}
}

func TestOneConnectionForAllStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		listedOne(node, reg)
		followed(t, node, reg)
		go drainViews(t, reg)
		node.watch(1)
		if node.dialled() != 1 {
			t.Errorf("%d connections, want 1", node.dialled())
		}
	})
}

func TestOpenDoesNoIO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{Caller: "check out@/x"})
		time.Sleep(time.Minute)
		if node.dialled() != 0 {
			t.Error("Open dialled")
		}
		if name := reg.Caller(); len(name) != len("check-out--x@b2f19c03d1e7") || name[:13] != "check-out--x@" {
			t.Errorf("the caller is %q", name)
		}
	})
}
