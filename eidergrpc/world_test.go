package eidergrpc

import (
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/meter"
	"github.com/eiderhq/eider/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second // how long a test waits for what must come

// world is a registry that says what the test wants, and a real handle on it.
type world struct {
	t      testing.TB
	reg    *registry.Registry
	counts meter.Meter

	mu      sync.Mutex
	number  uint64
	views   map[string][]eider.Instance
	changed chan struct{} // closed and replaced at each change
	acks    []*pb.Ack
	acked   chan struct{} // closed and replaced at each acknowledgement
	doubts  []*pb.Doubt
	trials  chan *pb.WatchReply // to be sent
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, views: map[string][]eider.Instance{}, changed: make(chan struct{}), acked: make(chan struct{}), trials: make(chan *pb.WatchReply)}
	l := listen(t)
	srv := grpc.NewServer()
	pb.RegisterRegistryServer(srv, &node{w: w})
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	w.reg = registry.Open(registry.Config{Addr: l.Addr().String(), Caller: "test", Meter: &w.counts})
	t.Cleanup(func() {
		w.reg.Close()
		srv.Stop()
		<-done
	})
	return w
}

// client returns a channel to a service.
func (w *world) client(cfg Config, service string, opts ...grpc.DialOption) *grpc.ClientConn {
	w.t.Helper()
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = patience // on a busy machine a connection may take more than the default's second
	}
	cc, err := cfg.NewClient("eider:///"+service, w.reg, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cc.Close() })
	return cc
}

// set replaces the view of a service.
func (w *world) set(service string, all ...eider.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	w.views[service] = all
	close(w.changed)
	w.changed = make(chan struct{})
}

// apply replaces the view of a service, and returns once this caller's pickers have switched to it.
func (w *world) apply(service string, all ...eider.Instance) {
	w.t.Helper()
	w.set(service, all...)
	w.mu.Lock()
	number := w.number
	w.mu.Unlock()
	w.await("an acknowledgement of the new view", func() bool {
		for _, a := range w.acks {
			if a.GetService() == service && a.GetCursor().GetNumber() >= number {
				return true
			}
		}
		return false
	})
}

// await waits until a condition on acks and doubts holds.
func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	late := time.After(patience)
	for {
		w.mu.Lock()
		done, next := ok(), w.acked
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-next:
		case <-late:
			w.t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// letGo tells whether this caller has acknowledged that it has let go of an instance.
func (w *world) letGo(id string) func() bool {
	return func() bool {
		for _, a := range w.acks {
			for _, d := range a.GetLetGo() {
				if d.GetId() == id {
					return true
				}
			}
		}
		return false
	}
}

// node is the registry's server side.
type node struct {
	pb.UnimplementedRegistryServer
	w *world
}

func (n *node) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	w := n.w
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 7, Node: "test", BeatMs: 2000}}}); err != nil {
		return err
	}
	asked := make(chan *pb.WatchRequest)
	ctx := stream.Context()
	go func() {
		defer close(asked)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case asked <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	sent := map[string]uint64{}
	for ctx.Err() == nil {
		w.mu.Lock()
		changed, number := w.changed, w.number
		var out []*pb.WatchReply
		for service, at := range sent {
			if at != number {
				out = append(out, w.snapshot(service))
				sent[service] = number
			}
		}
		w.mu.Unlock()
		for _, m := range out {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case m := <-w.trials:
			stream.Send(m) // an error is the end of the stream, hence of its context
		case m, ok := <-asked:
			if !ok || m.GetGoodbye() != nil {
				return nil
			}
			if s := m.GetSubscribe(); s != nil {
				sent[s.GetService()] = ^uint64(0)
			}
			if p := m.GetPing(); p != nil {
				stream.Send(&pb.WatchReply{Kind: &pb.WatchReply_Pong{Pong: p}})
			}
			w.heard(m)
		}
	}
	return ctx.Err()
}

func (w *world) heard(m *pb.WatchRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := m.GetAck(); a != nil {
		w.acks = append(w.acks, a)
	}
	if d := m.GetDoubt(); d != nil {
		w.doubts = append(w.doubts, d)
	}
	close(w.acked)
	w.acked = make(chan struct{})
}

func (w *world) snapshot(service string) *pb.WatchReply {
	v := &pb.View{Service: service, Cursor: &pb.Cursor{Run: 7, Number: max(w.number, 1)}, Complete: true}
	for i := range w.views[service] {
		in := &w.views[service][i]
		if in.Status.Gone() {
			v.Gone = append(v.Gone, &pb.Gone{Id: in.ID, Incarnation: wire.FromIncarnation(in.Incarnation), Attachment: 1, Version: 9, Status: wire.FromStatus(in.Status)})
			continue
		}
		v.Instances = append(v.Instances, wire.FromInstance(in))
	}
	return &pb.WatchReply{Kind: &pb.WatchReply_View{View: v}}
}

// up is an instance that may be called; spare one that is called only when an earlier try has left out all others,
// since it is suspect.
func up(service, id, address string) eider.Instance {
	var nonce uint64 = 1
	for _, c := range []byte(service + "/" + id) {
		nonce = nonce*31 + uint64(c)
	}
	return eider.Instance{Record: eider.Record{Key: eider.Key{Service: service, ID: id}, Incarnation: eider.Incarnation{Number: 1, Nonce: nonce},
		Attachment: 1, Version: 1, Status: eider.Up, Address: address}}
}

func spare(service, id, address string) eider.Instance {
	in := up(service, id, address)
	in.Suspicion = eider.BeatsMissed
	return in
}

func draining(in eider.Instance) eider.Instance {
	in.Status, in.Version = eider.Draining, in.Version+1
	return in
}

func gone(in eider.Instance) eider.Instance {
	in.Status, in.Version = eider.Left, in.Version+2
	return in
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// deadPort returns an address that refuses.
func deadPort(t testing.TB) string {
	l := listen(t)
	l.Close()
	return l.Addr().String()
}

// script is a server that does to each connection what the test says; it ends with the test.
func script(t testing.TB, each func(n int, c net.Conn)) net.Listener {
	l := listen(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				each(n, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l
}
