package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/memnet"
)

// bubble is a whole node on a network in memory.
type bubble struct {
	*Node
	net  *memnet.Net
	stop func() // and wait for the end of Run
}

const nodeHost = "127.0.0.1"

func inBubble(t *testing.T, test func(*testing.T, bubble)) {
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		n, err := New(Config{Settings: Settings{Fresh: true}, Logger: slog.New(slog.DiscardHandler), Listen: mem.Listen,
			Dial: func(ctx context.Context, address string) error {
				c, err := mem.From(nodeHost).Dial(ctx, address)
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
		stop := sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		defer stop()
		<-n.Ready()
		test(t, bubble{n, mem, stop})
	})
}

// dial returns what dials from a host.
func (b bubble) dial(host string) func(context.Context, string) (net.Conn, error) {
	return b.net.From(host).Dial
}

// An instance that is stopped (SIGSTOP) is suspected by its missing beats, its stream is dropped within
// the keepalive, and its lease lapses once.
func TestHungInstanceIsSuspectedDroppedAndLapses(t *testing.T) {
	inBubble(t, func(t *testing.T, n bubble) {
		const host, port = "127.0.0.2", "127.0.0.2:9000"
		own, err := n.net.Listen(port)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		cc, err := grpc.NewClient("passthrough:///"+n.Addrs().GRPC.String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(n.dial(host)))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		s, _, _ := attachedAs(t, pb.NewRegistryClient(cc), port)
		beating, stopBeats := context.WithCancel(t.Context())
		defer stopBeats()
		go func() {
			for range time.Tick(2 * time.Second) {
				if beating.Err() != nil || s.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{}}}) != nil {
					return
				}
			}
		}()
		<-time.After(time.Minute)
		if in, ok := instance(n.Node); !ok || in.Status != eider.Up || in.Suspicion != 0 {
			t.Fatalf("a beating instance: %v", in)
		}
		n.net.Stall(host)
		stopBeats() // a stopped process' clock doesn't tick either
		<-time.After(6 * time.Second)
		if in, ok := instance(n.Node); !ok || in.Status != eider.Up || !in.Suspicion.Has(eider.BeatsMissed) {
			t.Fatalf("after 6s of silence: %v, %v", in, ok)
		}
		<-time.After(10 * time.Second)
		if st := n.native.Stats(); st.Streams != 0 || st.Connections != 0 {
			t.Fatalf("16s after the stall: %+v", st)
		}
		<-time.After(6 * time.Second)
		if in, ok := instance(n.Node); ok {
			t.Fatalf("22s after the stall it is still listed: %v", in)
		}
		n.net.Resume(host)
	})
}

// An event stream lasts until its reader or the node ends it: the node does.
func TestEventStreamsDontHoldUpTheStop(t *testing.T) {
	inBubble(t, func(t *testing.T, n bubble) {
		req, err := http.NewRequest(http.MethodGet, "http://"+n.Addrs().HTTP.String()+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		dial := n.dial("127.0.0.2")
		tr := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		began := time.Now()
		n.stop()
		if took := time.Since(began); took >= Grace {
			t.Errorf("the stop took %s", took)
		}
	})
}

// A client that is told and doesn't hear is cut.
func TestStopIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, n bubble) {
		deaf, err := n.dial("127.0.0.2")(t.Context(), n.Addrs().GRPC.String())
		if err != nil {
			t.Fatal(err)
		}
		defer deaf.Close()
		deaf.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		synctest.Wait()
		began := time.Now()
		n.stop()
		if took := time.Since(began); took > Grace+time.Second {
			t.Errorf("the stop took %s", took)
		}
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
