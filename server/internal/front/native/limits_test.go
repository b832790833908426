package native

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestEveryKindHasItsCode(t *testing.T) {
	want := map[eider.Kind]codes.Code{
		eider.Internal: codes.Internal, eider.Invalid: codes.InvalidArgument, eider.NotFound: codes.NotFound,
		eider.Conflict: codes.AlreadyExists, eider.Stale: codes.Aborted, eider.Limited: codes.ResourceExhausted,
		eider.Unavailable: codes.Unavailable, eider.NoInstance: codes.FailedPrecondition, eider.Closed: codes.Unavailable,
		eider.Denied: codes.PermissionDenied,
	}
	for kind := range eider.Kind(len(wireCodes)) {
		if wireCodes[kind] != want[kind] || wireCodes[kind] == codes.OK {
			t.Errorf("%s has %v, want %v", kind, wireCodes[kind], want[kind])
		}
	}
	if next := eider.Kind(len(wireCodes)); !strings.HasPrefix(next.String(), "Kind(") {
		t.Errorf("%s has no code", next)
	}
}

func TestInstancesOfAStreamAreBounded(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Instances: 2}}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		for i := range 3 {
			tell(t, s.Send, register(fmt.Sprint(i)))
			m := hear(t, s.Recv)
			if i < 2 && m.GetRegistered() == nil || i == 2 && m.GetRefused().GetError().GetKind() != pb.Kind_KIND_LIMITED {
				t.Fatalf("instance %d: %v", i, m)
			}
		}
		tell(t, s.Send, register("1")) // again is not one more
		if m := hear(t, s.Recv); m.GetRegistered() == nil {
			t.Fatalf("again: %v", m)
		}
		tell(t, s.Send, &pb.AttachRequest{Kind: &pb.AttachRequest_Left{Left: &pb.Left{Service: "orders", Id: "0"}}})
		hear(t, s.Recv)
		tell(t, s.Send, register("2"))
		if m := hear(t, s.Recv); m.GetRegistered() == nil {
			t.Fatalf("after one left: %v", m)
		}
	})
}

func TestSubscriptionsOfAStreamAreBounded(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Subscriptions: 2}}, func(t *testing.T, r *rig) {
		s := r.watching("10.0.0.2")
		for i := range 3 {
			tell(t, s.Send, subscribe(fmt.Sprintf("s%d", i)))
		}
		p := hear(t, s.Recv).GetProblem()
		if p.GetService() != "s2" || p.GetError().GetKind() != pb.Kind_KIND_LIMITED {
			t.Fatalf("problem: %v", p)
		}
	})
}

func TestStreamsAreBoundedAndToldToComeBack(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Streams: 1}}, func(t *testing.T, r *rig) {
		first := r.watching("10.0.0.2")
		s := r.watch(r.dial("10.0.0.3"))
		end := hear(t, s.Recv).GetEnd()
		if e := end.GetError(); e.GetKind() != pb.Kind_KIND_LIMITED || e.GetRetryAfterMs() < 1000 || e.GetRetryAfterMs() > 1300 {
			t.Fatalf("end: %v", end)
		}
		if code, _ := hearEnd(t, s.Recv); code != codes.ResourceExhausted {
			t.Fatalf("status: %v", code)
		}
		tell(t, first.Send, &pb.WatchRequest{Kind: &pb.WatchRequest_Goodbye{Goodbye: &pb.Goodbye{}}})
		hearEnd(t, first.Recv)
		synctest.Wait()
		r.watching("10.0.0.3")
	})
}

// A client's own transport waits for a free stream: it knows the limit.
func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	inBubble(t, Config{Limits: Limits{StreamsPerConnection: 1}}, func(t *testing.T, r *rig) {
		cc := r.dial("10.0.0.2")
		s := r.watch(cc)
		tell(t, s.Send, watchHello(false))
		hear(t, s.Recv)
		began := time.Now()
		go func() {
			pass(time.Second)
			tell(t, s.Send, &pb.WatchRequest{Kind: &pb.WatchRequest_Goodbye{Goodbye: &pb.Goodbye{}}})
		}()
		second := r.watch(cc)
		tell(t, second.Send, watchHello(false))
		hear(t, second.Recv)
		if took := time.Since(began); took < time.Second {
			t.Fatalf("a second stream was served beside the first, after %s", took)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Connections: 1}}, func(t *testing.T, r *rig) {
		r.watching("10.0.0.2")
		c, err := r.net.From("10.0.0.3").Dial(t.Context(), r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatalf("read %d bytes of one connection too many", n)
		}
		if st := r.srv.Stats(); st.Connections != 1 || st.TurnedAway != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestLongMessagesAreRefused(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		m := register("1")
		m.GetRegister().Record.Metadata = map[string]string{"k": string(make([]byte, 65<<10))}
		tell(t, s.Send, m)
		if code, text := hearEnd(t, s.Recv); code != codes.ResourceExhausted || !strings.Contains(text, "65536") {
			t.Fatalf("%v %s", code, text)
		}
		r.fake.stream(0).over(t)
	})
}

