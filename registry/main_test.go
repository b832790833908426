package registry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a scripted registry node over an in-memory network. A test takes the streams as they are opened and says
// by itself what the node answers.
type fake struct {
	pb.UnimplementedRegistryServer
	t    *testing.T
	stop context.CancelFunc
	ctx  context.Context

	attaches chan *call[pb.AttachRequest, pb.AttachReply]
	watches  chan *call[pb.WatchRequest, pb.WatchReply]

	mu    sync.Mutex
	lis   *bufconn.Listener
	srv   *grpc.Server
	dials []string // addresses, in order
	at    []time.Time
	away  error // what dials meet; nil: they work
	local net.Addr
	hung  atomic.Bool // streams aren't ended when the client ends its half
	mute  string      // an address that takes connections and says nothing on them

	besides func(*grpc.Server) // what else it serves; nil: nothing
}

// call is one stream, as the node sees it.
type call[Req, Reply any] struct {
	t      *testing.T
	stream grpc.BidiStreamingServer[Req, Reply]
	got    chan *Req  // closed when the client's half has ended
	bye    chan error // what the handler returns
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, attaches: make(chan *call[pb.AttachRequest, pb.AttachReply], 4096), watches: make(chan *call[pb.WatchRequest, pb.WatchReply], 4096)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.start()
	t.Cleanup(func() {
		f.stop()
		f.mu.Lock()
		srv := f.srv
		f.mu.Unlock()
		srv.Stop()
	})
	return f
}

// start begins to serve; kill ends it, as a process' end does.
func (f *fake) start() {
	lis, srv := bufconn.Listen(64<<10), grpc.NewServer()
	pb.RegisterRegistryServer(srv, f)
	if f.besides != nil {
		f.besides(srv)
	}
	f.mu.Lock()
	f.lis, f.srv, f.away = lis, srv, nil
	f.mu.Unlock()
	go srv.Serve(lis) // ends with Stop
}

func (f *fake) kill(err error) {
	f.mu.Lock()
	f.away = err
	srv := f.srv
	f.mu.Unlock()
	srv.Stop()
}

func (f *fake) dial(ctx context.Context, addr string) (net.Conn, error) {
	f.mu.Lock()
	f.dials, f.at = append(f.dials, addr), append(f.at, time.Now())
	lis, away, local, spinning, mute := f.lis, f.away, f.local, len(f.dials) > 10_000, addr == f.mute
	f.mu.Unlock()
	if spinning { // let time pass, so that a test can end and say so
		<-ctx.Done()
	}
	if away != nil {
		return nil, away
	}
	if mute {
		conn, other := net.Pipe()
		go io.Copy(io.Discard, other) // ends with the connection
		return conn, nil
	}
	conn, err := lis.DialContext(ctx)
	if err == nil && local != nil {
		conn = conned{conn, local}
	}
	return conn, err
}

// silence has an address take connections and say nothing on them.
func (f *fake) silence(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = addr
}

// conned is a connection that says it comes from somewhere.
type conned struct {
	net.Conn
	local net.Addr
}

func (c conned) LocalAddr() net.Addr  { return c.local }
func (c conned) RemoteAddr() net.Addr { return c.local }

func (f *fake) dialled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.dials)
}

// open returns a handle on this node, closed when the test ends.
func (f *fake) open(cfg Config) *Registry {
	cfg.Dial = f.dial
	if cfg.Addr == "" {
		cfg.Addr = "node:8762"
	}
	if cfg.Caller == "" {
		cfg.Caller = "test"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := Open(cfg)
	f.t.Cleanup(func() { r.Close() })
	return r
}

func (f *fake) Attach(s grpc.BidiStreamingServer[pb.AttachRequest, pb.AttachReply]) error {
	return hold(f, s, f.attaches)
}

func (f *fake) Watch(s grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	return hold(f, s, f.watches)
}

func hold[Req, Reply any](f *fake, s grpc.BidiStreamingServer[Req, Reply], streams chan *call[Req, Reply]) error {
	c := &call[Req, Reply]{t: f.t, stream: s, got: make(chan *Req, 4096), bye: make(chan error, 1)}
	streams <- c
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(c.got)
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			c.got <- m
		}
	}()
	select {
	case err := <-c.bye:
		return err
	case <-ended:
	case <-f.ctx.Done():
	}
	if f.hung.Load() {
		<-s.Context().Done()
	}
	return nil
}

