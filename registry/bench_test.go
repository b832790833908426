package registry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

// rawBytes is a message that goes over the wire as it is.
type rawBytes struct{ b []byte }

// rawCodec passes rawBytes through, keeps nothing of what is received into one, and leaves the rest to protobuf.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*rawBytes); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.b)}, nil
	}
	b, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*rawBytes); ok {
		return nil
	}
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// fan is a node that only sends the same bytes to every stream, each from a goroutine of its own.
type fan struct {
	pb.UnimplementedRegistryServer
	mu      sync.Mutex
	streams []chan *rawBytes
	ready   sync.WaitGroup
	acks    chan struct{} // if set, one for every acknowledgement
}

func (f *fan) Watch(s grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	next := make(chan *rawBytes, 1)
	if _, err := s.Recv(); err != nil {
		return err
	}
	s.Send(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 1, BeatMs: 2000}}})
	if _, err := s.Recv(); err != nil { // Subscribe
		return err
	}
	f.mu.Lock()
	f.streams = append(f.streams, next)
	f.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			if f.acks != nil && m.GetAck() != nil {
				f.acks <- struct{}{}
			}
		}
	}()
	f.ready.Done()
	for {
		select {
		case m := <-next:
			if err := s.SendMsg(m); err != nil {
				return err
			}
		case <-ended:
			return nil
		}
	}
}

func (f *fan) send(m *rawBytes) {
	for _, c := range f.streams {
		c <- m
	}
}

func newFan(b *testing.B, n int) (*fan, string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	f := &fan{}
	f.ready.Add(n)
	srv := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}))
	pb.RegisterRegistryServer(srv, f)
	go srv.Serve(lis)
	b.Cleanup(srv.Stop)
	return f, lis.Addr().String()
}

const fanned = 1000

// perCaller reports the processor time that one message to one caller takes, both ends together: on a busy machine it
// says more than the time that has passed.
func perCaller(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N)/fanned, "cpu-µs/msg") }
}

// change is the message that says: one of ten instances has changed.
func change(b *testing.B, number uint64) *rawBytes {
	v := &pb.View{Service: "orders", Cursor: &pb.Cursor{Run: 1, Number: number}, Complete: true, Base: number - 1}
	first, last := 3, 4
	if number == 1 {
		v.Base, first, last = 0, 0, 10
	}
	for i := first; i < last; i++ {
		v.Instances = append(v.Instances, wire.FromInstance(&eider.Instance{Record: eider.Record{
			Key: eider.Key{Service: "orders", ID: fmt.Sprint("10.0.0.", i, ":8080")}, Incarnation: eider.Incarnation{Number: 1, Nonce: uint64(i + 1)},
			Attachment: 1, Version: number, Status: eider.Up, Address: fmt.Sprint("10.0.0.", i, ":8080"), Zone: "zone-1",
			Metadata: map[string]string{"version": "1.2.3", "commit": "abcdef0123", "owner": "payments"},
		}}))
	}
	out, err := proto.Marshal(&pb.WatchReply{Kind: &pb.WatchReply_View{View: v}})
	if err != nil {
		b.Fatal(err)
	}
	return &rawBytes{out}
}

// One change, from the node to the last of a thousand callers on connections of their own; raw is the same bytes
// to as many bare gRPC streams that don't look at them. The ratio of the two is what counts.
func BenchmarkFanout(b *testing.B) {
	b.Run("raw", func(b *testing.B) { benchRaw(b) })
	b.Run("eider", func(b *testing.B) { benchFollow(b, false) })
	b.Run("eider-acks", func(b *testing.B) { benchFollow(b, true) })
}

func benchRaw(b *testing.B) {
	node, addr := newFan(b, fanned)
	ctx, cancel := context.WithCancel(b.Context())
	var readers, round sync.WaitGroup
	for range fanned {
		cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticStreamWindowSize(1<<20), grpc.WithStaticConnWindowSize(4<<20), // as ours: fairer than fair
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
		if err != nil {
			b.Fatal(err)
		}
		defer cc.Close()
		s, err := pb.NewRegistryClient(cc).Watch(ctx)
		if err != nil {
			b.Fatal(err)
		}
		s.Send(&pb.WatchRequest{Kind: &pb.WatchRequest_Hello{Hello: &pb.Hello{Caller: "raw"}}})
		s.Send(&pb.WatchRequest{Kind: &pb.WatchRequest_Subscribe{Subscribe: &pb.Subscribe{Service: "orders"}}})
		if _, err = s.Recv(); err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			var m rawBytes
			for s.RecvMsg(&m) == nil {
				round.Done()
			}
		})
	}
	node.ready.Wait()
	number := uint64(1)
	b.ReportAllocs()
	defer perCaller(b)()
	for b.Loop() {
		m := change(b, number)
		round.Add(fanned)
		node.send(m)
		round.Wait()
		number++
	}
	cancel()
	readers.Wait()
}

func benchFollow(b *testing.B, acks bool) {
	node, addr := newFan(b, fanned)
	if acks {
		node.acks = make(chan struct{}, fanned)
	}
	var readers, round sync.WaitGroup
	var handles []*Registry
	for range fanned {
		reg := Open(Config{Addr: addr, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		handles = append(handles, reg)
		s, err := reg.Follow("orders")
		if err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			var last *eider.View
			for {
				u, err := s.Next(context.Background())
				if err != nil {
					return
				}
				if u.View == last {
					continue
				}
				last = u.View
				if acks {
					s.Ack(u.View.Cursor, []eider.Departure{{Key: eider.Key{Service: "orders", ID: "x"}, Incarnation: eider.Incarnation{Nonce: u.View.Cursor.Number}}}, nil)
				}
				round.Done()
			}
		})
	}
	node.ready.Wait()
	number := uint64(1)
	b.ReportAllocs()
	defer perCaller(b)()
	for b.Loop() {
		m := change(b, number)
		round.Add(fanned)
		node.send(m)
		round.Wait()
		if acks {
			for range fanned {
				<-node.acks
			}
		}
		number++
	}
	b.StopTimer()
	for _, reg := range handles {
		reg.Close()
	}
	readers.Wait()
}
