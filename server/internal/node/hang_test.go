package node

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/memnet"
)

// A whole node on a network in memory: an instance that is stopped (SIGSTOP) is suspected by its
// missing beats, its stream is dropped within the keepalive, and its lease lapses once.
func TestHungInstanceIsSuspectedDroppedAndLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host, port = "127.0.0.2", "127.0.0.2:9000"
		mem := memnet.New()
		n, err := New(Config{Settings: Settings{Fresh: true}, Logger: slog.New(slog.DiscardHandler), Listen: mem.Listen,
			Dial: func(ctx context.Context, address string) error {
				c, err := mem.From("127.0.0.1").Dial(ctx, address)
				if err == nil {
					c.Close()
				}
				return err
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		own, err := mem.Listen(port)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		cc, err := grpc.NewClient("passthrough:///"+n.Addrs().GRPC.String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return mem.From(host).Dial(ctx, addr) }))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		s, _, registered := attachedAs(t, pb.NewRegistryClient(cc), port)
		if registered == nil {
			t.Fatal("not registered")
		}
		beating, stopBeats := context.WithCancel(ctx)
		defer stopBeats()
		go func() {
			for range time.Tick(2 * time.Second) {
				if beating.Err() != nil || s.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{}}}) != nil {
					return
				}
			}
		}()
		<-time.After(time.Minute)
		if in, ok := instance(n); !ok || in.Status != eider.Up || in.Suspicion != 0 {
			t.Fatalf("a beating instance: %v", in)
		}
		mem.Stall(host)
		stopBeats() // a stopped process' clock doesn't tick either
		<-time.After(6 * time.Second)
		if in, ok := instance(n); !ok || in.Status != eider.Up || !in.Suspicion.Has(eider.BeatsMissed) {
			t.Fatalf("after 6s of silence: %v, %v", in, ok)
		}
		<-time.After(10 * time.Second)
		if st := n.native.Stats(); st.Streams != 0 || st.Connections != 0 {
			t.Fatalf("16s after the stall: %+v", st)
		}
		<-time.After(6 * time.Second)
		if in, ok := instance(n); ok {
			t.Fatalf("22s after the stall it is still listed: %v", in)
		}
		mem.Resume(host)
	})
}

func instance(n *Node) (eider.Instance, bool) {
	v, ok := n.replica.View("orders")
	if !ok {
		return eider.Instance{}, false
	}
	in, ok := v.Find("1")
	if !ok {
		return eider.Instance{}, false
	}
	return *in, true
}
