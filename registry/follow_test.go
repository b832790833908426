package registry

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

// viewOf makes a snapshot (base 0) or a delta with these instances, all UP.
func viewOf(run, number, base uint64, ids ...string) *pb.WatchReply {
	v := &pb.View{Service: "orders", Cursor: &pb.Cursor{Run: run, Number: number}, Complete: true, Base: base}
	for _, id := range ids {
		v.Instances = append(v.Instances, wire.FromInstance(instance(id, 1)))
	}
	return &pb.WatchReply{Kind: &pb.WatchReply_View{View: v}}
}

func instance(id string, nonce uint64) *eider.Instance {
	return &eider.Instance{Record: eider.Record{Key: eider.Key{Service: "orders", ID: id},
		Incarnation: eider.Incarnation{Number: 1, Nonce: nonce}, Attachment: 1, Version: 1, Status: eider.Up, Address: "10.0.0.7:80"}}
}

func dep(id string) eider.Departure {
	return eider.Departure{Key: eider.Key{Service: "orders", ID: id}, Incarnation: eider.Incarnation{Number: 1, Nonce: 1}}
}

func ids(v *eider.View) (out []string) {
	for _, in := range v.Instances {
		out = append(out, in.ID)
	}
	return out
}

// update waits for the next state of a subscription.
func update(t *testing.T, s *Subscription) Update {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	u, err := s.Next(ctx)
	if err != nil {
		t.Fatalf("no news: %v", err)
	}
	return u
}

// quiet fails the test if there's news.
func quiet(t *testing.T, s *Subscription, why string) {
	t.Helper()
	synctest.Wait()
	if u, news := s.news(); news {
		t.Errorf("%s, but there's news: %+v", why, u)
	}
}

// followed follows orders and gives it its first view, {1: a b}, of run 1.
func followed(t *testing.T, node *fake, reg *Registry) (*Subscription, *watchTalk) {
	t.Helper()
	s, err := reg.Follow("Orders")
	if err != nil {
		t.Fatal(err)
	}
	c := node.watch(1)
	if m := until(c, (*pb.WatchRequest).GetSubscribe); m.GetService() != "orders" || m.GetCursor() != nil {
		t.Fatalf("subscribed by %v", m)
	}
	c.say(viewOf(1, 1, 0, "a", "b"))
	if u := update(t, s); !u.Connected || !slices.Equal(ids(u.View), []string{"a", "b"}) || u.Lease != 20*time.Second || u.Heard.IsZero() {
		t.Fatalf("the first news is %+v", u)
	}
	return s, c
}

func TestFollowSkipsToTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		first := s.feed.held.view
		c.say(viewOf(1, 2, 1, "c"), viewOf(1, 3, 2, "d"))
		synctest.Wait()
		u := update(t, s)
		if u.View.Cursor.Number != 3 || !slices.Equal(ids(u.View), []string{"a", "b", "c", "d"}) {
			t.Errorf("the newest view is %v", u.View)
		}
		if len(first.Instances) != 2 || first.Cursor.Number != 1 {
			t.Error("a view that was handed out has changed")
		}
		quiet(t, s, "everything was returned")
		c.say(viewOf(1, 3, 2, "x"), viewOf(1, 2, 0, "y")) // late ones
		quiet(t, s, "late views came")
	})
}

func TestUnknownServiceIsAnEmptyView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, _ := node.open(Config{}).Follow("orders")
		c := node.watch(1)
		until(c, (*pb.WatchRequest).GetSubscribe)
		c.say(viewOf(1, 0, 0))
		if u := update(t, s); u.View == nil || len(u.View.Instances) != 0 || !u.View.Complete || u.Err != nil {
			t.Errorf("news: %+v", u)
		}
	})
}

