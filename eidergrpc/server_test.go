package eidergrpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/internal/fake"
)

// departing is a server that Serve serves without a registry.
type departing struct {
	t      *testing.T
	server *Server
	addr   string
	leave  context.CancelFunc
	ended  chan struct{}
	report drain.Report
	err    error
}

func depart(t *testing.T, p echo, cfg drain.Config, opts ...grpc.ServerOption) *departing {
	t.Helper()
	l := fake.Listen(t)
	s := NewServer(opts...)
	s.RegisterService(&echoDesc, p)
	ctx, leave := context.WithCancel(context.Background())
	d := &departing{t: t, server: s, addr: l.Addr().String(), leave: leave, ended: make(chan struct{})}
	cfg.Listener, cfg.Logger = l, slog.New(slog.DiscardHandler)
	go func() {
		defer close(d.ended)
		d.report, d.err = Serve(ctx, s, cfg)
	}()
	t.Cleanup(func() { d.finish() })
	return d
}

func (d *departing) finish() drain.Report {
	d.t.Helper()
	d.leave()
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Fatal("Serve doesn't return")
	}
	if d.err != nil {
		d.t.Error(d.err)
	}
	return d.report
}

// plain is a channel that knows nothing of Eider.
func plain(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func TestServeNeedsAListenerAndAGoodConfig(t *testing.T) {
	_, err := Serve(t.Context(), NewServer(), drain.Config{})
	if eider.KindOf(err) != eider.Invalid {
		t.Errorf("%v; want invalid", err)
	}
	_, err = Serve(t.Context(), NewServer(), drain.Config{Listener: fake.Listen(t), Grace: time.Second})
	if eider.KindOf(err) != eider.Invalid {
		t.Errorf("%v; want invalid", err)
	}
}

// At the leave the health service and every answer say so, while calls are served; at the end nobody is cut.
func TestLeavingIsSaidByHealthAndByEveryAnswer(t *testing.T) {
	d := depart(t, &parrot{name: "a"}, drain.Config{Pause: patience, Grace: 10 * time.Minute, InFlight: 5 * time.Minute})
	t.Cleanup(d.server.Stop) // else the pause lasts: it is for who is slow to ask
	cc := plain(t, d.addr)
	health := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		r, err := grpc_health_v1.NewHealthClient(cc).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetStatus()
	}
	if got := health(); got != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v before the leave", got)
	}
	watch, err := grpc_health_v1.NewHealthClient(cc).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	d.leave()
	for {
		r, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			break
		}
	}
	var trailer metadata.MD
	if who, err := say(t, cc, grpc.Trailer(&trailer)); err != nil || who != "a" {
		t.Errorf("after the leave: %q, %v", who, err)
	}
	if len(trailer[keyLeaving]) != 1 {
		t.Errorf("trailer %v lacks %s", trailer, keyLeaving)
	}
	s := open(t, cc)
	if _, err := s.say("x"); err != nil {
		t.Fatal(err)
	}
	if md, _ := s.Header(); len(md[keyLeaving]) != 1 {
		t.Errorf("a stream's header %v lacks %s", md, keyLeaving)
	}
}

// A handler that heeds nothing, in a stream and in a unary call: the exit is bounded all the same, and both are named.
func TestD10AStuckHandlerDoesntKeepTheExit(t *testing.T) {
	begun, free := make(chan struct{}, 2), make(chan struct{})
	stuck := &parrot{name: "a", do: func(context.Context) error { begun <- struct{}{}; <-free; return nil }}
	d := depart(t, stuck, drain.Config{Pause: -1, Grace: 10 * time.Minute, InFlight: 300 * time.Millisecond, Streams: 100 * time.Millisecond})
	var wg sync.WaitGroup
	cc := plain(t, d.addr)
	wg.Go(func() { say(t, cc) })
	s := open(t, cc)
	wg.Go(func() { s.say("x") })
	<-begun
	<-begun
	r := d.finish()
	close(free)
	wg.Wait()
	if r.OverranCount != 1 || r.CutCount != 1 || r.Exit != drain.ExitLoss {
		t.Errorf("%+v; want the call to have overrun and the stream to have been cut", r)
	}
	if len(r.Overran) == 1 && (r.Overran[0].Path != sayMethod || r.Overran[0].Method != "GRPC") {
		t.Errorf("%+v", r.Overran[0])
	}
}

