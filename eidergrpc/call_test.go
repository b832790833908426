package eidergrpc

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/internal/fake"
	"github.com/eiderhq/eider/internal/tries"
)

func TestCallsGoToAnInstanceAndSayForWhomTheyAre(t *testing.T) {
	w := newWorld(t)
	p := &parrot{name: "a"}
	addr, _ := serve(t, p)
	a := fake.Up("orders", "a", addr)
	w.Set("orders", a)
	cc := w.client(Config{}, "orders")
	wantSay(t, cc, "a")
	md := p.seen[0]
	if got := md[keyTo]; len(got) != 1 || got[0] != "a@"+a.Incarnation.String() {
		t.Errorf("eider-to: %v", got)
	}
	if got := md[keyCaller]; len(got) != 1 || got[0] != w.Handle.Caller() {
		t.Errorf("eider-caller: %v", got)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "mine", "too")
	if err := cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue)); err != nil {
		t.Fatal(err)
	}
	if md := p.seen[1]; len(md["mine"]) != 1 || len(md[keyTo]) != 1 || len(md[keyCaller]) != 1 {
		t.Errorf("beside metadata of the caller's own: %v", md)
	}
	if got := md[":authority"]; len(got) != 1 || got[0] != "orders" {
		t.Errorf(":authority: %v; want the service, as TLS checks it", got)
	}
}

// injector is a stats handler that writes metadata into each try, as tracing does.
type injector struct{}

func (injector) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	if md == nil {
		md = metadata.MD{}
	}
	md.Set("traceparent", "x")
	return metadata.NewOutgoingContext(ctx, md)
}
func (injector) HandleRPC(context.Context, stats.RPCStats)                         {}
func (injector) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (injector) HandleConn(context.Context, stats.ConnStats)                       {}

// A tracing stats handler replaces a call's metadata before each try: what Eider says is there still, and says of each try for
// whom it is.
func TestAStatsHandlerThatWritesMetadataHidesNothing(t *testing.T) {
	w := newWorld(t)
	first := newFrames(t, func(f *frames) { f.refuse() })
	p := &parrot{name: "b"}
	addr, _ := serve(t, p)
	b := fake.Spare("orders", "b", addr)
	w.Set("orders", fake.Up("orders", "a", first), b)
	wantSay(t, w.client(Config{}, "orders", grpc.WithStatsHandler(injector{})), "b")
	md := p.seen[0]
	if to := md[keyTo]; len(to) != 1 || to[0] != "b@"+b.Incarnation.String() || len(md[keyCaller]) != 1 || len(md["traceparent"]) != 1 {
		t.Errorf("%v", md)
	}
}

func TestARefusedDialIsTriedElsewhere(t *testing.T) {
	w := newWorld(t)
	addr, _ := serve(t, &parrot{name: "b"})
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Spare("orders", "b", addr))
	cc := w.client(Config{}, "orders")
	wantSay(t, cc, "b")
	w.Await("doubt of the instance that refused", func(h *fake.Heard) bool { return len(h.Doubts) == 1 })
	s := open(t, cc)
	if got, err := s.say("x"); err != nil || got != "b x" {
		t.Errorf("a stream: %q, %v", got, err)
	}
}

