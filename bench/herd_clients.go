package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

// oursInHerd is a client as the SDK makes it.
func oursInHerd(ctx context.Context, addr string, i int, dial func(context.Context, string) (net.Conn, error), back func(uint64)) {
	reg := registry.Open(registry.Config{Addr: addr, Caller: "herd", Logger: quiet(), Dial: dial})
	defer reg.Close()
	var run atomic.Uint64
	var listed atomic.Bool
	look := func() {
		if listed.Load() {
			back(run.Load())
		}
	}
	ros := roster.Config{Applied: func(v *eider.View) { run.Store(v.Cursor.Run); look() }}.Follow(reg, "orders")
	defer ros.Close()
	ros.View()
	l, err := reg.Register(registry.Registration{Service: serviceOf(i), ID: strconv.Itoa(i), Address: address(i)})
	if err != nil {
		return
	}
	for s := range l.Watch(ctx) {
		listed.Store(s.Listed)
		look()
	}
}

const (
	rawAgain  = time.Second // how long a raw client waits before it tries again, exactly
	rawWithin = 10 * time.Second
	rawBeat   = 2 * time.Second
)

// rawInHerd is a client as one writes it without manners: no jitter, no backoff, and who says when to come back isn't
// heard.
func rawInHerd(ctx context.Context, addr string, i int, dial func(context.Context, string) (net.Conn, error), back func(uint64)) {
	nonce, attachment := rand.Uint64(), uint64(0)
	for ctx.Err() == nil {
		attachment++
		_ = rawClient(ctx, addr, i, nonce, attachment, dial, back)
		select {
		case <-ctx.Done():
		case <-time.After(rawAgain):
		}
	}
}

// rawClient registers, follows and beats on a connection of its own, until that fails.
func rawClient(ctx context.Context, addr string, i int, nonce, attachment uint64, dial func(context.Context, string) (net.Conn, error), back func(uint64)) error {
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(dial), grpc.WithDefaultServiceConfig("{}"))
	if err != nil {
		return err
	}
	defer cc.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(rawWithin, func() { cancel(errors.New("no answer within 10 s")) })
	defer late.Stop()
	attach, err := pb.NewRegistryClient(cc).Attach(ctx)
	if err != nil {
		return err
	}
	who := "raw@" + strconv.Itoa(i)
	welcome, err := rawRegister(attach, who, i, nonce, attachment)
	if err != nil {
		return err
	}
	watch, err := pb.NewRegistryClient(cc).Watch(ctx)
	if err != nil {
		return err
	}
	if err := rawFollow(watch, who); err != nil {
		return err
	}
	late.Stop()
	back(welcome.GetRun())
	go func() { // ends with the connection
		for {
			if _, err := watch.Recv(); err != nil {
				cancel(err)
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rawBeat):
		}
		if err := attach.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{}}}); err != nil {
			return err
		}
	}
}

func rawRegister(s grpc.BidiStreamingClient[pb.AttachRequest, pb.AttachReply], who string, i int, nonce, attachment uint64) (*pb.Welcome, error) {
	_ = s.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: who}}}) // Recv says what failed
	_ = s.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Register{Register: &pb.Register{Record: &pb.Record{
		Service: serviceOf(i), Id: strconv.Itoa(i), Address: address(i), Status: pb.Status_STATUS_UP, Attachment: attachment,
		Incarnation: &pb.Incarnation{Nonce: nonce}}}}})
	var welcome *pb.Welcome
	for {
		m, err := s.Recv()
		switch {
		case err != nil:
			return nil, err
		case m.GetWelcome() != nil:
			welcome = m.GetWelcome()
		case m.GetRefused() != nil:
			return nil, errors.New(m.GetRefused().GetError().GetMessage())
		case m.GetRegistered() != nil && welcome != nil:
			return welcome, nil
		}
	}
}

func rawFollow(s grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchReply], who string) error {
	_ = s.Send(&pb.WatchRequest{Kind: &pb.WatchRequest_Hello{Hello: &pb.Hello{Caller: who}}}) // Recv says what failed
	_ = s.Send(&pb.WatchRequest{Kind: &pb.WatchRequest_Subscribe{Subscribe: &pb.Subscribe{Service: "orders"}}})
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		if m.GetView() != nil {
			return nil
		}
	}
}
