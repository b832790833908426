package eidergrpc

import (
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/eiderhq/eider/internal/fake"
)

type deadConn = net.Conn

func contains(s, part string) bool { return strings.Contains(s, part) }

// frames is a server that speaks HTTP/2 by hand: what it does to a stream is the test's.
type frames struct {
	conn   net.Conn
	framer *http2.Framer
	stream uint32
}

// newFrames starts one; do is called at each request.
func newFrames(t testing.TB, do func(*frames)) (addr string) {
	return newFramesAt(t, do, func(*frames) {})
}

// newFramesAt starts one that tells the header of a request from its message.
func newFramesAt(t testing.TB, do, message func(*frames)) (addr string) {
	l := fake.Script(t, func(_ int, c net.Conn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		f := &frames{conn: c, framer: http2.NewFramer(c, c)}
		f.framer.WriteSettings()
		for {
			frame, err := f.framer.ReadFrame()
			if err != nil {
				return
			}
			switch fr := frame.(type) {
			case *http2.SettingsFrame:
				if !fr.IsAck() {
					f.framer.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				f.stream = fr.StreamID
				do(f)
			case *http2.DataFrame:
				message(f)
			}
		}
	})
	return l.Addr().String()
}

// newRefusing starts one that refuses streams once their message is there. Of a stream that a write finds ended gRPC
// doesn't say that it was refused, and repeats it as it does one that a GOAWAY ended, which costs nothing.
func newRefusing(t testing.TB) (addr string) {
	return newFramesAt(t, func(*frames) {}, (*frames).refuse)
}

func (f *frames) refuse() { f.framer.WriteRSTStream(f.stream, http2.ErrCodeRefusedStream) }

// goAway says that the stream wasn't processed.
func (f *frames) goAway() { f.framer.WriteGoAway(0, http2.ErrCodeNo, nil) }

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
