package registry

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
)

// incoming is one message of a node on Watch: a view, read as words at once, or anything else.
type incoming struct {
	known func(service []byte) *eider.View
	view  wire.View      // if reply is nil
	reply *pb.WatchReply // nil: a view
}

// watchStream is a Watch stream that reads views without the generated code between.
type watchStream struct {
	grpc.ClientStream
	in incoming
}

func (s *watchStream) Send(m *pb.WatchRequest) error { return s.SendMsg(m) }

func (s *watchStream) Recv() (*incoming, error) {
	s.in.reply = nil
	if err := s.RecvMsg(&s.in); err != nil {
		return nil, err
	}
	return &s.in, nil
}

// viewCodec is gRPC's own codec but for what comes in on Watch.
type viewCodec struct{}

func (viewCodec) Name() string { return proto.Name }

func (viewCodec) Marshal(v any) (mem.BufferSlice, error) { return standard().Marshal(v) }

func (viewCodec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return standard().Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if view, ok := wire.CutView(buf.ReadOnlyData()); ok {
		return in.view.Parse(view, in.known)
	}
	in.reply = new(pb.WatchReply)
	if err := standard().Unmarshal(data, in.reply); err != nil {
		return err
	}
	return in.flatten()
}

// flatten reads a view that came beside something else, as no encoder of ours sends it.
func (in *incoming) flatten() error {
	view := in.reply.GetView()
	if view == nil {
		return nil
	}
	encoded, err := standard().Marshal(view)
	if err != nil {
		return err
	}
	defer encoded.Free()
	in.reply = nil
	return in.view.Parse(encoded.Materialize(), in.known)
}

func standard() encoding.CodecV2 { return encoding.GetCodecV2(proto.Name) }
