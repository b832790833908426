package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const node = "10.0.0.1"

// rig is a front over a fake, on a network in memory. It lives in a bubble.
type rig struct {
	t    *testing.T
	net  *memnet.Net
	srv  *Server
	fake *fake
	addr string
}

// inBubble runs a test against a rig inside a synctest bubble.
func inBubble(t *testing.T, cfg Config, test func(*testing.T, *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, net: memnet.New(), fake: &fake{postponed: map[string]time.Duration{}}}
		if cfg.Logger == nil {
			cfg.Logger = slog.New(slog.DiscardHandler)
		}
		r.srv = New(r.fake, cfg)
		lis, err := r.net.Listen(node + ":0")
		if err != nil {
			t.Fatal(err)
		}
		r.addr = lis.Addr().String()
		served := make(chan error, 1)
		go func() { served <- r.srv.Serve(lis) }()
		defer func() {
			r.stop()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
			if st := r.srv.Stats(); st.Connections != 0 || st.Streams != 0 {
				t.Errorf("after the stop: %+v", st)
			}
		}()
		test(t, r)
	})
}

// inside counts the goroutines of the bubble that it is called in. runtime.NumGoroutine would also count who has
// ended for the bubble and is yet to be put away, and the other tests'.
func inside() int {
	stacks := make([]byte, 1<<20)
	n := runtime.Stack(stacks, true)
	for ; n == len(stacks); n = runtime.Stack(stacks, true) {
		stacks = make([]byte, 2*n)
	}
	head, _, _ := bytes.Cut(stacks[:n], []byte("]:"))
	_, own, found := bytes.Cut(head, []byte(", synctest bubble "))
	if !found {
		panic("there is no bubble here")
	}
	return bytes.Count(stacks[:n], fmt.Appendf(nil, ", synctest bubble %s]:\n", own))
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r.srv.Stop(ctx)
}

func (r *rig) dial(host string) *grpc.ClientConn {
	r.t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+r.addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return r.net.From(host).Dial(ctx, addr)
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cc.Close() })
	return cc
}

// pass lets time pass, the bubble's.
func pass(d time.Duration) { <-time.After(d) }

type (
	attachClient = grpc.BidiStreamingClient[pb.AttachRequest, pb.AttachReply]
	watchClient  = grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchReply]
)

func (r *rig) attach(cc *grpc.ClientConn) attachClient {
	r.t.Helper()
	s, err := pb.NewRegistryClient(cc).Attach(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) watch(cc *grpc.ClientConn) watchClient {
	r.t.Helper()
	s, err := pb.NewRegistryClient(cc).Watch(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// attached returns a stream that is past its Hello.
func (r *rig) attached(host string) attachClient {
	r.t.Helper()
	s := r.attach(r.dial(host))
	tell(r.t, s.Send, hello())
	if w := hear(r.t, s.Recv).GetWelcome(); w.GetRun() != 0xabc || w.GetNode() != "n1" || w.GetBeatMs() != 2000 || w.GetLeaseMs() != 20_000 {
		r.t.Fatalf("welcome: %v", w)
	}
	return s
}

// watching returns a stream that is past its Hello.
func (r *rig) watching(host string) watchClient {
	r.t.Helper()
	s := r.watch(r.dial(host))
	tell(r.t, s.Send, watchHello(false))
	if w := hear(r.t, s.Recv).GetWelcome(); w.GetRun() != 0xabc {
		r.t.Fatalf("welcome: %v", w)
	}
	return s
}

func tell[M any](t *testing.T, send func(M) error, m M) {
	t.Helper()
	if err := send(m); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("send %v: %v", m, err)
	}
}

// within bounds what waits for a stream, by a minute: of the bubble's time, where there is one.
func within[M any](t *testing.T, recv func() (M, error)) (M, error) {
	t.Helper()
	type answer struct {
		m   M
		err error
	}
	got := make(chan answer, 1)
	go func() {
		m, err := recv()
		got <- answer{m, err}
	}()
	select {
	case a := <-got:
		return a.m, a.err
	case <-time.After(time.Minute):
		t.Fatal("nothing came within a minute")
		panic("unreachable")
	}
}

func hear[M any](t *testing.T, recv func() (M, error)) M {
	t.Helper()
	m, err := within(t, recv)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return m
}

// hearEnd reads up to the end of a stream and returns its code and the text of its status.
func hearEnd[M any](t *testing.T, recv func() (M, error)) (codes.Code, string) {
	t.Helper()
	for {
		if _, err := within(t, recv); errors.Is(err, io.EOF) {
			return codes.OK, ""
		} else if err != nil {
			return status.Code(err), status.Convert(err).Message()
		}
	}
}

func hello() *pb.AttachRequest {
	return &pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: "orders@1"}}}
}

func watchHello(observer bool) *pb.WatchRequest {
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Hello{Hello: &pb.Hello{Caller: "checkout@1", Observer: observer}}}
}

func register(id string) *pb.AttachRequest {
	return &pb.AttachRequest{Kind: &pb.AttachRequest_Register{Register: &pb.Register{LeaseMs: 9000, Record: &pb.Record{
		Service: "orders", Id: id, Incarnation: &pb.Incarnation{Nonce: 42}, Attachment: 1,
		Status: pb.Status_STATUS_UP, Address: "10.0.0.9:80"}}}}
}

func subscribe(service string) *pb.WatchRequest {
	return &pb.WatchRequest{Kind: &pb.WatchRequest_Subscribe{Subscribe: &pb.Subscribe{Service: service}}}
}

func beat() *pb.AttachRequest {
	return &pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{Echo: true}}}
}
