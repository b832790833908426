package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The herd: thousands of clients that start at once, lose their registry at once, and are to be back. Each registers
// an instance and follows one service, on a connection of its own.

// HerdFigures are one stampede's.
type HerdFigures struct {
	Away       time.Duration // until the node served again; 0 at the start
	Back, Most time.Duration // until the last client, and 99 of 100, were listed and had a view
	Dials      int           // connections that were dialled, or tried to be
	PeakDials  int           // of those, in the fullest second
	PeakBack   int           // clients that came back in the fullest second
	Limited    int           // streams and registrations that were told to come back later
	Slowest    time.Duration // answer to somebody else who asked the node's HTTP port meanwhile
	Asked      int           // of those answers
	Failed     int           // of those, that didn't come within 10 s
	CPU        time.Duration // the node's processor time
	Peak       int64         // the node's peak memory, bytes
}

// Stampedes are a herd's figures: all start at once, then the registry is killed and comes back at the same address.
type Stampedes struct{ Start, Killed HerdFigures }

// stampeder is a kind of client; go on until ctx ends, calling back whenever the client is listed by a node run and has
// its view. dial is to be used for every connection.
type stampeder func(ctx context.Context, addr string, i int, dial func(context.Context, string) (net.Conn, error), back func(run uint64))

// So long a stampede may take: on a machine that is busy with other work, and bears ten thousand clients beside the
// node, it takes minutes. That it ends is the promise; how long it takes is told.
const (
	stampedeWithin = 9 * time.Minute
	tenths         = 6000 // a minute more
)

// herd is what is known of the clients from outside.
type herd struct {
	dials [tenths]atomic.Int64 // by tenths since begun
	begun atomic.Int64         // Unix ns

	mu   sync.Mutex
	old  uint64      // the node run that doesn't count any more
	run  []uint64    // by client: of the node that it is listed by
	when []time.Time // since when
}

// HerdOurs plays the SDK against a node as it comes.
func HerdOurs(clients int) (Stampedes, error) { return stampede(clients, oursInHerd) }

// HerdRaw plays clients that try again each second, on the second, against a node that admits everybody.
func HerdRaw(clients int) (Stampedes, error) {
	most := "1000000"
	return stampede(clients, rawInHerd, "--register-rate", most, "--reattach-rate", most, "--watch-rate", most)
}

func stampede(clients int, play stampeder, flags ...string) (s Stampedes, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a client in a process of its own would hardly ever collect
	binary, err := build("eider")
	if err != nil {
		return s, err
	}
	n, err := startBuilt(binary, append(flags, "--fresh")...)
	if err != nil {
		return s, err
	}
	defer func() { n.stop() }()
	fleet, err := startInstance(n, "orders", "1")
	if err != nil {
		return s, err
	}
	defer fleet.stop()
	h := &herd{run: make([]uint64, clients), when: make([]time.Time, clients)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	s.Start, err = h.measure(func() (*node, error) {
		for i := range clients {
			wg.Go(func() { play(ctx, n.grpc, i, h.dial, func(run uint64) { h.back(i, run) }) })
		}
		return n, nil
	})
	if err != nil {
		return s, fmt.Errorf("at the start: %w", err)
	}
	<-time.After(3 * time.Second) // they beat, and that is all
	grpc, http := n.grpc, n.http
	s.Killed, err = h.measure(func() (*node, error) {
		_ = n.cmd.Process.Kill()
		<-n.done
		n, err = startBuilt(binary, append(flags, "--grpc", grpc, "--http", http)...) // an outage builds nothing
		return n, err
	})
	if err != nil {
		return s, fmt.Errorf("after the kill: %w", err)
	}
	return s, nil
}

// measure has something happen, and waits until every client is back on the node that it returns.
func (h *herd) measure(happen func() (*node, error)) (f HerdFigures, err error) {
	h.mu.Lock()
	if len(h.run) > 0 {
		h.old = h.run[0]
	}
	clear(h.run)
	h.mu.Unlock()
	for i := range h.dials {
		h.dials[i].Store(0)
	}
	begun := time.Now()
	h.begun.Store(begun.UnixNano())
	n, err := happen()
	if err != nil {
		return f, err
	}
	away := time.Since(begun)
	ask, err := startAsker(n.http)
	if err != nil {
		return f, err
	}
	missing := len(h.run)
	for missing > 0 {
		if time.Since(begun) > stampedeWithin {
			_ = ask.end(&f)
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // what the clients that are missing are doing
			return f, fmt.Errorf("%d of %d clients aren't back after %s", missing, len(h.run), time.Since(begun))
		}
		<-time.After(50 * time.Millisecond)
		missing = h.missing()
	}
	h.fill(&f, begun)
	f.Away = away
	if err := ask.end(&f); err != nil {
		return f, err
	}
	if f.CPU, err = cpu(n.cmd.Process.Pid); err != nil {
		return f, err
	}
	if f.Peak, err = n.peak(); err != nil {
		return f, err
	}
	limited, err := n.metric("eider_native_limited_total")
	f.Limited = int(limited)
	return f, err
}

func (h *herd) missing() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range h.run {
		if run == 0 {
			n++
		}
	}
	return n
}

// fill sums up who came back when.
func (h *herd) fill(f *HerdFigures, begun time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	took := make([]time.Duration, len(h.when))
	var came [tenths]int
	for i, at := range h.when {
		took[i] = at.Sub(begun)
		came[tenth(took[i])]++
	}
	slices.Sort(took)
	f.Back, f.Most = took[len(took)-1], took[len(took)*99/100]
	for i := range came {
		dials, back := 0, 0
		for k := i; k < min(i+10, len(came)); k++ {
			dials, back = dials+int(h.dials[k].Load()), back+came[k]
		}
		f.Dials += int(h.dials[i].Load())
		f.PeakDials, f.PeakBack = max(f.PeakDials, dials), max(f.PeakBack, back)
	}
}

func tenth(d time.Duration) int { return min(max(int(d/(100*time.Millisecond)), 0), tenths-1) }

// back notes that a client is listed by a node run and has its view. A run of before doesn't count: it is dead.
func (h *herd) back(i int, run uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run[i] == 0 && run != 0 && run != h.old {
		h.run[i], h.when[i] = run, time.Now()
	}
}

func (h *herd) dial(ctx context.Context, addr string) (net.Conn, error) {
	h.dials[tenth(time.Since(time.Unix(0, h.begun.Load())))].Add(1)
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// address makes a loopback address that no other client of the herd has, and nobody listens at.
func address(i int) string { return fmt.Sprintf("127.1.%d.%d:9", i/250, i%250+1) }

func serviceOf(i int) string { return "herd-" + strconv.Itoa(i%100) }