// A change to something that isn't held: asked for anew, from the start, once.
func TestDeltaWithoutItsBaseIsAskedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		c.say(viewOf(1, 5, 4, "z"), viewOf(1, 6, 5, "y"), viewOf(1, 7, 6, "x"))
		if m := until(c, (*pb.WatchRequest).GetSubscribe); m.GetCursor() != nil {
			t.Errorf("asked anew from %v, want from the start", m.GetCursor())
		}
		quiet(t, s, "nothing could be used")
		c.say(viewOf(1, 8, 7, "w"), viewOf(1, 8, 0, "a", "x"), viewOf(1, 9, 8, "b"))
		u := update(t, s)
		for u.View.Cursor.Number != 9 {
			u = update(t, s)
		}
		if !slices.Equal(ids(u.View), []string{"a", "b", "x"}) {
			t.Errorf("the view is %v", ids(u.View))
		}
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("then the client said %v", said)
		}
	})
}

// An outage empties nothing; the next node run's view replaces the old one.
func TestR8OutageKeepsTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, _ := followed(t, node, node.open(Config{}))
		node.kill(errRefused)
		u := update(t, s)
		if u.Connected || u.View == nil || len(u.View.Instances) != 2 || u.Err == nil {
			t.Errorf("in an outage: %+v", u)
		}
		time.Sleep(10 * time.Minute)
		quiet(t, s, "the outage goes on")
		node.start()
		c := node.watch(2)
		if m := until(c, (*pb.WatchRequest).GetSubscribe); m.GetCursor().GetRun() != 1 || m.GetCursor().GetNumber() != 1 {
			t.Errorf("subscribed from %v, want from what is held", m.GetCursor())
		}
		quiet(t, s, "another node run is no news before its view")
		cold := viewOf(2, 1, 0)
		cold.GetView().Complete = false
		c.say(cold)
		if u = update(t, s); !u.Connected || u.View.Complete || u.View.Cursor.Run != 2 || u.Err != nil {
			t.Errorf("after the outage: %+v", u)
		}
	})
}

// The same node run needs to send nothing to one who is at its newest.
func TestReconnectToTheSameRunResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		c.bye <- nil
		if u := update(t, s); u.Connected {
			t.Errorf("without a stream: %+v", u)
		}
		c = node.watch(1)
		until(c, (*pb.WatchRequest).GetSubscribe)
		if u := update(t, s); !u.Connected || len(u.View.Instances) != 2 {
			t.Errorf("resumed: %+v", u)
		}
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("the stream was held for stuck: %v", said)
		}
		c.say(viewOf(1, 2, 1, "c"))
		if u := update(t, s); len(u.View.Instances) != 3 {
			t.Errorf("then: %+v", u)
		}
	})
}

// A stream that is open, and even answers, and sends nothing new, is noticed.
func TestR18StuckStreamIsCut(t *testing.T) {
	t.Run("no answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			node := newFake(t)
			s, c := followed(t, node, node.open(Config{}))
			begin := time.Now()
			for number := uint64(2); number < 600; number++ { // views come, answers don't
				if c.stream.Send(viewOf(1, number, number-1, "c")) != nil {
					break
				}
				time.Sleep(time.Second)
			}
			if took := time.Since(begin); took < 10*time.Second || took > 16*time.Second {
				t.Errorf("the stream was cut after %s, want 10s after a question", took)
			}
			for update(t, s).Connected {
			}
			until(node.watch(1), (*pb.WatchRequest).GetSubscribe)
		})
	})
	t.Run("no view", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			node := newFake(t)
			node.open(Config{}).Follow("orders")
			c := node.watch(1)
			begin := time.Now()
			said := idle(c, 50*time.Second) // pings are answered
			if len(said) != 2 || said[1].GetSubscribe() == nil {
				t.Errorf("asked %v, want twice", said)
			}
			c = node.watch(1)
			if took := time.Since(begin); took > 51*time.Second {
				t.Errorf("another stream came after %s", took)
			}
			until(c, (*pb.WatchRequest).GetSubscribe)
		})
	})
}

func TestProblemIsAskedAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, _ := node.open(Config{}).Follow("orders")
		c := node.watch(1)
		until(c, (*pb.WatchRequest).GetSubscribe)
		refuse := func(after uint32) {
			c.say(&pb.WatchReply{Kind: &pb.WatchReply_Problem{Problem: &pb.Problem{Service: "orders",
				Error: &pb.Error{Kind: pb.Kind_KIND_LIMITED, Message: "too many", RetryAfterMs: after}}}})
		}
		refuse(20_000)
		if u := update(t, s); u.Err == nil || u.Connected || eider.KindOf(u.Err) != eider.Limited {
			t.Errorf("refused: %+v", u)
		}
		begin := time.Now()
		until(c, (*pb.WatchRequest).GetSubscribe)
		if took := time.Since(begin); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("asked again after %s, want 20s to 25s", took)
		}
		n, end := 0, time.Now().Add(10*time.Minute)
		for time.Now().Before(end) && n < 5000 { // R13: a node that refuses at once isn't asked in a loop
			refuse(0)
			until(c, (*pb.WatchRequest).GetSubscribe)
			n++
		}
		if n > 1200 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		c.say(viewOf(1, 1, 0, "a"))
		if u := update(t, s); !u.Connected || u.Err != nil {
			t.Errorf("served: %+v", u)
		}
	})
}

// A node that sends nothing but empty lists, or changes to nothing, isn't asked in a loop.
func TestR13EmptyListsAreNoLoop(t *testing.T) {
	for name, reply := range map[string]*pb.WatchReply{"empty": viewOf(1, 1, 0), "baseless": viewOf(1, 9, 8)} {
		synctest.Test(t, func(t *testing.T) {
			node := newFake(t)
			node.open(Config{}).Follow("orders")
			n, end := 0, time.Now().Add(10*time.Minute)
			c := node.watch(1)
			for time.Now().Before(end) && n < 5000 {
				select {
				case m := <-c.got:
					if m == nil {
						c = node.watch(1)
						continue
					}
					answer(c, m)
					if m.GetSubscribe() != nil {
						n++
						c.say(reply)
					}
				case <-time.After(time.Until(end)):
				}
			}
			if n > 1200 {
				t.Errorf("%s: asked %d times in ten minutes", name, n)
			}
		})
	}
}

func TestWatchObserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		views, errs := make(chan *eider.View, 16), make(chan error, 16)
		go func() {
			defer close(views)
			for v, err := range reg.Watch(ctx, "orders") {
				if err != nil {
					errs <- err
					continue
				}
				views <- v
			}
		}()
		c := next(t, node.watches)
		if h := c.hear().GetHello(); !h.GetObserver() {
			t.Errorf("an observer began with %v", h)
		}
		c.say(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 1}}})
		until(c, (*pb.WatchRequest).GetSubscribe)
		c.say(viewOf(1, 1, 0, "a"))
		if v := <-views; len(v.Instances) != 1 {
			t.Errorf("the view is %v", v)
		}
		if said := idle(c, time.Minute); len(said) != 0 {
			t.Errorf("an observer said %v", said)
		}
		node.kill(errRefused)
		time.Sleep(time.Minute)
		if len(errs) != 1 {
			t.Errorf("%d errors in one outage, want 1", len(errs))
		}
		node.start()
		c = node.watch(2)
		until(c, (*pb.WatchRequest).GetSubscribe)
		c.say(viewOf(2, 1, 0, "a", "b"))
		if v := <-views; len(v.Instances) != 2 {
			t.Errorf("after the outage the view is %v", v)
		}
		cancel()
		<-views
		until(c, (*pb.WatchRequest).GetUnsubscribe)
		for _, err := range reg.Watch(t.Context(), "no such name") {
			if eider.KindOf(err) != eider.Invalid {
				t.Errorf("a bad name yields %v", err)
			}
		}
	})
}
