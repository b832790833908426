package native

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

// script is a stream whose other side says what is written, then ends. Each message has two bytes of length.
type script struct {
	grpc.ServerStream
	t     *testing.T
	ctx   context.Context
	codec codec
	rest  []byte
}

func (s *script) Context() context.Context { return s.ctx }

func (s *script) RecvMsg(m any) error {
	if len(s.rest) < 2 {
		return io.EOF
	}
	n := min(int(binary.BigEndian.Uint16(s.rest)), len(s.rest)-2)
	body := s.rest[2 : 2+n]
	s.rest = s.rest[2+n:]
	return s.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(body)}, m)
}

func (s *script) SendMsg(m any) error {
	out, err := s.codec.Marshal(m)
	if err != nil {
		s.t.Errorf("an answer can't be encoded: %v", err)
	}
	if out.Len() > 64<<10 {
		s.t.Errorf("an answer has %d bytes", out.Len())
	}
	return nil
}

func scriptOf[M proto.Message](f *testing.F, ms ...M) []byte {
	var out []byte
	for _, m := range ms {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		out = binary.BigEndian.AppendUint16(out, uint16(len(b)))
		out = append(out, b...)
	}
	return out
}

// play runs a script against a front and holds the front to its promises.
func play(t *testing.T, said []byte, handle func(*Server, grpc.ServerStream) error) {
	f := &fake{postponed: map[string]time.Duration{}}
	srv := New(f, Config{Logger: slog.New(slog.DiscardHandler), Limits: Limits{Instances: 4, Subscriptions: 4, Register: Rate{1000, 3}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx, _ = tapStream(ctx, nil)
	handle(srv, &script{t: t, ctx: ctx, codec: newCodec(), rest: said})
	srv.receivers.Wait()
	for _, line := range f.broken {
		t.Error(line)
	}
	for i, s := range f.opened {
		if len(s.ended) != 1 {
			t.Errorf("stream %d of the replica was ended %d times", i, len(s.ended))
		}
	}
	if st := srv.Stats(); st.Streams != 0 {
		t.Errorf("%+v", st)
	}
	srv.Stop(t.Context())
}

func FuzzAttachStream(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 3, 0xff, 0xff, 0xff})
	f.Add(scriptOf(f, hello(), register("1"), register("2"), register("3"), register("4"), register("5"), beat(),
		&pb.AttachRequest{Kind: &pb.AttachRequest_SetStatus{SetStatus: &pb.SetStatus{Service: "orders", Id: "1", Status: pb.Status_STATUS_DOWN}}},
		&pb.AttachRequest{Kind: &pb.AttachRequest_Leave{Leave: &pb.Leave{Service: "orders", Id: "1"}}},
		&pb.AttachRequest{Kind: &pb.AttachRequest_Left{Left: &pb.Left{Service: "orders", Id: "1"}}},
		&pb.AttachRequest{Kind: &pb.AttachRequest_Moving{Moving: &pb.Moving{}}}))
	f.Add(scriptOf(f, hello(), &pb.AttachRequest{}))
	f.Add(append(scriptOf(f, hello(), register("\x01")), 0, 9, 1, 2, 3))
	f.Fuzz(func(t *testing.T, said []byte) {
		play(t, said, func(s *Server, rpc grpc.ServerStream) error {
			return s.Attach(&grpc.GenericServerStream[pb.AttachRequest, pb.AttachReply]{ServerStream: rpc})
		})
	})
}

func FuzzWatchStream(f *testing.F) {
	dep := []*pb.Departure{{Id: "1", Nonce: 9}, {Id: "no id", Nonce: 9}, {}}
	f.Add([]byte{0, 1, 0})
	f.Add(scriptOf(f, watchHello(false), subscribe("a"), subscribe("b"), subscribe("c"), subscribe("d"), subscribe("e"), subscribe("-"),
		&pb.WatchRequest{Kind: &pb.WatchRequest_Ack{Ack: &pb.Ack{Service: "a", Cursor: &pb.Cursor{Run: 1, Number: 2}, LetGo: dep, NoAlternative: dep}}},
		&pb.WatchRequest{Kind: &pb.WatchRequest_Doubt{Doubt: &pb.Doubt{Service: "a", Id: "1", Nonce: 9}}},
		&pb.WatchRequest{Kind: &pb.WatchRequest_Verdicts{Verdicts: &pb.Verdicts{Service: "a", Verdicts: []*pb.Verdict{{Id: "1", Nonce: 9, State: 2, Rule: 2, Count: 7, Of: 10, SinceMs: 5, RetryMs: 1000},
			{Id: "2", Nonce: 9, State: 99, Rule: -1}, {Id: "no id", Nonce: 9, State: 2}, {Id: "3", State: 2}, {}}}}},
		&pb.WatchRequest{Kind: &pb.WatchRequest_Unsubscribe{Unsubscribe: &pb.Unsubscribe{Service: "a"}}},
		&pb.WatchRequest{Kind: &pb.WatchRequest_Ping{Ping: &pb.Ping{Number: 1}}},
		&pb.WatchRequest{Kind: &pb.WatchRequest_Goodbye{Goodbye: &pb.Goodbye{}}}))
	f.Add(scriptOf(f, watchHello(true), subscribe("a"), &pb.WatchRequest{Kind: &pb.WatchRequest_Ack{Ack: &pb.Ack{Service: "a", LetGo: dep}}},
		&pb.WatchRequest{Kind: &pb.WatchRequest_Moving{Moving: &pb.Moving{}}}))
	f.Fuzz(func(t *testing.T, said []byte) {
		play(t, said, func(s *Server, rpc grpc.ServerStream) error {
			return s.Watch(&grpc.GenericServerStream[pb.WatchRequest, pb.WatchReply]{ServerStream: rpc})
		})
	})
}

// preface is what a client's connection begins with: the magic and empty settings.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// FuzzConnection throws bytes at a real listener, beside a client that must not notice.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		"", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n", preface,
		preface + "\x00\x00\x08\x06\x00\x00\x00\x00\x00" + "12345678",                 // a ping
		preface + "\x00\x00\x04\x01\x05\x00\x00\x00\x01" + "\x82\x84\x86\x41",         // headers that end too soon
		preface + "\xff\xff\xff\x00\x00\x00\x00\x00\x01",                              // a frame of 16 MiB
		preface + "\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00",         // a window of nothing
		preface + "\x00\x00\x04\x03\x00\x00\x00\x00\x07" + "\x00\x00\x00\x08",         // the reset of no stream
		preface + "\x00\x00\x05\x00\x00\x00\x00\x00\x01" + "\x00\xff\xff\xff\xff",     // data of no stream
		preface + "\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\xff\xff\xff\xff", // a window too large
	} {
		f.Add([]byte(seed))
	}
	addr, good := listening(f)
	f.Fuzz(func(t *testing.T, said []byte) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(said) // an error is an answer too
		c.(*net.TCPConn).CloseWrite()
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("the connection was left open: %v", err)
		}
		c.Close()
		tell(t, good.Send, beat())
		if m := hear(t, good.Recv); m.GetBeaten() == nil {
			t.Errorf("the good client heard %v", m)
		}
	})
}

// listening returns a real listener's address, and a client of it that is past its Hello.
func listening(f *testing.F) (string, attachClient) {
	srv := New(&fake{postponed: map[string]time.Duration{}}, Config{Logger: slog.New(slog.DiscardHandler)})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	cc, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.Cleanup(func() {
		cancel()
		cc.Close()
		stop, done := context.WithTimeout(context.Background(), 2*time.Second)
		defer done()
		srv.Stop(stop)
		<-served
	})
	good, err := pb.NewRegistryClient(cc).Attach(ctx)
	if err != nil {
		f.Fatal(err)
	}
	if err := good.Send(hello()); err != nil {
		f.Fatal(err)
	}
	if _, err := good.Recv(); err != nil {
		f.Fatal(err)
	}
	return lis.Addr().String(), good
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
