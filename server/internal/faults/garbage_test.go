//go:build linux

package faults

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/server/internal/node"
)

// rude is one connection's worth of bytes that nobody should send.
type rude struct {
	name string
	text []byte
	cut  bool // the connection is cut after it, as by a reset, instead of waiting for the node's answer
}

// h2 writes HTTP/2 as a client would begin, then what is asked for.
func h2(write func(f *http2.Framer, raw *bytes.Buffer)) []byte {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	f.WriteSettings()
	write(f, &b)
	return b.Bytes()
}

// call opens a stream of a method, and writes raw bytes as its data.
func call(method string, data []byte) []byte {
	return h2(func(f *http2.Framer, raw *bytes.Buffer) {
		open(f, 1, method)
		for len(data) > 0 {
			n := min(len(data), 16<<10)
			f.WriteData(1, false, data[:n])
			data = data[n:]
		}
	})
}

func open(f *http2.Framer, id uint32, method string) {
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/eider.v1.Registry/" + method}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true})
}

// message frames bytes as gRPC does, claiming to be as long as said.
func message(claim uint32, body []byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte{0}, claim)
	return append(out, body...)
}

func encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return message(uint32(len(b)), b)
}

func noiseOf(rnd *rand.Rand) []byte {
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	return noise
}

// rudeRPC are faults on the port of the native protocol.
func rudeRPC(rnd *rand.Rand) []rude {
	noise := noiseOf(rnd)
	hello := encoded(&pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: "rude"}}})
	whole := call("Attach", hello)
	list := []rude{
		{"noise", noise, false},
		{"HTTP/1 on the gRPC port", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false},
		{"TLS on the gRPC port", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + string(noise[:500])), false},
		{"half a preface", []byte(http2.ClientPreface[:10]), true},
		{"half a preface, and nothing more", []byte(http2.ClientPreface[:10]), false},
		{"a preface, and nothing more", []byte(http2.ClientPreface), false},
		{"noise after the preface", append([]byte(http2.ClientPreface), noise...), false},
		{"a frame of 16 MiB", h2(func(_ *http2.Framer, raw *bytes.Buffer) {
			raw.Write([]byte("\xff\xff\xff\x00\x00\x00\x00\x00\x01"))
			raw.Write(noise)
		}), false},
		{"data on no stream", h2(func(f *http2.Framer, _ *bytes.Buffer) {
			f.WriteData(0, true, noise[:9])
			f.WriteData(77, true, noise[:9])
		}), false},
		{"broken header compression", h2(func(f *http2.Framer, _ *bytes.Buffer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: noise[:200], EndHeaders: true})
		}), false},
		{"an endless header", h2(func(f *http2.Framer, _ *bytes.Buffer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: noise[:200]})
			for range 60 {
				f.WriteContinuation(1, false, bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 2000))
			}
		}), false},
		{"a window beyond its bound", h2(func(f *http2.Framer, _ *bytes.Buffer) {
			f.WriteWindowUpdate(0, 1<<31-1)
			f.WriteWindowUpdate(0, 1<<31-1)
		}), false},
		{"streams opened and reset without end", h2(func(f *http2.Framer, _ *bytes.Buffer) {
			for id := uint32(1); id < 4000; id += 2 {
				open(f, id, "Attach")
				f.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		}), false},
		{"a method that nobody knows", call("Nonsense", hello), true},
		{"a message of 4 GiB", call("Attach", message(1<<32-1, noise)), false},
		{"a message beyond the limit", call("Watch", message(8<<20, bytes.Repeat(noise, 200))), false},
		{"a compressed message that isn't", call("Watch", append([]byte{1, 0, 0, 0, 50}, noise[:50]...)), false},
		{"protobuf that isn't", call("Watch", message(200, noise[:200])), false},
		{"a wrong first message", call("Attach", encoded(&pb.AttachRequest{Kind: &pb.AttachRequest_Beat{Beat: &pb.Beat{}}})), false},
		{"Hello of 300 KiB", call("Attach", encoded(&pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: strings.Repeat("x", 300<<10)}}})), false},
		{"noise after a good Hello", call("Attach", append(bytes.Clone(hello), message(900, noise[:900])...)), false},
	}
	for range 40 { // truncated anywhere, and with a few bytes changed anywhere
		n := rnd.IntN(len(whole))
		list = append(list, rude{fmt.Sprintf("%d of %d bytes", n, len(whole)), whole[:n], true})
		bent := bytes.Clone(whole)
		for range 1 + rnd.IntN(4) {
			bent[len(http2.ClientPreface)+rnd.IntN(len(bent)-len(http2.ClientPreface))] = byte(rnd.Uint32())
		}
		list = append(list, rude{"bent bytes", bent, rnd.IntN(2) == 0})
	}
	return list
}

