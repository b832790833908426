package drain

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// websocket answers as a websocket server does, by hand, and hands the connection to serve.
func websocket(t *testing.T, serve func(*http.Request, net.Conn, *bufio.ReadWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			hello(w, r)
			return
		}
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
			base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n")
		rw.Flush()
		serve(r, nc, rw)
	}
}

// upgraded dials and is upgraded.
func (r *run) upgraded(path string) *peer {
	r.t.Helper()
	p := r.dial()
	io.WriteString(p, "GET "+path+" HTTP/1.1\r\nHost: orders\r\nEider-Caller: checkout@b2\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if resp := p.head(); resp.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatalf("no upgrade: %v", resp)
	}
	return p
}

// goingAway is a websocket's close frame 1001.
const goingAway = "\x88\x02\x03\xe9"

// D8: a hijacked connection is kept in the register, told, and ended by a word of its own protocol.
func TestD8HijackedConnectionSaysGoodbye(t *testing.T) {
	for _, early := range []bool{true, false} { // before the upgrade, or after it
		told := make(chan struct{})
		r := begin(t, func(w http.ResponseWriter, req *http.Request) {
			var nc net.Conn
			bye := func() { io.WriteString(nc, goingAway) }
			if early {
				Goodbye(req.Context(), bye)
			}
			websocket(t, func(req *http.Request, taken net.Conn, rw *bufio.ReadWriter) {
				defer taken.Close()
				nc = taken
				if !early {
					Goodbye(req.Context(), bye)
				}
				go func() { <-Started(req.Context()); close(told) }()
				rw.ReadByte() // the client's close frame: the end
			})(w, req)
		}, nil)
		p := r.upgraded("/ws")
		r.leave()
		soon(t, told, "the word of the leave")
		p.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if b, err := p.r.ReadByte(); err == nil {
			t.Errorf("before the barrier it says %q", b)
		}
		p.SetReadDeadline(time.Now().Add(patience))
		r.barrier()
		frame := make([]byte, len(goingAway))
		if _, err := io.ReadFull(p.r, frame); err != nil || string(frame) != goingAway {
			t.Fatalf("at the end it says %q, %v", frame, err)
		}
		io.WriteString(p, goingAway)
		p.closed()
		if rep := r.end(); rep.Exit != ExitClean || rep.CutCount != 0 || rep.UnansweredCount != 0 || rep.Took > 4*time.Second {
			t.Errorf("%+v", rep)
		}
	}
}

// D8, D9: one that doesn't end is closed after its budget, counted and named, and a request that runs meanwhile isn't.
func TestD8HijackedConnectionIsCutAfterItsBudget(t *testing.T) {
	h := newHeld()
	ended := make(chan error, 1)
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/held" {
			h.ServeHTTP(w, req)
			return
		}
		websocket(t, func(_ *http.Request, nc net.Conn, _ *bufio.ReadWriter) {
			go func() { // a library may let the handler return
				_, err := io.Copy(io.Discard, nc)
				ended <- err
				nc.Close()
			}()
		})(w, req)
	}, func(_ *http.Server, c *Config) { c.Streams = 100 * time.Millisecond })
	p, busy := r.upgraded("/ws?token=secret"), r.dial()
	busy.send("/held")
	soon(t, h.in, "the request")
	r.leave()
	r.barrier()
	p.closed()
	if err := soon(t, ended, "the end of the connection"); err == nil {
		t.Error("its handler thinks that the client has closed it")
	}
	close(h.release)
	if _, body := busy.answer(); body != "hello" {
		t.Errorf("the request gets %q", body)
	}
	rep := r.end()
	if rep.CutCount != 1 || !rep.Cut[0].Upgraded || !rep.Cut[0].Stream || rep.Cut[0].Path != "/ws" || rep.OverranCount != 0 || rep.UnansweredCount != 0 || rep.Exit != ExitLoss {
		t.Fatalf("%+v", rep)
	}
	if text := rep.String(); !strings.Contains(text, "    the upgraded GET /ws of checkout@b2 from 127.0.0.1:") || strings.Contains(text, "secret") {
		t.Errorf("the report says:\n%s", text)
	}
}

