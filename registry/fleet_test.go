package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

// keeper is a node that keeps fleet breakers as a test says.
type keeper struct {
	*fake
	pb.UnimplementedFleetServer
	tell func(context.Context, *pb.TellRequest) (*pb.Sight, error)

	mu     sync.Mutex
	stream grpc.BidiStreamingServer[pb.FollowRequest, pb.FollowReply] // the newest
	over   []uint64                                                   // unfollowed
}

func (k *keeper) Tell(ctx context.Context, m *pb.TellRequest) (*pb.Sight, error) {
	return k.tell(ctx, m)
}

// Follow welcomes, and answers with version 1 of each key.
func (k *keeper) Follow(s grpc.BidiStreamingServer[pb.FollowRequest, pb.FollowReply]) error {
	k.mu.Lock()
	k.stream = s
	k.mu.Unlock()
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		var say *pb.FollowReply
		switch kind := m.GetKind().(type) {
		case *pb.FollowRequest_Hello:
			say = &pb.FollowReply{Kind: &pb.FollowReply_Welcome{Welcome: &pb.Welcome{Run: 1}}}
		case *pb.FollowRequest_Follow:
			say = &pb.FollowReply{Kind: &pb.FollowReply_Seen{Seen: &pb.Seen{Number: kind.Follow.GetNumber(), Sight: &pb.Sight{Version: 1, AgeUs: 5e6}}}}
		case *pb.FollowRequest_Unfollow:
			k.mu.Lock()
			k.over = append(k.over, kind.Unfollow)
			k.mu.Unlock()
		case *pb.FollowRequest_Ping:
			if k.hung.Load() {
				continue
			}
			say = &pb.FollowReply{Kind: &pb.FollowReply_Pong{Pong: kind.Ping}}
		}
		if say != nil && s.Send(say) != nil {
			return nil
		}
	}
}

// say says something on the newest stream.
func (k *keeper) say(seen *pb.Seen) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.stream.Send(&pb.FollowReply{Kind: &pb.FollowReply_Seen{Seen: seen}}); err != nil {
		k.t.Error(err)
	}
}

// newKeeper is a node that keeps fleet breakers besides.
func newKeeper(t *testing.T, f *fake) *keeper {
	k := &keeper{fake: f, tell: func(context.Context, *pb.TellRequest) (*pb.Sight, error) { return &pb.Sight{Version: 1}, nil }}
	f.besides = func(srv *grpc.Server) { pb.RegisterFleetServer(srv, k) }
	f.srv.Stop()
	f.start()
	return k
}

func tells(f *Fleet) error {
	_, err := f.Tell(context.Background(), "orders", "a", []byte("1"), false)
	return err
}

func wantKind(t *testing.T, what string, err error, kind eider.Kind, says ...string) {
	t.Helper()
	if err == nil || eider.KindOf(err) != kind {
		t.Errorf("%s: %v, want an error of kind %s", what, err, kind)
		return
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q doesn't say %q", what, err, part)
		}
	}
}

// last is the error that ends a watch, with how often it had yielded before.
func last(ctx context.Context, f *Fleet, key string) (sights int, err error) {
	for _, err = range f.Watch(ctx, key) {
		if err == nil {
			sights++
		}
	}
	return sights, err
}

// A node of before fleet breakers is asked, says so in words, and serves on as a registry.
func TestANodeThatIsOlderThanFleetBreakersSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		reg := f.open(Config{Addr: "a:1,b:1"})
		l, err := reg.Register(orders)
		if err != nil {
			t.Fatal(err)
		}
		c := f.attach()
		c.say(grant(until(c, (*pb.AttachRequest).GetRegister), 1))
		idle(c, time.Second)
		dialled := f.dialled()
		for range 3 {
			wantKind(t, "Tell", tells(reg.Fleet()), eider.Invalid, "older than fleet breakers", "start a newer")
			_, err := last(t.Context(), reg.Fleet(), "orders")
			wantKind(t, "Watch", err, eider.Invalid, "older than fleet breakers")
		}
		idle(c, time.Second)
		if n := f.dialled(); n != dialled || !l.State().Listed {
			t.Errorf("the connection isn't good for the others any more: %d dials besides, listed: %v", n-dialled, l.State().Listed)
		}
	})
}

