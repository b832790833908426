package native

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
)

// raw is a message that is encoded already. Its bytes are shared with other streams and never written to.
type raw []byte

// incoming is a message to be read. What can't be decoded is the sender's fault, and is kept here
// instead of ending the stream in the transport, so that the stream can say so in its own words.
type incoming struct {
	msg protobuf.Message
	err error
}

// codec sends raw messages as they are, without copy, and leaves every other one to protobuf.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*raw); ok {
		return mem.BufferSlice{mem.SliceBuffer(*r)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if err := c.CodecV2.Unmarshal(data, in.msg); err != nil {
		in.err = eider.Errorf(eider.Invalid, "", "a message can't be decoded (%w); speak the protocol of api/eider/v1", err)
	}
	return nil
}
