package native

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/replica"
)

// fan is a registry whose put reaches every watcher.
type fan struct {
	fake
	mu  sync.Mutex
	out []chan [][]byte
}

type fanWatcher struct {
	idleWatcher
	in chan [][]byte
}

func (w fanWatcher) Next(ctx context.Context) ([][]byte, error) {
	select {
	case views := <-w.in:
		return views, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *fan) Watch(replica.Peer) (replica.Watcher, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := make(chan [][]byte, 1)
	r.out = append(r.out, in)
	return fanWatcher{in: in}, nil
}

// rawFan is the same with nothing but gRPC: the message is encoded by each stream.
type rawFan struct {
	pb.UnimplementedRegistryServer
	mu  sync.Mutex
	out []chan *pb.WatchReply
}

func (s *rawFan) Watch(rpc grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	in := make(chan *pb.WatchReply, 1)
	s.mu.Lock()
	s.out = append(s.out, in)
	s.mu.Unlock()
	go func() {
		for {
			if _, err := rpc.Recv(); err != nil {
				return
			}
		}
	}()
	if err := rpc.Send(&pb.WatchReply{}); err != nil {
		return err
	}
	for {
		select {
		case m := <-in:
			if err := rpc.Send(m); err != nil {
				return err
			}
		case <-rpc.Context().Done():
			return nil
		}
	}
}

// fanned opens n watch streams on connections of their own; got has one entry a view received.
func fanned(b *testing.B, n int, serve func(net.Listener) error) (got chan struct{}) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go serve(lis)
	got = make(chan struct{}, n)
	var readers sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(func() { cancel(); readers.Wait() })
	for range n {
		cc, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { cc.Close() })
		s, err := pb.NewRegistryClient(cc).Watch(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Send(watchHello(false)); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			for {
				if _, err := s.Recv(); err != nil {
					return
				}
				got <- struct{}{}
			}
		})
	}
	return got
}

// BenchmarkFanOut sends one view of ten instances to 200 streams and waits until the last has it. The
// two differ in the front alone; their ratio is what it costs.
func BenchmarkFanOut(b *testing.B) {
	const n = 200
	view := &pb.View{Service: "orders", Cursor: &pb.Cursor{Run: 1, Number: 1}}
	for range 10 {
		view.Instances = append(view.Instances, &pb.Instance{Record: register("instance-1").GetRegister().Record})
	}
	msg := &pb.WatchReply{Kind: &pb.WatchReply_View{View: view}}
	bytes, err := proto.Marshal(msg)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("eider", func(b *testing.B) {
		reg := &fan{}
		srv := New(reg, Config{Logger: slog.New(slog.DiscardHandler)})
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			srv.Stop(ctx)
		})
		got := fanned(b, n, srv.Serve)
		b.ReportAllocs()
		for b.Loop() {
			for _, out := range reg.out {
				out <- [][]byte{bytes}
			}
			for range n {
				<-got
			}
		}
	})
	b.Run("grpc", func(b *testing.B) {
		raw := &rawFan{}
		rpc := grpc.NewServer(tuned()...)
		pb.RegisterRegistryServer(rpc, raw)
		b.Cleanup(rpc.Stop)
		got := fanned(b, n, rpc.Serve)
		b.ReportAllocs()
		for b.Loop() {
			for _, out := range raw.out {
				out <- msg
			}
			for range n {
				<-got
			}
		}
	})
}