// A node that answers nothing holds nobody longer than his context, or ten seconds, and the handle's Close not at all.
func TestANodeThatHangsHoldsNobodyWhoTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, newFake(t))
		asked := make(chan struct{}, 8)
		k.tell = func(ctx context.Context, _ *pb.TellRequest) (*pb.Sight, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		reg := k.open(Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := reg.Fleet().Tell(ctx, "orders", "a", nil, false)
		if took := time.Since(begun); took != 250*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
		wantKind(t, "in time", err, eider.Unavailable, "node:8762 gave no answer in time")
		begun = time.Now()
		err = tells(reg.Fleet())
		if took := time.Since(begun); took != answerWithin {
			t.Errorf("without a deadline it took %v", took)
		}
		wantKind(t, "without a deadline", err, eider.Unavailable, "gave no answer for 10s")
		if n := k.dialled(); n != 1 {
			t.Errorf("%d dials: a connection that stands was given up", n)
		}
		over := make(chan error)
		for len(asked) > 0 {
			<-asked
		}
		go func() { over <- tells(reg.Fleet()) }()
		<-asked
		begun = time.Now()
		reg.Close()
		if took := time.Since(begun); took > lastWords {
			t.Errorf("Close took %v", took)
		}
		wantKind(t, "as the handle is closed", <-over, eider.Closed)
	})
}

// A node that takes connections and says nothing on them is left for another.
func TestANodeWithoutAFirstWordIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		k := newKeeper(t, f)
		reg := k.open(Config{Addr: "a:1,b:1"})
		f.silence(reg.links.addrs[0])
		begun := time.Now()
		for tells(reg.Fleet()) != nil {
			if time.Since(begun) > 3*greetAtMost {
				t.Fatalf("not left after %v", time.Since(begun))
			}
		}
	})
}

// A stream that is lost ends every watch at once, with why; a watch that comes then opens another, and several that come
// again at once don't dial in a loop.
func TestALostNodeEndsEveryWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		k := newKeeper(t, f)
		reg := k.open(Config{})
		ended := make(chan error, 4)
		for i := range 4 {
			go func() {
				sights, err := last(t.Context(), reg.Fleet(), fmt.Sprint("key ", i%2))
				if sights != 1 {
					t.Errorf("%d sights before %v", sights, err)
				}
				ended <- err
			}()
		}
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal(<-ended)
		}
		begun := time.Now()
		f.kill(errRefused)
		for range 4 {
			wantKind(t, "as the node ends", <-ended, eider.Unavailable, "registry node:8762")
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("known after %v", took)
		}
		dialled, begun := f.dialled(), time.Now()
		for time.Since(begun) < 10*time.Second {
			_, err := last(t.Context(), reg.Fleet(), "orders")
			wantKind(t, "while it is away", err, eider.Unavailable, "connection refused")
		}
		if n := f.dialled() - dialled; n < 5 || n > 100 {
			t.Errorf("%d dials in ten seconds", n)
		}
		f.start()
		for range reg.Fleet().Watch(t.Context(), "orders") {
			break
		}
	})
}

// A node that hangs is found by a ping that isn't answered, and every watch ends.
func TestANodeThatHangsEndsEveryWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, newFake(t))
		reg := k.open(Config{})
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { k.hung.Store(true) })
		_, err := last(t.Context(), reg.Fleet(), "orders")
		wantKind(t, "hung", err, eider.Unavailable, "it gave no answer for 10s")
		if took := time.Since(begun) - time.Minute; took < 0 || took > askEvery+answerWithin {
			t.Errorf("found after %v", took)
		}
		k.hung.Store(false)
		for range reg.Fleet().Watch(t.Context(), "orders") {
			break
		}
	})
}