func TestWhenEverybodyRefusesTheErrorNamesThem(t *testing.T) {
	w := newWorld(t)
	w.Set("orders", fake.Up("orders", "a", fake.DeadPort(t)), fake.Up("orders", "b", fake.DeadPort(t)))
	_, err := say(t, w.client(Config{}, "orders"))
	if status.Code(err) != codes.Unavailable {
		t.Fatalf("%v; want Unavailable", err)
	}
	t.Log(err)
	for _, part := range []string{"orders/a", "orders/b", "connection refused", "no other instance"} {
		if !contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestNobodyThereIsUnavailableAtOnceUnlessTheCallWaits(t *testing.T) {
	w := newWorld(t)
	w.Set("orders")
	cc := w.client(Config{}, "orders")
	_, err := say(t, cc)
	if status.Code(err) != codes.Unavailable || eider.KindOf(err) != eider.NoInstance {
		t.Fatalf("%v, kind %v; want Unavailable, no instance", err, eider.KindOf(err))
	}
	answered := make(chan string, 1)
	go func() {
		who, err := say(t, cc, grpc.WaitForReady(true))
		if err != nil {
			who = err.Error()
		}
		answered <- who
	}()
	addr, _ := serve(t, &parrot{name: "a"})
	w.Set("orders", fake.Up("orders", "a", addr))
	if got := <-answered; got != "a" {
		t.Errorf("%s", got)
	}
}

func TestNoViewFailsCallsInTime(t *testing.T) {
	w := newWorld(t)
	w.Handle.Close()
	cc := w.client(Config{ViewTimeout: 50 * time.Millisecond}, "orders")
	_, err := say(t, cc)
	if status.Code(err) != codes.Unavailable {
		t.Fatalf("%v; want Unavailable", err)
	}
	t.Log(err)
}

func TestTheCallersDeadlineIsRespectedWhileADialHangs(t *testing.T) {
	w := newWorld(t)
	l := fake.Script(t, func(int, deadConn) { <-t.Context().Done() })
	w.Set("orders", fake.Up("orders", "a", l.Addr().String()))
	cc := w.client(Config{ConnectTimeout: time.Minute}, "orders")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := cc.Invoke(ctx, sayMethod, wrapperspb.String(""), new(wrapperspb.StringValue))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v; want DeadlineExceeded", err)
	}
	// Nor does what it has waited for hold up letting go.
	addr, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", l.Addr().String()), fake.Up("orders", "b", addr)
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a"))
}

// mute is a channel that dials for 200 ms, to a, which accepts and never speaks, and beside it b, to which it is connected
// already: what is short enough to be waited for is too short to connect on a busy machine.
func mute(t *testing.T, w *world) (a, b eider.Instance, cc *grpc.ClientConn, dialled chan struct{}) {
	dialled = make(chan struct{}, 8)
	l := fake.Script(t, func(int, deadConn) { dialled <- struct{}{}; <-t.Context().Done() })
	addr, _ := serve(t, &parrot{name: "b"})
	a, b = fake.Up("orders", "a", l.Addr().String()), fake.Spare("orders", "b", addr)
	cc = w.client(Config{ConnectTimeout: 200 * time.Millisecond}, "orders")
	w.Set("orders", b)
	for end := time.Now().Add(patience); ; {
		if _, err := say(t, cc); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	w.Apply("orders", a, b)
	return a, b, cc, dialled
}

func TestAHandshakeThatHangsIsTriedElsewhereAfterConnectTimeout(t *testing.T) {
	_, _, cc, dialled := mute(t, newWorld(t))
	wantSay(t, cc, "b")
	if len(dialled) == 0 {
		t.Error("a wasn't tried")
	}
}

// A pick that waits for somebody who never speaks counts, but for no longer than he is waited for.
func TestAHandshakeThatHangsHoldsUpLettingGoForConnectTimeoutAtMost(t *testing.T) {
	w := newWorld(t)
	a, b, cc, dialled := mute(t, w)
	answered := make(chan error, 1)
	go func() {
		who, err := say(t, cc)
		if err == nil && who != "b" {
			err = errors.New("answered by " + who)
		}
		answered <- err
	}()
	<-dialled
	w.Set("orders", fake.Draining(a), b)
	w.Await("let-go of a", fake.LetGo("a"))
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestAStatusIsAnAnswerAndIsNotTriedAgain(t *testing.T) {
	w := newWorld(t)
	a := &parrot{name: "a", do: func(context.Context) error { return status.Error(codes.Unavailable, saysDraining) }}
	b := &parrot{name: "b"}
	addrA, _ := serve(t, a)
	addrB, _ := serve(t, b)
	w.Set("orders", fake.Up("orders", "a", addrA), fake.Spare("orders", "b", addrB))
	// Whether it counts against the instance is another question: see TestStatusesThatCountAgainstTheInstance.
	cc := w.client(Config{Idempotent: []string{"/test.Echo/"}, NoBreakers: true}, "orders")
	for range 3 {
		if _, err := say(t, cc); status.Code(err) != codes.Unavailable {
			t.Fatalf("%v; want a's own word", err)
		}
	}
	if a.times() != 3 || b.times() != 0 {
		t.Errorf("a was asked %d times, b %d times", a.times(), b.times())
	}
}

func TestACutCallIsTriedAgainOnlyIfItsMethodIsIdempotent(t *testing.T) {
	for _, row := range []struct {
		name string
		set  Config
		want codes.Code
	}{
		{"not declared", Config{}, codes.Unavailable},
		{"by its name", Config{Idempotent: []string{sayMethod}}, codes.OK},
		{"by its service", Config{Idempotent: []string{"/test.Echo/"}}, codes.OK},
		{"another", Config{Idempotent: []string{"/test.Echo/Other"}}, codes.Unavailable},
		{"budget spent", Config{Idempotent: []string{sayMethod}, RetryRatio: -1}, codes.Unavailable},
		{"one try", Config{Idempotent: []string{sayMethod}, Tries: 1}, codes.Unavailable},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			cut := newFrames(t, func(f *frames) { f.conn.Close() })
			addr, _ := serve(t, &parrot{name: "b"})
			w.Set("orders", fake.Up("orders", "a", cut), fake.Spare("orders", "b", addr))
			who, err := say(t, w.client(row.set, "orders"))
			if status.Code(err) != row.want || err == nil && who != "b" {
				t.Errorf("%q, %v", who, err)
			}
			t.Log(err)
		})
	}
}

func TestUnprocessedStreamsAreTriedElsewhereWhateverTheMethod(t *testing.T) {
	for name, do := range map[string]func(*frames){
		"REFUSED_STREAM": func(f *frames) { f.refuse() },
		"GOAWAY":         func(f *frames) { f.goAway() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			// Two of them: the first is repeated by gRPC itself, the second isn't.
			first, second := newFrames(t, do), newFrames(t, do)
			p := &parrot{name: "c"}
			addr, _ := serve(t, p)
			w.Set("orders", fake.Up("orders", "a", first), fake.Up("orders", "b", second), fake.Spare("orders", "c", addr))
			wantSay(t, w.client(Config{}, "orders"), "c")
			s := open(t, w.client(Config{}, "orders"))
			if got, err := s.say("x"); err != nil || got != "c x" {
				t.Errorf("a stream: %q, %v", got, err)
			}
			if p.times() != 1 {
				t.Errorf("worked on %d times", p.times())
			}
		})
	}
}