func TestHelloComesFirstOnceAndInTime(t *testing.T) {
	for name, row := range map[string]struct {
		say  []*pb.AttachRequest
		want string
	}{
		"other first": {[]*pb.AttachRequest{beat()}, "first message must be Hello"},
		"empty":       {[]*pb.AttachRequest{{}}, "first message must be Hello"},
		"twice":       {[]*pb.AttachRequest{hello(), hello()}, "Hello came twice"},
		"then empty":  {[]*pb.AttachRequest{hello(), {}}, "empty or of a kind unknown"},
		"never":       {nil, "no Hello within 5s"},
		"nameless":    {[]*pb.AttachRequest{{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{}}}}, "caller"},
		"control": {[]*pb.AttachRequest{{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: "a\nb", Version: strings.Repeat("v", 65)}}}},
			"version"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				s := r.attach(r.dial("10.0.0.2"))
				began := time.Now()
				for _, m := range row.say {
					tell(t, s.Send, m)
				}
				code, text := hearEnd(t, s.Recv)
				if code != codes.InvalidArgument || !strings.Contains(text, row.want) {
					t.Fatalf("%v %s", code, text)
				}
				if took := time.Since(began); took > helloTimeout {
					t.Fatalf("it took %s", took)
				}
			})
		})
	}
}

// The time for a Hello is the process'. A node that is late with its own part, as behind a herd, would else send away
// who had waited longest, to begin at the end again.
func TestH3ALateWelcomeIsNoLateHello(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.fake.openIn = helloTimeout + 3*time.Second
		r.attached("10.0.0.2")
		r.watching("10.0.0.3")
	})
}

// A stranger who opens a connection and says nothing is gone in time, whatever he said so far.
func TestSilentConnectionsAreDropped(t *testing.T) {
	for name, row := range map[string]struct {
		say string
		by  time.Duration
	}{
		"nothing":        {"", helloTimeout},
		"half a preface": {"PRI * HT", helloTimeout},
		"no stream":      {preface, 2*helloTimeout + 2*time.Second}, // told to go, then dropped
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				c, err := r.net.From("10.0.0.3").Dial(t.Context(), r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.Write([]byte(row.say))
				began := time.Now()
				for err == nil {
					_, err = c.Read(make([]byte, 1024))
				}
				if took := time.Since(began); took > row.by {
					t.Fatalf("dropped after %s", took)
				}
			})
		})
	}
}

func TestH4RegistrationsOverTheRateComeBackLater(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Register: Rate{PerSecond: 10, Burst: 2}, Reattach: Rate{PerSecond: 100, Burst: 4}}}, func(t *testing.T, r *rig) {
		s := r.attached("10.0.0.2")
		var after []uint32
		for i := range 6 {
			tell(t, s.Send, register(fmt.Sprint(i)))
			m := hear(t, s.Recv)
			if i < 2 {
				if m.GetRegistered() == nil {
					t.Fatalf("within the burst: %v", m)
				}
				continue
			}
			e := m.GetRefused().GetError()
			if e.GetKind() != pb.Kind_KIND_LIMITED || e.GetRetryAfterMs() == 0 {
				t.Fatalf("over the rate: %v", m)
			}
			after = append(after, e.GetRetryAfterMs())
		}
		for i, ms := range after {
			slot := uint32(100 * (i + 1))
			if ms < slot || ms > slot*13/10+1 {
				t.Errorf("refusal %d: come back in %d ms, want %d ms and up to 30 %% more", i, ms, slot)
			}
		}
		// Who was here before passes while new ones wait: its lease is at stake.
		known := register("7")
		known.GetRegister().Record.Incarnation.Number = 3
		for range 4 {
			tell(t, s.Send, known)
			if m := hear(t, s.Recv); m.GetRegistered() == nil {
				t.Fatalf("a known incarnation: %v", m)
			}
		}
		tell(t, s.Send, known)
		if ms := hear(t, s.Recv).GetRefused().GetError().GetRetryAfterMs(); ms == 0 || r.fake.postponed["orders/7"].Milliseconds()+1 < int64(ms) {
			t.Fatalf("told to come back in %d ms, its lease has %s more", ms, r.fake.postponed["orders/7"])
		}
		if got := r.srv.Stats().Limited; got != 5 {
			t.Errorf("%d were counted", got)
		}
	})
}