// Whoever moves home goes on watching there, without a word in between.
func TestWatchesMoveHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		reg := newKeeper(t, f).open(Config{Addr: "a:1,b:1"})
		home := reg.links.addrs[0]
		f.silence(home)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		watch := func() (sights int) {
			for _, err := range reg.Fleet().Watch(ctx, "orders") {
				if err != nil {
					break
				}
				f.silence("")
				if sights++; sights == 2 {
					break
				}
			}
			return sights
		}
		if n := watch(); n != 0 {
			t.Errorf("%d sights of a node without a word", n)
		}
		if n := watch(); n != 2 {
			t.Errorf("%d sights, want one of each node", n)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if at := f.dials[len(f.dials)-1]; at != home {
			t.Errorf("the last is of %s, home is %s", at, home)
		}
	})
}

// Who reads slowly sees the newest alone, as old as it is by then; who has left is told of no more; an error ends one
// watch, and no other.
func TestWhatIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, newFake(t))
		f := k.open(Config{}).Fleet()
		sights, other := 0, make(chan error, 1)
		for s, err := range f.Watch(t.Context(), "orders") {
			if err != nil {
				t.Fatal(err)
			}
			if sights++; sights == 1 {
				if s.Version != 1 || s.Age != 5*time.Second {
					t.Errorf("the first: %+v", s)
				}
				go func() {
					_, err := last(t.Context(), f, "pay")
					other <- err
				}()
				synctest.Wait()
				k.say(&pb.Seen{Number: 1, Sight: &pb.Sight{Version: 2, AgeUs: 9e6}})
				k.say(&pb.Seen{Number: 1, Sight: &pb.Sight{Version: 3, AgeUs: 1e6}})
				k.say(&pb.Seen{Number: 2, Error: &pb.Error{Kind: pb.Kind_KIND_LIMITED, Message: "no more", RetryAfterMs: 7}})
				wantKind(t, "a watch that is refused", <-other, eider.Limited, "pay", "no more")
				time.Sleep(3 * time.Second)
				continue
			}
			if s.Version != 3 || s.Age != 4*time.Second {
				t.Errorf("the second: %+v", s)
			}
			break
		}
		synctest.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.over) != 1 || k.over[0] != 1 {
			t.Errorf("unfollowed: %v", k.over)
		}
	})
}

func TestAClosedHandleKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, newFake(t))
		reg := k.open(Config{})
		over := make(chan error)
		go func() {
			_, err := last(t.Context(), reg.Fleet(), "orders")
			over <- err
		}()
		synctest.Wait()
		reg.Close()
		wantKind(t, "a watch as it closes", <-over, eider.Closed)
		wantKind(t, "Tell", tells(reg.Fleet()), eider.Closed, "open another one")
		_, _, err := reg.Fleet().Swap(t.Context(), "orders", 0, nil)
		wantKind(t, "Swap", err, eider.Closed)
		_, err = last(t.Context(), reg.Fleet(), "orders")
		wantKind(t, "Watch", err, eider.Closed)
		bad := Open(Config{Addr: "nowhere"})
		defer bad.Close()
		wantKind(t, "an address that can't be", tells(bad.Fleet()), eider.Invalid, "host:port")
	})
}

func TestNamesThatCantTravelAreRefused(t *testing.T) {
	k := newKeeper(t, newFake(t))
	f := k.open(Config{}).Fleet()
	_, err := f.Tell(t.Context(), "\xff", "a", nil, false)
	wantKind(t, "a key", err, eider.Invalid, "UTF-8")
	_, err = f.Tell(t.Context(), "orders", "\xff", nil, false)
	wantKind(t, "a caller", err, eider.Invalid, "UTF-8")
	_, _, err = f.Swap(t.Context(), "\xff", 0, nil)
	wantKind(t, "a key swapped", err, eider.Invalid, "UTF-8")
	_, err = last(t.Context(), f, "\xff")
	wantKind(t, "a key watched", err, eider.Invalid, "UTF-8")
}
