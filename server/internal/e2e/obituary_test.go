package e2e

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/stats"
)

// obituary notes when its caller has heard of the end of every connection to an address: from then on nothing is sent
// there. It is a stats handler of a gRPC channel, or the dialer of an http.Transport. When the sockets close says less,
// for who reads them may be kept waiting.
type obituary struct {
	of string

	mu    sync.Mutex
	open  int
	ended time.Time
}

type toWhom struct{}

func (*obituary) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (*obituary) HandleRPC(context.Context, stats.RPCStats)                       {}

func (o *obituary) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, toWhom{}, info.RemoteAddr.String())
}

func (o *obituary) HandleConn(ctx context.Context, s stats.ConnStats) {
	if ctx.Value(toWhom{}) != o.of {
		return
	}
	switch s.(type) {
	case *stats.ConnBegin:
		o.begin()
	case *stats.ConnEnd:
		o.end()
	}
}

func (o *obituary) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open++
}

func (o *obituary) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open--
	o.ended = time.Now()
}

// dial is for an http.Transport, which closes a connection once it has heard of its end, and has put it out of use by then.
func (o *obituary) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil || addr != o.of {
		return c, err
	}
	o.begin()
	return &noted{c, sync.OnceFunc(o.end)}, nil
}

// noted is a connection whose end is told.
type noted struct {
	net.Conn
	ended func()
}

func (c *noted) Close() error {
	c.ended()
	return c.Conn.Close()
}

// wait returns when the last connection ended; zero if there was none.
func (o *obituary) wait(t *testing.T) time.Time {
	t.Helper()
	for late := time.Now().Add(patience); ; runtime.Gosched() {
		o.mu.Lock()
		open, ended := o.open, o.ended
		o.mu.Unlock()
		if open == 0 {
			return ended
		}
		if time.Now().After(late) {
			t.Fatalf("a connection to %s still lives %v after its end", o.of, patience)
		}
	}
}