// The end of an upgraded connection is heard, however its handler has it: the drain doesn't wait for its budget.
func TestD8EndOfAHijackedConnectionIsHeard(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"as given":  func(nc net.Conn) { nc.Close() },
		"unwrapped": func(nc net.Conn) { nc.(interface{ NetConn() net.Conn }).NetConn().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, websocket(t, func(req *http.Request, nc net.Conn, _ *bufio.ReadWriter) {
				if name == "unwrapped" {
					nc.(interface{ NetConn() net.Conn }).NetConn() // before it is looked at
				}
				<-Ending(req.Context())
				end(nc)
			}), func(_ *http.Server, c *Config) { c.Streams = 5 * time.Second })
			p := r.upgraded("/ws")
			r.leave()
			r.barrier()
			p.closed()
			if rep := r.end(); rep.Exit != ExitClean || rep.Took > 4*time.Second {
				t.Errorf("%+v", rep)
			}
		})
	}
}

// A handler that unwraps its connection ends it unheard: the register forgets it all the same, long before a leave, and
// keeps the open ones.
func TestD8TheRegisterForgetsWhatEndsUnheard(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	d := newDrainer(settings{}, nil)
	take := func() net.Conn {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
		nc, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.book.admit(nc)
		if err != nil {
			t.Fatal(err)
		}
		c.running = &exchange{conn: c, ctx: t.Context()}
		d.book.take(c)
		return c.NetConn()
	}
	const open = 50
	for range open {
		defer take().Close()
	}
	for i := range 4 * askFrom {
		take().Close()
		if n := len(d.book.taken); n > 2*askFrom {
			t.Fatalf("after %d that have ended it has %d", i+1, n)
		}
	}
	if n := len(d.book.upgraded()); n != open {
		t.Errorf("it has %d that are open, want %d", n, open)
	}
}

// Upgraded connections hold nothing up before the barrier, and a drain with none of them doesn't look for them.
func TestD9StreamsDoNotHoldThePauseUp(t *testing.T) {
	r := begin(t, websocket(t, func(_ *http.Request, nc net.Conn, _ *bufio.ReadWriter) { io.Copy(io.Discard, nc) }),
		func(_ *http.Server, c *Config) { c.Streams = 50 * time.Millisecond })
	r.upgraded("/ws")
	r.leave()
	r.barrier()
	if rep := r.end(); rep.EndedBy != ByBarrier || rep.Pause > time.Second || rep.CutCount != 1 {
		t.Errorf("%+v", rep)
	}
}

// What is upgraded when the pause has ended is told at once, and has what is left of the budget.
func TestD8UpgradedAfterTheBarrier(t *testing.T) {
	h := newHeld()
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/held" {
			h.ServeHTTP(w, req)
			return
		}
		websocket(t, func(req *http.Request, nc net.Conn, rw *bufio.ReadWriter) {
			Goodbye(req.Context(), func() { io.WriteString(nc, goingAway) })
			io.Copy(io.Discard, nc)
		})(w, req)
	}, func(_ *http.Server, c *Config) { c.Silent, c.Streams = patience, 300*time.Millisecond })
	busy, late := r.dial(), r.dial()
	busy.send("/held")
	soon(t, h.in, "the request")
	r.leave()
	r.barrier()
	r.unlistened()
	io.WriteString(late, "GET /ws HTTP/1.1\r\nHost: orders\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if resp := late.head(); resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v", resp)
	}
	if rest, _ := io.ReadAll(late.r); string(rest) != goingAway {
		t.Errorf("it is told %q", rest)
	}
	close(h.release)
	busy.answer()
	if rep := r.end(); rep.CutCount != 1 || !rep.Cut[0].Upgraded {
		t.Errorf("%+v", rep)
	}
}

