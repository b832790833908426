package registrytest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
	"github.com/eiderhq/eider/internal/wire"
	"github.com/eiderhq/eider/server/internal/replica"
)

// process serves instances: it attaches and beats until it is silenced.
type process struct {
	w      *world
	name   string
	rec    eider.Record
	secret [16]byte // as last granted

	mu    sync.Mutex // the methods of an attachment are called one at a time
	at    replica.Attachment
	quiet chan struct{} // nil while silent
	beats sync.WaitGroup

	done    eider.Work    // told with the next beat
	told    eider.Work    // … as long as it differs from this
	unknown time.Duration // asked for with the leave
}

// serve registers an instance that is UP on a process of its own, with an address that accepts.
func (w *world) serve(service, id string) *process {
	w.Helper()
	p := w.process("process-of-" + id)
	p.rec = record(service, id, uint64(len(w.procs)))
	w.port(p.rec.Address, true)
	p.register()
	w.pass(moment)
	return p
}

// record returns a registration of the n-th process.
func record(service, id string, n uint64) eider.Record {
	return eider.Record{
		Key: eider.Key{Service: service, ID: id}, Incarnation: eider.Incarnation{Nonce: 1000 + n}, Attachment: 1,
		Status: eider.Up, Address: fmt.Sprintf("127.0.0.1:%d", 7000+n), Zone: "z", Metadata: map[string]string{"k": "v"},
	}
}

// process attaches without an instance.
func (w *world) process(name string) *process {
	w.Helper()
	p := &process{w: w, name: name}
	w.procs = append(w.procs, p)
	p.attach()
	p.speak()
	return p
}

func loopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

func (p *process) attach() {
	p.w.Helper()
	at, err := p.w.reg.Attach(replica.Peer{Caller: p.name, Addr: loopback()})
	p.w.must(err)
	p.at = at
}

// register lists the process' record and keeps what was granted.
func (p *process) register() replica.Grant {
	p.w.Helper()
	g, err := p.tryRegister(p.rec)
	p.w.must(err)
	p.rec, p.secret = g.Record, g.Secret
	return g
}

func (p *process) tryRegister(rec eider.Record) (replica.Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at.Register(rec, 0, p.secret)
}

// again opens a new stream, as after the end of the old one, and attaches the instance anew.
func (p *process) again() replica.Grant {
	p.w.Helper()
	p.mu.Lock()
	p.attach()
	p.mu.Unlock()
	p.rec.Attachment++
	p.rec.Version = 0
	return p.register()
}

// speak begins to beat, silence stops it.
func (p *process) speak() {
	if p.quiet != nil {
		return
	}
	quiet := make(chan struct{})
	p.quiet = quiet
	p.beats.Go(func() {
		for {
			p.beat()
			select {
			case <-time.After(beat):
			case <-quiet:
				return
			}
		}
	})
}

// beat tells what has been done only if that has changed, as a process does.
func (p *process) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == p.told {
		p.at.Beat()
		return
	}
	p.told = p.done
	p.at.Beat(replica.Work{Key: p.rec.Key, Done: p.done})
}

// works changes what the instance has done.
func (p *process) works(change func(*eider.Work)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.done)
}

func (p *process) silence() {
	if p.quiet != nil {
		close(p.quiet)
		p.quiet = nil
		p.beats.Wait()
	}
}

func (p *process) end(how replica.Ending) {
	p.mu.Lock()
	p.at.End(how)
	p.mu.Unlock()
}

// die ends the process as a kill does: its port refuses, its stream is lost.
func (p *process) die() {
	p.silence()
	p.w.port(p.rec.Address, false)
	p.end(replica.Lost)
}

func (p *process) leave() {
	p.w.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w.must(p.at.Leave(p.rec.Key, p.unknown))
}

func (p *process) left() {
	p.w.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w.must(p.at.Left(p.rec.Key))
}

// notices returns what the process is told by now.
func (p *process) notices() []replica.Notice {
	p.w.Helper()
	var out []replica.Notice
	for {
		n, err := p.next(moment)
		if errors.Is(err, context.DeadlineExceeded) {
			return out
		}
		p.w.must(err)
		out = append(out, n)
	}
}

