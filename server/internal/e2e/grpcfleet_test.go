package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/eidergrpc"
	"github.com/eiderhq/eider/registry"
)

// till is a gRPC service without generated code: Pay is unary, Talk answers message by message.
type till struct {
	name  string
	takes time.Duration
	book  *ledgerOf
}

const (
	payMethod  = "/e2e.Till/Pay"
	talkMethod = "/e2e.Till/Talk"
)

var tillDesc = grpc.ServiceDesc{
	ServiceName: "e2e.Till", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Pay", Handler: func(srv any, ctx context.Context, dec func(any) error, inter grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		pay := func(context.Context, any) (any, error) { return srv.(*till).pay(in.Value), nil }
		if inter == nil {
			return pay(ctx, in)
		}
		return inter(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: payMethod}, pay)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Talk", ClientStreams: true, ServerStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error { return srv.(*till).talk(s) }}},
}

func (l *till) pay(id string) *wrapperspb.StringValue {
	l.book.mu.Lock()
	if l.book.runs == nil {
		l.book.runs = map[string]int{}
	}
	l.book.runs[id]++
	l.book.mu.Unlock()
	<-time.After(l.takes)
	return wrapperspb.String(l.name)
}

// talk answers each message, and ends as it should: after an answer, once it has been told of a leave.
func (l *till) talk(s grpc.ServerStream) error {
	for {
		in := new(wrapperspb.StringValue)
		if err := s.RecvMsg(in); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.SendMsg(l.pay(in.Value)); err != nil {
			return err
		}
		select {
		case <-drain.Started(s.Context()):
			return nil
		default:
		}
	}
}

// startTill starts an instance that serves gRPC, and waits until it is listed.
func startTill(t *testing.T, node, id string, l *till, options ...func(*drain.Config)) *instance {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{t: t, id: id, addr: ln.Addr().String(), listed: make(chan struct{}), ended: make(chan struct{})}
	reg := registry.Open(registry.Config{Addr: node, Caller: "till-" + id, Logger: quiet})
	ctx, leave := context.WithCancel(context.Background())
	in.leave = leave
	var once sync.Once
	cfg := drain.Config{Registry: reg, Service: "till", ID: id, Listener: ln, Logger: quiet,
		Listed: func(s registry.State) {
			if s.Listed {
				once.Do(func() { close(in.listed) })
			}
		}}
	for _, o := range options {
		o(&cfg)
	}
	srv := eidergrpc.NewServer()
	srv.RegisterService(&tillDesc, l)
	go func() {
		defer close(in.ended)
		in.report, in.err = eidergrpc.Serve(ctx, srv, cfg)
		reg.Close()
	}()
	t.Cleanup(func() { in.finish() })
	in.await("listing", in.listed)
	return in
}

// payers is closed loops of gRPC calls, each a caller of its own.
type payers struct {
	t       *testing.T
	callers []*payer
	stop    context.CancelFunc
	wg      sync.WaitGroup
	calls   atomic.Int64

	mu       sync.Mutex
	failures []failure
	by       map[string]int64
	progress chan struct{} // closed and replaced at each answer
}

// payer is one calling process.
type payer struct {
	reg *registry.Registry // nil: it knows nothing of Eider
	cc  *grpc.ClientConn
}

func (c *payer) close() {
	c.cc.Close()
	if c.reg != nil {
		c.reg.Close()
	}
}

func newPayer(t *testing.T, node, name string, cfg eidergrpc.Config) *payer {
	t.Helper()
	reg := registry.Open(registry.Config{Addr: node, Caller: name, Logger: quiet})
	cc, err := cfg.NewClient("eider:///till", reg, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	c := &payer{reg, cc}
	t.Cleanup(c.close)
	return c
}

// pay makes one call and returns who answered.
func (c *payer) pay(ctx context.Context, id string) (string, error) {
	out := new(wrapperspb.StringValue)
	err := c.cc.Invoke(ctx, payMethod, wrapperspb.String(id), out)
	return out.Value, err
}

// talk makes one stream of some messages; each answer is told. The instance may end it after any answer.
func (c *payer) talk(ctx context.Context, id string, answered func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.cc.NewStream(ctx, &tillDesc.Streams[0], talkMethod)
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	for k := range 10 {
		if err := s.SendMsg(wrapperspb.String(fmt.Sprint(id, ".", k))); err != nil && err != io.EOF {
			return fmt.Errorf("sending %d: %w", k, err)
		}
		out := new(wrapperspb.StringValue)
		if err := s.RecvMsg(out); errors.Is(err, io.EOF) && k > 0 {
			return nil // it was told to end, and did so between two messages
		} else if err != nil {
			return fmt.Errorf("answer %d: %w", k, err)
		}
		answered(out.Value)
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if err := s.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the end: %w", err)
	}
	return nil
}

// startPayers starts loops over what newCaller returns, and waits until each has had an answer.
func startPayers(t *testing.T, n int, newCaller func(i int) *payer, streams bool) *payers {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &payers{t: t, stop: stop, by: map[string]int64{}, progress: make(chan struct{})}
	var first sync.WaitGroup
	for i := range n {
		c := newCaller(i)
		l.callers = append(l.callers, c)
		first.Add(1)
		l.wg.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				l.once(c, fmt.Sprintf("%d-%d", i, k), streams)
				if k == 0 {
					first.Done()
				}
				select {
				case <-time.After(rand.N(10 * time.Millisecond)):
				case <-ctx.Done():
				}
			}
		})
	}
	first.Wait()
	return l
}

func (l *payers) once(c *payer, id string, stream bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	var err error
	if stream {
		err = c.talk(ctx, id, l.answered)
	} else {
		var who string
		if who, err = c.pay(ctx, id); err == nil {
			l.answered(who)
		}
	}
	l.calls.Add(1)
	if err != nil {
		l.mu.Lock()
		l.failures = append(l.failures, failure{id, err, began})
		l.mu.Unlock()
	}
}

func (l *payers) answered(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[who]++
	close(l.progress)
	l.progress = make(chan struct{})
}

// more waits for so many more answers of an instance.
func (l *payers) more(who string, n int64) {
	l.t.Helper()
	l.mu.Lock()
	from := l.by[who]
	l.mu.Unlock()
	late := time.After(patience)
	for {
		l.mu.Lock()
		done, next := l.by[who] >= from+n, l.progress
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-next:
		case <-late:
			l.t.Fatalf("no %d more answers of %s within %v", n, who, patience)
		}
	}
}

// rest stops the loops; the callers stay callers.
func (l *payers) rest() {
	l.stop()
	l.wg.Wait()
}

// end stops the loops, says goodbye, and tells what failed.
func (l *payers) end(book *ledgerOf) {
	l.t.Helper()
	l.rest()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures[:min(5, len(l.failures))] {
		l.t.Errorf("failed: %s: %v", f.id, f.err)
	}
	if n := len(l.failures); n > 0 {
		l.t.Errorf("%d of %d calls failed", n, l.calls.Load())
	}
	if twice := book.twice(); len(twice) > 0 {
		l.t.Errorf("%d calls were worked on more than once: %.5v", len(twice), twice)
	}
	for _, c := range l.callers {
		c.close()
	}
}

func checkHealth(t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	r, err := grpc_health_v1.NewHealthClient(cc).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", r, err)
	}
}