// A stream's handler is told at the leave, and ends in good time.
func TestAStreamIsToldAtTheLeave(t *testing.T) {
	told := make(chan struct{})
	d := depart(t, talker(func(s grpc.ServerStream) error {
		s.SendMsg(wrapperspb.String("hello"))
		<-drain.Started(s.Context())
		close(told)
		return status.Error(codes.OutOfRange, "come again")
	}), drain.Config{Pause: -1})
	s := open(t, plain(t, d.addr))
	out := new(wrapperspb.StringValue)
	if err := s.RecvMsg(out); err != nil {
		t.Fatal(err)
	}
	d.leave()
	<-told
	if err := s.RecvMsg(out); status.Code(err) != codes.OutOfRange {
		t.Errorf("%v", err)
	}
}

// A watch of health has no end of its own, and nobody loses by its end: it ends with the pause, and in no budget; the
// departure is clean. So it is when the watch begins after the pause.
func TestAWatchOfHealthEndsWithThePauseAndIsNoLoss(t *testing.T) {
	begun, free := make(chan struct{}), make(chan struct{})
	p := &parrot{name: "a", do: func(context.Context) error { close(begun); <-free; return nil }}
	d := depart(t, p, drain.Config{Pause: -1, Grace: 10 * time.Minute, InFlight: 5 * time.Minute, Streams: 3 * time.Minute})
	cc := plain(t, d.addr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch, err := grpc_health_v1.NewHealthClient(cc).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { _, err := say(t, cc); answered <- err }()
	<-begun
	d.leave()
	for err = nil; err == nil; {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ends with %v", err)
	}
	close(free)
	if err := <-answered; err != nil {
		t.Errorf("the call beside it: %v", err)
	}
	if r := d.finish(); r.Exit != drain.ExitClean || r.CutCount+r.OverranCount+r.UnansweredCount != 0 {
		t.Errorf("%+v", r)
	}
}

// A client that hears of the leave and ends its stream loses nothing, and neither does one that ends its watch.
func TestAStreamThatItsClientEndsIsNoLoss(t *testing.T) {
	over := make(chan struct{})
	d := depart(t, talker(func(s grpc.ServerStream) error {
		defer close(over)
		s.SendMsg(wrapperspb.String("hello"))
		<-s.Context().Done()
		return s.Context().Err()
	}), drain.Config{Pause: -1, Grace: 10 * time.Minute, InFlight: 5 * time.Minute, Streams: 3 * time.Minute})
	cc := plain(t, d.addr)
	s := open(t, cc)
	if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
		t.Fatal(err)
	}
	watch, err := grpc_health_v1.NewHealthClient(cc).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	d.leave()
	for err = nil; err == nil; { // NOT_SERVING, and the end
		_, err = watch.Recv()
	}
	s.end()
	<-over
	if r := d.finish(); r.Exit != drain.ExitClean || r.CutCount+r.OverranCount+r.UnansweredCount != 0 {
		t.Errorf("%+v", r)
	}
}