func (p *process) next(within time.Duration) (replica.Notice, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.at.Next(ctx)
}

// drained waits for the notice of the barrier and returns how long it took, and the drain.
func (p *process) drained(within time.Duration) (time.Duration, eider.Drain) {
	p.w.Helper()
	start := time.Now()
	for {
		n, err := p.next(within - time.Since(start))
		if err != nil {
			p.w.Fatalf("no barrier after %s: %v; the drain is %+v", time.Since(start), err, p.w.reg.Drains(p.rec.Service))
		}
		if n.Drain.Reached {
			return time.Since(start), n.Drain
		}
	}
}

// client follows services as a process does, but reads only when told: a slow reader if one likes.
type client struct {
	replica.Watcher
	w         *world
	name      string
	views     map[string]*eider.View
	deltas    int // read so far
	snapshots int
	counts    map[string]int // frames by service
	caught    int            // instances and gone in the frames
	trials    []eider.Departure
}

func (w *world) caller(name string) *client { return w.client(replica.Peer{Caller: name}) }
func (w *world) observer(name string) *client {
	return w.client(replica.Peer{Caller: name, Observer: true})
}

func (w *world) client(p replica.Peer) *client {
	w.Helper()
	p.Addr = loopback()
	stream, err := w.reg.Watch(p)
	w.must(err)
	return &client{Watcher: stream, w: w, name: p.Caller, views: make(map[string]*eider.View), counts: make(map[string]int)}
}

// follow subscribes without a cursor and reads the first view.
func (c *client) follow(service string) *client {
	c.w.Helper()
	c.w.must(c.Subscribe(service, eider.Cursor{}, nil))
	if c.read(); c.views[service] == nil {
		c.w.Fatalf("subscribing to %s brings no view", service)
	}
	return c
}

// read takes all frames that there are by now, holds each to what the client has, and applies it.
func (c *client) read() *client {
	c.w.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), moment)
		frames, err := c.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return c
		}
		c.w.must(err)
		if len(frames) == 0 {
			c.w.Fatal("Next returns neither frames nor an error")
		}
		for _, f := range frames {
			c.apply(f)
		}
	}
}

func (c *client) apply(frame []byte) {
	c.w.Helper()
	var m pb.WatchReply
	c.w.must(proto.Unmarshal(frame, &m))
	if t := m.GetTrial(); t != nil {
		c.trials = append(c.trials, eider.Departure{Key: eider.Key{Service: t.GetService(), ID: t.GetId()},
			Incarnation: eider.Incarnation{Nonce: t.GetNonce()}})
		return
	}
	v := m.GetView()
	if v == nil {
		c.w.Fatalf("a frame without a view: %v", &m)
	}
	at, held := wire.ToCursor(v.GetCursor()), c.views[v.GetService()]
	if at.Run == 0 || at.Number == 0 {
		c.w.Fatalf("a view at no cursor: %v", v)
	}
	next := &eider.View{Service: v.GetService(), Cursor: at, Complete: v.GetComplete()}
	c.counts[v.GetService()]++
	c.caught += len(v.GetInstances()) + len(v.GetGone())
	if v.GetBase() == 0 {
		c.snapshots++
	} else {
		c.deltas++
		if held == nil || held.Cursor.Number != v.GetBase() || held.Cursor.Run != at.Run {
			c.w.Fatalf("a delta from %d for a client that holds %+v", v.GetBase(), held)
		}
		next.Instances, next.Gone = without(held, v)
	}
	if held != nil && held.Cursor.Run == at.Run && at.Number < held.Cursor.Number {
		c.w.Fatalf("the view went back from %s to %s", held.Cursor, at)
	}
	for _, in := range v.GetInstances() {
		instance, err := wire.ToInstance(in, v.GetService())
		c.w.must(err)
		next.Instances = append(next.Instances, instance)
	}
	for _, g := range v.GetGone() {
		gone, err := wire.ToGone(g)
		c.w.must(err)
		next.Gone = append(next.Gone, gone)
	}
	sortView(next)
	c.views[v.GetService()] = next
}
