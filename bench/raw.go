package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that passthrough wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

// rawServer is the floor: a gRPC stream a watcher, the same message to each, encoded once, and nothing else. A
// SetStatus on Attach is the put.
type rawServer struct {
	pb.UnimplementedRegistryServer
	mu       sync.Mutex
	watchers map[chan []byte]bool
	version  uint64
}

func serveRaw() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(passthrough{encoding.GetCodecV2("proto")}))
	pb.RegisterRegistryServer(s, &rawServer{watchers: map[chan []byte]bool{}})
	fmt.Fprintln(os.Stderr, "ready "+ln.Addr().String())
	go func() {
		waitForEnd()
		s.Stop()
	}()
	return s.Serve(ln)
}

func (s *rawServer) Attach(stream grpc.BidiStreamingServer[pb.AttachRequest, pb.AttachReply]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
		s.mu.Lock()
		s.version++
		encoded, err := proto.Marshal(viewAt(s.version))
		for w := range s.watchers {
			w <- encoded
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (s *rawServer) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.SendMsg(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{}}}); err != nil {
		return err
	}
	w := make(chan []byte, 1)
	s.mu.Lock()
	s.watchers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}()
	go func() { // what a watcher says is read, as on every stream of two directions; it ends with the stream
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case encoded := <-w:
			if err := stream.SendMsg(encoded); err != nil {
				return err
			}
		}
	}
}

// viewAt is the delta that Eider sends for the same change.
func viewAt(version uint64) *pb.WatchReply {
	return &pb.WatchReply{Kind: &pb.WatchReply_View{View: &pb.View{
		Service: "orders", Cursor: &pb.Cursor{Run: 1 << 60, Number: version + 1}, Complete: true, Base: version,
		Instances: []*pb.Instance{{Record: &pb.Record{Id: "1", Incarnation: &pb.Incarnation{Number: 1, Nonce: 1 << 60},
			Attachment: 1, Version: version, Status: pb.Status_STATUS_UP, Address: "127.0.0.1:8080"}}},
	}}}
}

// passthrough sends bytes as they are and leaves the rest to protobuf.
type passthrough struct{ encoding.CodecV2 }

func (c passthrough) Marshal(v any) (mem.BufferSlice, error) {
	if encoded, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(encoded)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// rawFan is 1,000 plain gRPC clients, a connection each, that decode what comes.
type rawFan struct {
	server *process
	put    grpc.BidiStreamingClient[pb.AttachRequest, pb.AttachReply]
	conns  []*grpc.ClientConn
	cancel context.CancelFunc
	wg     sync.WaitGroup
	finish finish
}

func openRaw(watchers int) (f *rawFan, err error) {
	f = &rawFan{}
	if f.server, err = self("raw"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	for range watchers {
		if err := f.watch(ctx); err != nil {
			f.Close()
			return nil, err
		}
	}
	client, err := f.client()
	if err != nil {
		f.Close()
		return nil, err
	}
	if f.put, err = client.Attach(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *rawFan) client() (pb.RegistryClient, error) {
	conn, err := grpc.NewClient(f.server.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	f.conns = append(f.conns, conn)
	return pb.NewRegistryClient(conn), nil
}

func (f *rawFan) watch(ctx context.Context) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	stream, err := client.Watch(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.WatchRequest{Kind: &pb.WatchRequest_Hello{Hello: &pb.Hello{}}}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	f.wg.Go(func() {
		for {
			reply, err := stream.Recv()
			if err != nil {
				return
			}
			if reply.GetView() != nil {
				f.finish.one()
			}
		}
	})
	return nil
}

// Change puts once and returns when the last watcher has it.
func (f *rawFan) Change() error {
	f.finish.expect(len(f.conns) - 1)
	if err := f.put.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_SetStatus{SetStatus: &pb.SetStatus{}}}); err != nil {
		return err
	}
	return f.finish.wait()
}

// Resident is the server's memory.
func (f *rawFan) Resident() (int64, error) { return f.server.resident() }

func (f *rawFan) cpus() (cpus, error) { return f.server.cpus() }

// Close ends clients and server.
func (f *rawFan) Close() {
	if f.cancel != nil {
		f.cancel()
	}
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.wg.Wait()
	f.server.stop()
}
