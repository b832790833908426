package native

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/replica"
)

// idleWatcher never has news and holds nothing.
type idleWatcher struct{ subscribed chan<- struct{} }

func (idleWatcher) Unsubscribe(string)                                             {}
func (idleWatcher) Ack(string, eider.Cursor, []eider.Departure, []eider.Departure) {}
func (idleWatcher) Doubt(eider.Departure)                                          {}
func (idleWatcher) Verdicts(string, []eider.Verdict)                               {}
func (idleWatcher) End(replica.Ending)                                             {}
func (w idleWatcher) Subscribe(string, eider.Cursor, []eider.Departure) error {
	w.subscribed <- struct{}{}
	return nil
}
func (idleWatcher) Next(ctx context.Context) ([][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

type idleRegistry struct {
	fake
	subscribed chan struct{}
}

func (r *idleRegistry) Watch(replica.Peer) (replica.Watcher, error) {
	return idleWatcher{r.subscribed}, nil
}

// rawServer is the least that gRPC needs for the same: one goroutine that reads, one that sends.
type rawServer struct {
	pb.UnimplementedRegistryServer
	subscribed chan struct{}
}

func (s *rawServer) Watch(rpc grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	if _, err := rpc.Recv(); err != nil {
		return err
	}
	if err := rpc.Send(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 1}}}); err != nil {
		return err
	}
	views := make(chan *pb.WatchReply, 1)
	go func() {
		for {
			if _, err := rpc.Recv(); err != nil {
				return
			}
			s.subscribed <- struct{}{}
		}
	}()
	for {
		select {
		case v := <-views:
			if err := rpc.Send(v); err != nil {
				return err
			}
		case <-rpc.Context().Done():
			return rpc.Context().Err()
		}
	}
}

// opening is all that a client sends: a stream with its Hello and a subscription. No client of gRPC's
// would do: its memory would be measured with the server's.
func opening(t testing.TB) []byte {
	t.Helper()
	var out, block bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: pb.Registry_Watch_FullMethodName},
		{Name: ":authority", Value: "eider"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		enc.WriteField(f)
	}
	err := framer.WriteSettings()
	if err == nil {
		err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	}
	for _, m := range []*pb.WatchRequest{watchHello(false), subscribe("orders")} {
		b, _ := proto.Marshal(m)
		data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
		if err == nil {
			err = framer.WriteData(1, false, data)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// bytesPerWatch returns what a server holds for each of n idle watch streams on connections of their own. They come one
// by one: of many at once a busy machine may be too late for some, which are dropped as strangers that say nothing.
func bytesPerWatch(t testing.TB, n int, serve func(net.Listener), subscribed <-chan struct{}) int {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go serve(lis)
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	say := opening(t)
	before := held()
	late := time.After(time.Minute)
	for i := range n {
		c, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if _, err := c.Write(say); err != nil {
			t.Fatal(err)
		}
		select {
		case <-subscribed:
		case <-late:
			t.Fatalf("%d of %d subscribed", i, n)
		}
	}
	return (held() - before) / n
}

// held returns the live heap and the stacks, in bytes.
func held() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

func rawBytes(t testing.TB, n int, opts ...grpc.ServerOption) int {
	raw := &rawServer{subscribed: make(chan struct{}, n)}
	rpc := grpc.NewServer(opts...)
	pb.RegisterRegistryServer(rpc, raw)
	defer rpc.Stop()
	return bytesPerWatch(t, n, func(l net.Listener) { rpc.Serve(l) }, raw.subscribed)
}

// tuned are the options of ours that cost or save memory, for a raw server that knows as much.
func tuned() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.WriteBufferSize(writeBuffer), grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout, MaxConnectionIdle: idleConnection}),
	}
}

func ourBytes(t testing.TB, n int) int {
	reg := &idleRegistry{subscribed: make(chan struct{}, n)}
	srv := New(reg, Config{Logger: slog.New(slog.DiscardHandler)})
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Stop(ctx)
	}()
	return bytesPerWatch(t, n, func(l net.Listener) { srv.Serve(l) }, reg.subscribed)
}

func TestIdleWatchHoldsNoMoreThanRawGRPC(t *testing.T) {
	if testing.Short() {
		t.Skip("opens some thousand connections")
	}
	const n = 300
	ours, raw, plain := ourBytes(t, n), rawBytes(t, n, tuned()...), rawBytes(t, n)
	for range 2 { // the least of three: what is pooled or not yet shrunk only adds
		ours, raw, plain = min(ours, ourBytes(t, n)), min(raw, rawBytes(t, n, tuned()...)), min(plain, rawBytes(t, n))
	}
	t.Logf("an idle watch stream holds %d bytes; raw gRPC with the same options %d (%.2f ×), with gRPC's own %d (%.2f ×)",
		ours, raw, float64(ours)/float64(raw), plain, float64(ours)/float64(plain))
	if float64(ours) > 1.2*float64(raw) {
		t.Errorf("an idle watch stream holds %d bytes, raw gRPC's %d", ours, raw)
	}
}