// A Goodbye that hangs holds nothing up for longer than the streams' budget.
func TestGoodbyeThatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	r := begin(t, websocket(t, func(req *http.Request, nc net.Conn, _ *bufio.ReadWriter) {
		Goodbye(req.Context(), func() { <-hang })
		io.Copy(io.Discard, nc)
	}), func(_ *http.Server, c *Config) { c.Streams = 50 * time.Millisecond })
	r.upgraded("/ws")
	r.leave()
	r.barrier()
	if rep := r.end(); rep.CutCount != 1 || rep.Took > 4*time.Second {
		t.Errorf("%+v", rep)
	}
}

// D9: what is a stream, and what isn't.
func TestD9WhatIsAStream(t *testing.T) {
	for path, stream := range map[string]bool{"/events": true, "/flushed": true, "/marked": true, "/length": false, "/slow": false} {
		t.Run(path, func(t *testing.T) {
			open, release := make(chan struct{}), make(chan struct{})
			r := begin(t, func(w http.ResponseWriter, req *http.Request) {
				io.Copy(io.Discard, req.Body) // only then net/http looks whether the connection ends
				switch req.URL.Path {
				case "/events":
					w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
					w.WriteHeader(http.StatusOK)
				case "/length":
					w.Header().Set("Content-Length", "5")
					http.NewResponseController(w).Flush()
				case "/flushed":
					http.NewResponseController(w).Flush()
				case "/marked":
					if !Stream(wrapped{w}) {
						t.Error("it isn't heeded")
					}
				}
				close(open)
				select {
				case <-req.Context().Done():
				case <-release:
					hello(w, req)
				}
			}, func(_ *http.Server, c *Config) { c.Streams = 50 * time.Millisecond })
			p := r.dial()
			p.send(path, mine()...)
			soon(t, open, "the request")
			want := eider.Work{Arrived: 1}
			if stream {
				want.Completed, want.Ended = 1, 1
			}
			r.counts("once it is open", want)
			r.leave()
			r.barrier()
			if !stream {
				r.unlistened()
				<-time.After(200 * time.Millisecond)
				close(release)
			}
			rep := r.end()
			if got := rep.CutCount == 1 && rep.Cut[0].Stream; got != stream || rep.OverranCount != 0 || (rep.Exit == ExitClean) == stream {
				t.Errorf("%+v", rep)
			}
		})
	}
	if Stream(mute{}) {
		t.Error("there is no drain behind this ResponseWriter")
	}
}

// wrapped is a ResponseWriter as a middleware puts it around another.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// An event stream ends when it is told that the pause is over, and nobody is cut.
func TestD9EventStreamEndsAtTheBarrier(t *testing.T) {
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-Ending(req.Context())
		io.WriteString(w, "event: bye\n\n")
	}, nil)
	p := r.dial()
	p.send("/events")
	resp := p.head()
	r.leave()
	r.barrier()
	if rest, err := io.ReadAll(resp.Body); string(rest) != "event: bye\n\n" || err != nil {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	if rep := r.end(); rep.Exit != ExitClean || rep.CutCount != 0 {
		t.Errorf("%+v", rep)
	}
}

func TestEndingAndGoodbyeOutsideADrain(t *testing.T) {
	if Ending(t.Context()) != nil {
		t.Error("there is no drain in this context")
	}
	Goodbye(t.Context(), func() { t.Error("nobody is there to say goodbye to") })
}

// D8: a peer that is gone is no unanswered request: what is written on an upgraded connection is its handler's matter.
func TestD8GonePeerIsNoLoss(t *testing.T) {
	r := begin(t, websocket(t, func(_ *http.Request, nc net.Conn, _ *bufio.ReadWriter) {
		defer nc.Close()
		io.Copy(io.Discard, nc)
		io.WriteString(nc, goingAway)
		if _, err := io.WriteString(nc, goingAway); err == nil {
			t.Error("the peer is there")
		}
	}), nil)
	p := r.upgraded("/ws")
	r.leave()
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
	r.barrier()
	if rep := r.end(); rep.Exit != ExitClean || rep.UnansweredCount != 0 {
		t.Errorf("%+v", rep)
	}
}
