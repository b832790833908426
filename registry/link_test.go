package registry

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

// nodes are several scripted nodes, by address.
type nodes map[string]*fake

func threeNodes(t *testing.T) nodes {
	return nodes{"a:1": newFake(t), "b:1": newFake(t), "c:1": newFake(t)}
}

func (n nodes) dial(ctx context.Context, addr string) (net.Conn, error) {
	return n[addr].dial(ctx, addr)
}

// serve welcomes every watcher of a node until it's killed.
func (n nodes) serve(t *testing.T) {
	for _, node := range n {
		var running sync.WaitGroup
		running.Go(func() {
			for {
				select {
				case c := <-node.watches:
					running.Go(func() {
						for m := range c.got {
							switch {
							case m.GetHello() != nil:
								c.stream.Send(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 1}}})
							case m.GetSubscribe() != nil:
								c.stream.Send(viewOf(1, 1, 0, "a"))
							case m.GetPing() != nil:
								c.stream.Send(&pb.WatchReply{Kind: &pb.WatchReply_Pong{Pong: m.GetPing()}})
							}
						}
					})
				case <-node.ctx.Done():
					return
				}
			}
		})
		t.Cleanup(running.Wait)
		t.Cleanup(node.stop) // before Wait
	}
}

// at counts the handles whose current link is to an address.
func count(handles []*Registry) map[string]int {
	at := map[string]int{}
	for _, r := range handles {
		r.links.mu.Lock()
		if k := r.links.current; k != nil && k.up() {
			at[k.addr]++
		}
		r.links.mu.Unlock()
	}
	return at
}

// The callers of a dead node spread over the others by chance, at times of their own, and return when it is back.
func TestR10CallersSpreadAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := threeNodes(t)
		all.serve(t)
		var handles []*Registry
		for range 90 {
			r := Open(Config{Addr: "a:1,b:1,c:1", Dial: all.dial, Logger: slog.New(slog.DiscardHandler)})
			defer r.Close()
			if _, err := r.Follow("orders"); err != nil {
				t.Fatal(err)
			}
			handles = append(handles, r)
		}
		time.Sleep(5 * time.Second)
		for addr, n := range count(handles) {
			if n < 12 || n > 50 {
				t.Errorf("%d of 90 begin at %s, want about 30", n, addr)
			}
		}
		lost := count(handles)["a:1"]
		all["a:1"].kill(errRefused)
		before := count(handles)
		time.Sleep(5 * time.Second)
		after := count(handles)
		moved := map[string]int{"b:1": after["b:1"] - before["b:1"], "c:1": after["c:1"] - before["c:1"]}
		if moved["b:1"]+moved["c:1"] != lost || moved["b:1"] < lost/6 || moved["c:1"] < lost/6 {
			t.Errorf("of %d callers of a dead node %v moved, want about half to each", lost, moved)
		}
		spread := map[time.Duration]bool{}
		for _, when := range all["b:1"].at[before["b:1"]:] {
			spread[when.Sub(all["b:1"].at[before["b:1"]])/time.Millisecond] = true
		}
		if len(spread) < moved["b:1"]/2 {
			t.Errorf("%d callers came to b within %d different milliseconds: there's no jitter", moved["b:1"], len(spread))
		}
		all["a:1"].start()
		time.Sleep(time.Minute)
		if n := count(handles)["a:1"]; n != lost {
			t.Errorf("a minute after the node came back %d are there, %d were before", n, lost)
		}
	})
}

// Going home, the new connection stands before the old one is told Moving.
func TestReturnHomeSaysMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := threeNodes(t)
		reg := Open(Config{Addr: "a:1,b:1", Dial: all.dial, Logger: slog.New(slog.DiscardHandler)})
		defer reg.Close()
		home, away := all[reg.links.addrs[0]], all[reg.links.addrs[1]]
		home.kill(errRefused)
		l, _ := reg.Register(orders)
		c := away.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		home.start()
		until(c, (*pb.AttachRequest).GetMoving)
		if home.dialled() < 2 {
			t.Error("it moves before the new connection stands")
		}
		begin := time.Now()
		c = home.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		synctest.Wait()
		if took := time.Since(begin); took > 50*time.Millisecond || !l.State().Listed {
			t.Errorf("%s after Moving the state is %v", took, l.State())
		}
	})
}

// A node that answers a last question after it was told Moving, and then hangs, holds up nobody who has a new connection
// for longer than one that hangs at once.
func TestReturnHomeIsNotHeldUpByALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := threeNodes(t)
		reg := Open(Config{Addr: "a:1,b:1", Dial: all.dial, Logger: slog.New(slog.DiscardHandler)})
		defer reg.Close()
		home, away := all[reg.links.addrs[0]], all[reg.links.addrs[1]]
		home.kill(errRefused)
		if _, err := reg.Register(orders); err != nil {
			t.Fatal(err)
		}
		c := away.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		home.start()
		away.hung.Store(true)
		for { // one answer for each question, until it is told
			m := c.hear()
			if m.GetBeat().GetEcho() || m.GetMoving() != nil {
				c.say(&pb.AttachReply{Kind: &pb.AttachReply_Beaten{Beaten: &pb.Beaten{}}})
			}
			if m.GetMoving() != nil {
				break
			}
		}
		begin := time.Now()
		home.attach()
		if took := time.Since(begin); took > farewell+50*time.Millisecond {
			t.Errorf("home was attached to %s after Moving, want %s", took, farewell)
		}
	})
}