func TestH4WatchStreamsOverTheRateComeBackLater(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Watch: Rate{PerSecond: 10, Burst: 1}}}, func(t *testing.T, r *rig) {
		r.watching("10.0.0.2")
		s := r.watch(r.dial("10.0.0.3"))
		tell(t, s.Send, watchHello(false))
		e := hear(t, s.Recv).GetEnd().GetError()
		if e.GetKind() != pb.Kind_KIND_LIMITED || e.GetRetryAfterMs() < 100 || e.GetRetryAfterMs() > 131 {
			t.Fatalf("end: %v", e)
		}
		if code, _ := hearEnd(t, s.Recv); code != codes.ResourceExhausted {
			t.Fatalf("status: %v", code)
		}
		if by := r.fake.postponed["checkout@1 at 10.0.0.3"]; by.Milliseconds()+1 < int64(e.GetRetryAfterMs()) {
			t.Fatalf("its cap has %s more", by)
		}
		pass(time.Duration(e.GetRetryAfterMs()) * time.Millisecond)
		r.watching("10.0.0.3")
	})
}

// A herd of 10,000 that comes at once and does as it is told is served at the rate, without a second
// rush: nobody asks often, and no 100 ms of the queue are crowded.
func TestH1H3HerdComesBackSpreadOut(t *testing.T) {
	const herd, perSecond = 10_000, 2_000
	a := newAdmission(Rate{PerSecond: perSecond, Burst: perSecond})
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Unix(0, 0)
	arrivals := map[int64][]int{} // millisecond → how often each of them had asked before
	arrivals[0] = make([]int, herd)
	admitted, asked, most, last := 0, 0, 0, int64(0)
	perTenth := map[int64]int{}
	for ms := int64(0); admitted < herd; ms++ {
		if ms > 60_000 {
			t.Fatalf("after a minute %d of %d are in", admitted, herd)
		}
		for _, before := range arrivals[ms] {
			asked++
			most = max(most, before+1)
			if ms > 0 {
				perTenth[ms/100]++
			}
			after, ok := a.admit(start.Add(time.Duration(ms)*time.Millisecond), random.Float64())
			if ok {
				admitted++
				last = ms
				continue
			}
			if after < minRetryAfter || after > maxRetryAfter*13/10 {
				t.Fatalf("told to come back in %s", after)
			}
			at := ms + max(1, after.Milliseconds())
			arrivals[at] = append(arrivals[at], before+1)
		}
		delete(arrivals, ms)
	}
	t.Logf("all in after %d ms; %.2f asks each, %d at most", last, float64(asked)/herd, most)
	if ideal := int64((herd - perSecond) * 1000 / perSecond); last > ideal*2 {
		t.Errorf("all in after %d ms, the rate allows %d ms", last, ideal)
	}
	if asked > 2*herd+herd/5 {
		t.Errorf("%d asks for %d members", asked, herd)
	}
	for tenth, n := range perTenth {
		if n > perSecond/10*3/2 {
			t.Errorf("%d came back in the 100 ms from %d ms on", n, tenth*100)
		}
	}
}

func TestQueueLongerThanTheLongestWaitIsSpreadToo(t *testing.T) {
	a := newAdmission(Rate{PerSecond: 1, Burst: 1})
	now := time.Unix(0, 0)
	seen := map[time.Duration]bool{}
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		if after, ok := a.admit(now, random.Float64()); !ok {
			if after > maxRetryAfter*13/10 {
				t.Fatalf("told to come back in %s", after)
			}
			seen[after.Truncate(100*time.Millisecond)] = true
		}
	}
	if len(seen) < 50 {
		t.Fatalf("1000 members share %d tenths of a second", len(seen))
	}
}
