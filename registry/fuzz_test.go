package registry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

// hostile is a node that answers every stream with the same frames, whatever they are, and then hangs.
type hostile struct {
	pb.UnimplementedRegistryServer
	frames [][]byte
}

func (h *hostile) Attach(s grpc.BidiStreamingServer[pb.AttachRequest, pb.AttachReply]) error {
	return h.play(s)
}

func (h *hostile) Watch(s grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	return h.play(s)
}

func (h *hostile) play(s grpc.ServerStream) error {
	for _, f := range h.frames {
		if err := s.SendMsg(&rawBytes{f}); err != nil {
			return err
		}
	}
	<-s.Context().Done()
	return nil
}

// split cuts fuzz data into frames: a byte of length, then that many bytes.
func split(data []byte) (frames [][]byte) {
	for len(data) > 0 && len(frames) < 32 {
		n := min(int(data[0]), len(data)-1)
		frames = append(frames, data[1:1+n])
		data = data[1+n:]
	}
	return frames
}

func joinFrames(t testing.TB, replies ...proto.Message) (data []byte) {
	for _, m := range replies {
		b, err := proto.Marshal(m)
		if err != nil || len(b) > 255 {
			t.Fatal("a seed doesn't fit", err)
		}
		data = append(append(data, byte(len(b))), b...)
	}
	return data
}

// survive opens a handle on a hostile node, uses all of it for a while, and expects that it ends in time.
func survive(t *testing.T, data []byte) {
	synctest.Test(t, func(t *testing.T) {
		lis, srv := bufconn.Listen(64<<10), grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}))
		pb.RegisterRegistryServer(srv, &hostile{frames: split(data)})
		go srv.Serve(lis)
		defer srv.Stop()
		dials := 0
		reg := Open(Config{Addr: "node:1", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Dial: func(ctx context.Context, _ string) (net.Conn, error) {
				dials++
				return lis.DialContext(ctx)
			}})
		l, err := reg.Register(orders)
		if err != nil {
			t.Fatal(err)
		}
		s, err := reg.Follow("orders")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		views := 0
		for views < 1000 {
			u, err := s.Next(ctx)
			if err != nil {
				break
			}
			views++
			if u.View != nil {
				s.Ack(u.View.Cursor, nil, nil)
			}
		}
		if dials > 200 || views > 500 {
			t.Errorf("%d dials and %d news in a minute: it spins", dials, views)
		}
		left, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := l.Left(left); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Left = %v", err)
		}
		_ = l.State().String()
		begin := time.Now()
		reg.Close()
		if took := time.Since(begin); took > farewell {
			t.Errorf("Close took %s", took)
		}
	})
}

func FuzzWatchReplies(f *testing.F) {
	welcome := &pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 1, BeatMs: 1, LeaseMs: 1}}}
	f.Add(joinFrames(f, welcome, viewOf(1, 1, 0, "a", "b"), viewOf(1, 2, 1, "c")))
	f.Add(joinFrames(f, welcome, viewOf(1, 5, 4, "a"), viewOf(1, 5, 4, "a")))
	f.Add(joinFrames(f, welcome, welcome, &pb.WatchReply{}, &pb.WatchReply{Kind: &pb.WatchReply_Pong{Pong: &pb.Ping{Number: 7}}}))
	f.Add(joinFrames(f, welcome, &pb.WatchReply{Kind: &pb.WatchReply_Problem{Problem: &pb.Problem{Service: "orders"}}}))
	f.Add(joinFrames(f, welcome, &pb.WatchReply{Kind: &pb.WatchReply_End{End: &pb.End{Reattach: true}}}))
	f.Add(joinFrames(f, &pb.WatchReply{Kind: &pb.WatchReply_View{View: &pb.View{}}}))
	f.Add([]byte("\x03\xff\xff\xff"))
	f.Fuzz(survive)
}

func FuzzAttachReplies(f *testing.F) {
	welcome := &pb.AttachReply{Kind: &pb.AttachReply_Welcome{Welcome: &pb.Welcome{Run: 1, BeatMs: 2000}}}
	me := &pb.Register{Record: &pb.Record{Service: "orders", Id: "1", Attachment: 1}}
	f.Add(joinFrames(f, welcome, grant(me, 1), progress(true, 0), leftReply()))
	f.Add(joinFrames(f, welcome, refusal(me, 3, 0), grant(me, 1), refusal(me, 4, 0)))
	f.Add(joinFrames(f, welcome, leftReply(), &pb.AttachReply{}, &pb.AttachReply{Kind: &pb.AttachReply_Bound{Bound: &pb.Bound{Service: "orders", Id: "1"}}}))
	f.Add(joinFrames(f, welcome, &pb.AttachReply{Kind: &pb.AttachReply_Refused{Refused: &pb.Refused{Service: "orders", Id: "1"}}}))
	f.Add(joinFrames(f, welcome, &pb.AttachReply{Kind: &pb.AttachReply_End{End: &pb.End{}}}))
	f.Add([]byte("\x03\xff\xff\xff"))
	f.Fuzz(survive)
}