// A stream whose handler waits for its client is cut when the budget of streams is over: alone, not with its connection.
func TestD10AStreamsBudgetEndsItAlone(t *testing.T) {
	begun, free := make(chan struct{}), make(chan struct{})
	p := &parrot{name: "a", do: func(context.Context) error { close(begun); <-free; return nil }}
	d := depart(t, p, drain.Config{Pause: -1, Streams: 50 * time.Millisecond})
	cc := plain(t, d.addr)
	s := open(t, cc)
	answered := make(chan error, 1)
	go func() { _, err := say(t, cc); answered <- err }()
	<-begun
	d.leave()
	if err := s.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.Unavailable || !contains(err.Error(), "time of its streams") {
		t.Errorf("the stream: %v", err)
	}
	close(free)
	if err := <-answered; err != nil {
		t.Errorf("the call beside it: %v", err)
	}
	if r := d.finish(); r.CutCount != 1 || r.OverranCount != 0 || r.ForceClosed != 0 {
		t.Errorf("%+v", r)
	}
}

// Whoever connects and says nothing doesn't keep GracefulStop from telling the others.
func TestD10ASilentConnectionIsClosedAndDelaysNobody(t *testing.T) {
	d := depart(t, &parrot{name: "a"}, drain.Config{Pause: -1, Silent: 50 * time.Millisecond, Grace: 10 * time.Minute, InFlight: 5 * time.Minute},
		grpc.ConnectionTimeout(10*time.Minute))
	cc := plain(t, d.addr)
	wantSay(t, cc, "a")
	silent := dial(t, d.addr)
	wantSay(t, cc, "a")
	if r := d.finish(); r.SilentClosed != 1 || r.Exit != drain.ExitClean {
		t.Errorf("%+v", r)
	}
	silent.SetDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, silent); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the silent connection is open still")
	}
}

// Whoever stops in the midst of the preface or of the settings, or goes on a byte at a time, doesn't either, though
// the server would give him ten minutes.
func TestD10AHalfGreetingIsClosedAndDelaysNobody(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for name, words := range map[string]string{"half a preface": preface[:10], "no settings": preface,
		"half the settings": preface + "\x00\x00\x0c\x04\x00\x00\x00\x00\x00\x00", "a byte at a time": ""} {
		t.Run(name, func(t *testing.T) {
			d := depart(t, &parrot{name: "a"}, drain.Config{Pause: -1, Silent: 50 * time.Millisecond, Grace: 10 * time.Minute, InFlight: 5 * time.Minute},
				grpc.ConnectionTimeout(10*time.Minute))
			cc := plain(t, d.addr)
			wantSay(t, cc, "a")
			half := dial(t, d.addr)
			if _, err := io.WriteString(half, words); err != nil {
				t.Fatal(err)
			}
			var drip sync.WaitGroup
			if words == "" {
				drip.Go(func() {
					tick := time.NewTicker(20 * time.Millisecond)
					defer tick.Stop()
					for _, b := range []byte(preface + "\x00\x38\x40\x04\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 0x3840)) {
						if _, err := half.Write([]byte{b}); err != nil {
							return
						}
						<-tick.C
					}
				})
			}
			wantSay(t, cc, "a")
			if r := d.finish(); r.SilentClosed != 1 || r.ForceClosed != 0 || r.Exit != drain.ExitClean {
				t.Errorf("%+v", r)
			}
			half.Close()
			drip.Wait()
		})
	}
}

// A plain client under load survives the whole departure as far as it is turned away in time; what is in flight ends.
func TestCallsInFlightAtTheBarrierEnd(t *testing.T) {
	begun, free := make(chan struct{}, 8), make(chan struct{})
	p := &parrot{name: "a", do: func(context.Context) error { begun <- struct{}{}; <-free; return nil }}
	d := depart(t, p, drain.Config{Pause: -1})
	cc := plain(t, d.addr)
	errs := make(chan error, 8)
	for range 8 {
		go func() { _, err := say(t, cc); errs <- err }()
	}
	for range 8 {
		<-begun
	}
	d.leave()
	close(free)
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if r := d.finish(); r.Exit != drain.ExitClean || r.ForceClosed != 0 {
		t.Errorf("%+v", r)
	}
}

// talker is an echo that only streams.
type talker func(grpc.ServerStream) error

func (f talker) Talk(s grpc.ServerStream) error { return f(s) }

func (f talker) Say(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	return nil, errors.New("it only streams")
}