// say sends replies.
func (c *call[Req, Reply]) say(replies ...*Reply) {
	c.t.Helper()
	for _, m := range replies {
		if err := c.stream.Send(m); err != nil {
			c.t.Errorf("the node can't say %v: %v", m, err)
		}
	}
}

// hear returns the next message, nil if there will be none.
func (c *call[Req, Reply]) hear() *Req {
	c.t.Helper()
	select {
	case m := <-c.got:
		return m
	case <-time.After(time.Minute):
		c.t.Fatal("the client said nothing for a minute")
		return nil
	}
}

func next[Req, Reply any](t *testing.T, streams chan *call[Req, Reply]) *call[Req, Reply] {
	t.Helper()
	select {
	case c := <-streams:
		return c
	case <-time.After(time.Minute):
		t.Fatal("no stream came within a minute")
		return nil
	}
}

type attachTalk = call[pb.AttachRequest, pb.AttachReply]

// attach takes the next Attach stream and welcomes it.
func (f *fake) attach() *attachTalk {
	f.t.Helper()
	c := next(f.t, f.attaches)
	if h := c.hear().GetHello(); h.GetCaller() == "" || h.GetObserver() {
		f.t.Fatalf("Attach began with %v", h)
	}
	c.say(&pb.AttachReply{Kind: &pb.AttachReply_Welcome{Welcome: &pb.Welcome{Run: 1, Node: "a", BeatMs: 2000}}})
	return c
}

type watchTalk = call[pb.WatchRequest, pb.WatchReply]

// watch takes the next Watch stream and welcomes it as a node run.
func (f *fake) watch(run uint64) *watchTalk {
	f.t.Helper()
	c := next(f.t, f.watches)
	if h := c.hear().GetHello(); h.GetCaller() == "" {
		f.t.Fatalf("Watch began with %v", h)
	}
	c.say(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: run, Node: "a", BeatMs: 2000, LeaseMs: 20000, Verdicts: true}}})
	return c
}

// until returns the first message that pick likes, and answers pings and beats on the way.
func until[Req, Reply, M any](c *call[Req, Reply], pick func(*Req) *M) *M {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		m := c.hear()
		if m == nil || time.Now().After(end) {
			c.t.Fatal("the stream ended, or what was waited for didn't come")
		}
		if found := pick(m); found != nil {
			return found
		}
		answer(c, m)
	}
}

func answer[Req, Reply any](c *call[Req, Reply], m *Req) {
	switch m := any(m).(type) {
	case *pb.AttachRequest:
		if m.GetBeat().GetEcho() {
			any(c).(*attachTalk).say(&pb.AttachReply{Kind: &pb.AttachReply_Beaten{Beaten: &pb.Beaten{}}})
		}
	case *pb.WatchRequest:
		if m.GetPing() != nil {
			any(c).(*watchTalk).say(&pb.WatchReply{Kind: &pb.WatchReply_Pong{Pong: m.GetPing()}})
		}
	}
}

// idle answers pings and beats until d has passed, and returns everything else that was said.
func idle[Req, Reply any](c *call[Req, Reply], d time.Duration) (said []*Req) {
	c.t.Helper()
	end := time.After(d)
	for {
		select {
		case m := <-c.got:
			if m == nil {
				return said
			}
			answer(c, m)
			if r, ok := any(m).(*pb.AttachRequest); ok && r.GetBeat() != nil {
				continue
			}
			if r, ok := any(m).(*pb.WatchRequest); ok && r.GetPing() != nil {
				continue
			}
			said = append(said, m)
		case <-end:
			return said
		}
	}
}

var errRefused = errors.New("connect: connection refused")

// grant answers a registration.
func grant(reg *pb.Register, number uint64) *pb.AttachReply {
	r := reg.GetRecord()
	return &pb.AttachReply{Kind: &pb.AttachReply_Registered{Registered: &pb.Registered{
		Service: r.GetService(), Id: r.GetId(), Number: number, Attachment: r.GetAttachment(), LeaseMs: 20000, BoundMs: 3000}}}
}

func refusal(reg *pb.Register, kind eider.Kind, after time.Duration) *pb.AttachReply {
	return &pb.AttachReply{Kind: &pb.AttachReply_Refused{Refused: &pb.Refused{
		Service: reg.GetRecord().GetService(), Id: reg.GetRecord().GetId(),
		Error: &pb.Error{Kind: pb.Kind(kind), Message: "because " + kind.String(), RetryAfterMs: uint32(after.Milliseconds())}}}}
}

var orders = Registration{Service: "orders", ID: "1", Address: "10.0.0.7:8080"}