// rudeHTTP are faults on the port of pages and JSON.
func rudeHTTP(rnd *rand.Rand) []rude {
	noise := noiseOf(rnd)
	list := []rude{
		{"noise", noise, false},
		{"a preface of HTTP/2", []byte(http2.ClientPreface), false},
		{"a header of 1 MiB", []byte("GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), false},
		{"a path of 100 KiB", []byte("GET /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n"), false},
		{"a hundred thousand headers", []byte("GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 100_000) + "\r\n"), false},
		{"a body of a negative length", []byte("POST /v1/services HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"), false},
		{"a broken chunk", []byte("POST /v1/services HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), false},
		{"an endless body", []byte("POST /v1/services HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" + strings.Repeat("x", 1<<20)), true},
		{"a request cut in two", []byte("GET /v1/services HTTP/1.1\r\nHo"), true},
		{"a request that never goes on", []byte("GET /v1/services HTTP/1.1\r\nHo"), false},
		{"dots", []byte("GET /v1/services/../../../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), false},
		{"a broken escape", []byte("GET /v1/services/%zz%00?limit=%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), false},
		{"a limit beyond all bounds", []byte("GET /v1/services?limit=99999999999999999999 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), false},
		{"a wait beyond all bounds", []byte("GET /v1/services/orders?wait=999999h HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n"), false},
		{"pipelined", bytes.Repeat([]byte("GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n"), 500), true},
	}
	for range 40 {
		good := []byte("GET /v1/services/orders?wait=1s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		for range 1 + rnd.IntN(4) {
			good[rnd.IntN(len(good))] = byte(rnd.Uint32())
		}
		list = append(list, rude{"bent bytes", good, rnd.IntN(2) == 0})
	}
	return list
}

// send sends the bytes of a rude connection, and demands that the node lets go of it. With keep, which HTTP/1 does
// with connections, an answer is as good.
func (r rude) send(t *testing.T, addr string, keep bool) {
	patient := 20 * time.Second
	if keep {
		patient = 8 * time.Second
	}
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Errorf("%s: %v", r.name, err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patient))
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.Write(r.text) // it may be cut off: that is an answer too
	}()
	if r.cut {
		<-written
		c.(*net.TCPConn).SetLinger(0)
		return
	}
	got, err := io.Copy(io.Discard, c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() && !(keep && got > 0) {
		t.Errorf("%s: after %d bytes the node still holds the connection", r.name, got)
	}
	c.Close()
	<-written
}

// Noise, truncated, bent and oversized frames come in on both ports, many at a time. The node lets go of each
// within its timeouts, and meanwhile serves everybody else: nobody loses a stream, a call or a lease, and in the
// end nothing is left of it all.
func TestGarbageAtTheRealPortsHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := startNode(t, node.Settings{Fresh: true})
	start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	ld := startLoad(t, s.grpc, "orders", 3)
	before := s.events()
	var sending sync.WaitGroup
	turn := make(chan struct{}, 96)
	for addr, list := range map[string][]rude{s.grpc: rudeRPC(rand.New(rand.NewPCG(seed, 1))), s.http: rudeHTTP(rand.New(rand.NewPCG(seed, 2)))} {
		for _, r := range list {
			sending.Go(func() {
				turn <- struct{}{}
				defer func() { <-turn }()
				r.send(t, addr, addr == s.http)
			})
		}
	}
	sent := make(chan struct{})
	go func() { defer close(sent); sending.Wait() }()
	slowest := time.Duration(0)
	for over := false; !over; {
		select {
		case <-sent:
			over = true
		case <-time.After(20 * time.Millisecond):
		}
		began := time.Now()
		v := s.view("orders")
		slowest = max(slowest, time.Since(began))
		for i := range v.Instances {
			if in := &v.Instances[i]; in.Status != eider.Up || in.Attachment != 1 {
				t.Fatalf("a good instance suffered: %+v", in)
			}
		}
	}
	ld.each(10)
	start(t, s, "orders", "c") // newcomers come in
	eventually(t, "answer of c", func() bool { return ld.sum().By["c"] > 3 })
	ld.rest()
	ld.sum().flawless(t, "orders")
	for _, e := range s.events()[len(before):] {
		if e.Kind != eider.EventRegistered && e.Kind != eider.EventCallerJoined || e.ID != "c" && e.ID != "" {
			t.Errorf("garbage made news: %v", e)
		}
	}
	eventually(t, "end of all that", func() bool {
		return s.metric("eider_native_streams") == 2*3 && s.metric("eider_native_connections") == 2*3
	})
	t.Logf("the slowest good answer took %v", slowest.Round(time.Millisecond))
}