func TestRefusedStreamsCostBudget(t *testing.T) {
	w := newWorld(t)
	refusing := newRefusing(t)
	addr, _ := serve(t, &parrot{name: "b"})
	w.Set("orders", fake.Up("orders", "a", refusing), fake.Spare("orders", "b", addr))
	_, err := say(t, w.client(Config{RetryRatio: -1}, "orders"))
	if status.Code(err) != codes.Unavailable || !errors.Is(err, tries.ErrBudget) {
		t.Errorf("%v; want it to name the budget", err)
	}
}

func TestTwoFailedCallsSetAnInstanceAside(t *testing.T) {
	w := newWorld(t)
	cut := newFrames(t, func(f *frames) { f.conn.Close() })
	addr, _ := serve(t, &parrot{name: "b"})
	a, b := fake.Up("orders", "a", cut), fake.Up("orders", "b", addr)
	w.Set("orders", a, b)
	cc := w.client(Config{Breaker: breaker.Config{OpenFor: time.Hour}}, "orders") // a busy machine takes a second for so many calls
	failed := 0
	for range 40 {
		if _, err := say(t, cc); err != nil {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d calls failed; want two, and then nobody goes there", failed)
	}
}

// A write finds the stream broken: gRPC says Done without an error then, and why only with the next read.
func TestAStreamThatAWriteFindsBrokenIsJudgedByTheNextRead(t *testing.T) {
	w := newWorld(t)
	cut := newFrames(t, func(f *frames) { f.conn.Close() })
	addr, _ := serve(t, &parrot{name: "b"})
	w.Set("orders", fake.Up("orders", "a", cut), fake.Spare("orders", "b", addr))
	cc := w.client(Config{Idempotent: []string{talkMethod}}, "orders")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "Talk", ServerStreams: true}, talkMethod)
	if err != nil {
		t.Fatal(err)
	}
	for state := cc.GetState(); state == connectivity.Ready; state = cc.GetState() {
		cc.WaitForStateChange(ctx, state)
	}
	if got, err := (&speech{s, cancel}).say("x"); err != nil || got != "b x" {
		t.Errorf("%q, %v", got, err)
	}
}

// flood answers the first message with more than a connection buffers, and reads on only then.
type flood struct{ parrot }

const floodOf = 32

func (*flood) Talk(s grpc.ServerStream) error {
	in, out := new(wrapperspb.StringValue), wrapperspb.String(strings.Repeat("x", 64<<10))
	if err := s.RecvMsg(in); err != nil {
		return err
	}
	for range floodOf {
		if err := s.SendMsg(out); err != nil {
			return err
		}
	}
	for {
		if err := s.RecvMsg(in); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// Whoever reads doesn't wait for whoever sends: the server may read on only when its answers are read.
func TestAStreamIsReadWhileItsSenderWaits(t *testing.T) {
	w := newWorld(t)
	addr, _ := serve(t, &flood{})
	w.Set("orders", fake.Up("orders", "a", addr))
	cc := w.client(Config{}, "orders")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "Talk", ClientStreams: true, ServerStreams: true}, talkMethod)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		m := wrapperspb.String(strings.Repeat("y", 64<<10))
		for range floodOf {
			if err := s.SendMsg(m); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	n := 0
	for err = error(nil); err == nil; {
		if err = s.RecvMsg(new(wrapperspb.StringValue)); err == nil {
			n++
		}
	}
	if err != io.EOF || n != floodOf {
		t.Errorf("%d messages and %v, want %d and the end", n, err, floodOf)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
