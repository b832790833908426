// Package fake is a registry's node that says what a test wants, for the rooms that call by a node's word: the handle
// on it is a real one. Only tests import it.
package fake

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/registry"
)

// Patience is how long a test waits for what must come.
const Patience = 20 * time.Second

// Node is the node's side of Watch. Its methods may be called from any goroutine.
type Node struct {
	pb.UnimplementedRegistryServer
	Handle *registry.Registry // on this node, closed when the test ends
	t      testing.TB
	trials chan *pb.WatchReply // to be sent

	mu      sync.Mutex
	number  uint64
	views   map[string][]eider.Instance
	changed chan struct{} // closed and replaced at each change
	heard   Heard
	told    chan struct{} // closed and replaced at each word of the caller
}

// Heard is what the caller has told, in order.
type Heard struct {
	Acks     []*pb.Ack
	Doubts   []*pb.Doubt
	Verdicts []*pb.Verdicts
}

// New serves a node that knows nobody on loopback until the test ends, and opens a handle on it: the address and the
// caller's name "test" are set.
func New(t testing.TB, cfg registry.Config) *Node {
	n := &Node{t: t, views: map[string][]eider.Instance{}, changed: make(chan struct{}), told: make(chan struct{}), trials: make(chan *pb.WatchReply)}
	l := Listen(t)
	srv := grpc.NewServer()
	pb.RegisterRegistryServer(srv, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	cfg.Addr, cfg.Caller = l.Addr().String(), "test"
	n.Handle = registry.Open(cfg)
	t.Cleanup(func() {
		n.Handle.Close()
		srv.Stop()
		<-done
	})
	return n
}

// Set replaces the view of a service.
func (n *Node) Set(service string, all ...eider.Instance) { n.set(service, all) }

func (n *Node) set(service string, all []eider.Instance) (number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	n.views[service] = all
	close(n.changed)
	n.changed = make(chan struct{})
	return n.number
}

// Apply replaces the view of a service, and returns once this caller's pickers have switched to it.
func (n *Node) Apply(service string, all ...eider.Instance) {
	n.t.Helper()
	number := n.set(service, all)
	n.Await("an acknowledgement of the new view", func(h *Heard) bool {
		for _, a := range h.Acks {
			if a.GetService() == service && a.GetCursor().GetNumber() >= number {
				return true
			}
		}
		return false
	})
}

// Ask has the caller asked for a trial of an instance. It returns when that is on its way.
func (n *Node) Ask(in eider.Instance) {
	n.trials <- &pb.WatchReply{Kind: &pb.WatchReply_Trial{Trial: &pb.Trial{Service: in.Service, Id: in.ID, Nonce: in.Incarnation.Nonce}}}
}

// Await waits until a condition on what was heard holds; what names it, should it never come.
func (n *Node) Await(what string, ok func(*Heard) bool) {
	n.t.Helper()
	late := time.After(Patience)
	for {
		n.mu.Lock()
		done, next := ok(&n.heard), n.told
		n.mu.Unlock()
		if done {
			return
		}
		select {
		case <-next:
		case <-late:
			n.t.Fatalf("no %s within %v", what, Patience)
		}
	}
}

// LetGo is for Await: the caller has acknowledged that it has let go of an instance.
func LetGo(id string) func(*Heard) bool {
	return func(h *Heard) bool {
		for _, a := range h.Acks {
			for _, d := range a.GetLetGo() {
				if d.GetId() == id {
					return true
				}
			}
		}
		return false
	}
}

// Watch is the stream of the protocol.
func (n *Node) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&pb.WatchReply{Kind: &pb.WatchReply_Welcome{Welcome: &pb.Welcome{Run: 7, Node: "test", BeatMs: 2000, Verdicts: true}}}); err != nil {
		return err
	}
	ctx, asked := stream.Context(), listenTo(stream)
	sent := map[string]uint64{}
	for ctx.Err() == nil {
		out, changed := n.news(sent)
		for _, m := range out {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case m := <-n.trials:
			stream.Send(m) // an error is the end of the stream, hence of its context
		case m, ok := <-asked:
			if !ok || m.GetGoodbye() != nil {
				return nil
			}
			if s := m.GetSubscribe(); s != nil {
				sent[s.GetService()] = ^uint64(0)
			}
			if p := m.GetPing(); p != nil {
				stream.Send(&pb.WatchReply{Kind: &pb.WatchReply_Pong{Pong: p}})
			}
			n.hear(m)
		}
	}
	return ctx.Err()
}

// listenTo receives until the stream has ended, which closes the channel.
func listenTo(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchReply]) <-chan *pb.WatchRequest {
	asked := make(chan *pb.WatchRequest)
	go func() {
		defer close(asked)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case asked <- m:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	return asked
}

// news returns the views that are newer than what was sent, and what is closed at the next change.
func (n *Node) news(sent map[string]uint64) (out []*pb.WatchReply, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for service, at := range sent {
		if at != n.number {
			out = append(out, n.snapshot(service))
			sent[service] = n.number
		}
	}
	return out, n.changed
}

func (n *Node) hear(m *pb.WatchRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := m.GetAck(); a != nil {
		n.heard.Acks = append(n.heard.Acks, a)
	}
	if d := m.GetDoubt(); d != nil {
		n.heard.Doubts = append(n.heard.Doubts, d)
	}
	if v := m.GetVerdicts(); v != nil {
		n.heard.Verdicts = append(n.heard.Verdicts, v)
	}
	close(n.told)
	n.told = make(chan struct{})
}

func (n *Node) snapshot(service string) *pb.WatchReply {
	v := &pb.View{Service: service, Cursor: &pb.Cursor{Run: 7, Number: max(n.number, 1)}, Complete: true}
	for i := range n.views[service] {
		in := &n.views[service][i]
		if in.Status.Gone() {
			v.Gone = append(v.Gone, &pb.Gone{Id: in.ID, Incarnation: wire.FromIncarnation(in.Incarnation), Attachment: 1, Version: 9, Status: wire.FromStatus(in.Status)})
			continue
		}
		v.Instances = append(v.Instances, wire.FromInstance(in))
	}
	return &pb.WatchReply{Kind: &pb.WatchReply_View{View: v}}
}