// Behind a herd a node comes to each connection late. Whoever gave up as early each time would begin at the end again
// and again, and nobody would ever be served: a dial may take longer with each that was in vain.
func TestH3DialsLastLongerBehindAHerd(t *testing.T) {
	reg := Open(Config{Addr: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)})
	defer reg.Close()
	l := reg.links
	fail := func(want time.Duration, stood bool) {
		t.Helper()
		k, err := l.take()
		if err != nil {
			t.Fatal(err)
		}
		if k.within != want {
			t.Errorf("a dial may take %v, want %v", k.within, want)
		}
		k.stood.Store(stood)
		l.give(k, true, false)
	}
	for _, want := range []time.Duration{dialWithin, 2 * dialWithin, dialAtMost, dialAtMost} {
		fail(want, false)
	}
	fail(dialAtMost, true) // this one was welcomed
	fail(dialWithin, false)
	if dialAtMost >= answerWithin {
		t.Errorf("a dial of %v outlasts the stream that waits for it, %v", dialAtMost, answerWithin)
	}
}

// A node that takes longer for its Welcome than a process is patient is waited for longer the next time; where there
// are others, only once all were tried.
func TestH3WelcomeMayTakeLongerBehindAHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		node.open(Config{}).Follow("orders")
		next(t, node.watches) // given up
		c := next(t, node.watches)
		<-time.After(answerWithin + 5*time.Second)
		c.hear() // Hello
		c.say(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 1, BeatMs: 2000, LeaseMs: 20000}}})
		until(c, (*pb.WatchRequest).GetSubscribe)
		if len(node.watches) != 0 {
			t.Error("a third stream was opened meanwhile")
		}
	})
	reg := Open(Config{Addr: "127.0.0.1:1,127.0.0.1:2", Logger: slog.New(slog.DiscardHandler)})
	defer reg.Close()
	for vain, want := range []time.Duration{answerWithin, answerWithin, 2 * answerWithin, 2 * answerWithin, greetAtMost, greetAtMost} {
		k, err := reg.links.take()
		if err != nil {
			t.Fatal(err)
		}
		if k.greet != want {
			t.Errorf("a Welcome may take %v after %d in vain, want %v", k.greet, vain, want)
		}
		reg.links.give(k, true, false)
	}
}

// Nor is it left as soon again by whoever was cut from it for want of an answer: all of a herd would come back together,
// and be late together, for ever. Once answers come soon, a node that hangs is found as soon as any.
func TestH3AnswersMayTakeLongerBehindAHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		listedOne(node, node.open(Config{})) // and never answered: it was cut
		c := node.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		for _, late := range []time.Duration{answerWithin + 5*time.Second, 0} {
			until(c, echoed)
			<-time.After(late)
			c.say(&pb.AttachReply{Kind: &pb.AttachReply_Beaten{Beaten: &pb.Beaten{}}})
			synctest.Wait()
			if len(node.attaches) != 0 {
				t.Fatalf("an answer that took %s was too late", late)
			}
		}
		until(c, echoed)
		begin := time.Now()
		node.attach()
		if took := time.Since(begin); took < answerWithin || took > answerWithin+time.Second {
			t.Errorf("the hung stream was replaced %s after a question, want %s", took, answerWithin)
		}
	})
}

// Every node hangs some day, and one that had answered soon until then had no herd before it: whoever is cut from it begins
// to be patient anew, however often that has happened before.
func TestH3APromptNodeThatHangsIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		reg := node.open(Config{})
		_, c := listedOne(node, reg)
		for times := range 4 {
			until(c, echoed)
			c.say(&pb.AttachReply{Kind: &pb.AttachReply_Beaten{Beaten: &pb.Beaten{}}})
			synctest.Wait()
			until(c, echoed) // and it hangs
			c = node.attach()
			c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
			synctest.Wait()
			reg.links.mu.Lock()
			k := reg.links.current
			reg.links.mu.Unlock()
			if k.greet != 2*answerWithin || k.within != 2*dialWithin {
				t.Errorf("hung %d times: a Welcome may take %v and a dial %v, want %v and %v", times+1, k.greet, k.within, 2*answerWithin, 2*dialWithin)
			}
		}
	})
}

func echoed(m *pb.AttachRequest) *pb.Beat {
	if m.GetBeat().GetEcho() {
		return m.GetBeat()
	}
	return nil
}
