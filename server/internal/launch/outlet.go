package launch

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	outletLines = 256         // lines that wait for a reader; further ones are dropped, and counted
	lastLine    = time.Second // how long the end waits for a reader
)

// outlet writes the log and never waits for who reads it. The program has the same standard error: when it floods it and
// nobody reads, a line of ours would wait with it, and the departure for the line. Nor does this process die, and the
// program with it, when a reader of the log has gone: a signal that is heard doesn't kill, and unlike one that is ignored
// it is as ever for the program.
type outlet struct {
	to    io.Writer
	lines chan []byte
	lost  atomic.Int64
	end   chan struct{}
	done  chan struct{}
}

func newOutlet(to io.Writer) *outlet {
	o := &outlet{to: to, lines: make(chan []byte, outletLines), end: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // until the end: the report comes after the log
	go o.run()
	return o
}

// Write takes a line in.
func (o *outlet) Write(line []byte) (int, error) {
	select {
	case o.lines <- append([]byte(nil), line...):
	default:
		o.lost.Add(1)
	}
	return len(line), nil
}

func (o *outlet) run() {
	defer close(o.done)
	for {
		select {
		case line := <-o.lines:
			o.put(line)
			continue
		default:
		}
		select {
		case line := <-o.lines:
			o.put(line)
		case <-o.end:
			return
		}
	}
}

func (o *outlet) put(line []byte) {
	_, _ = o.to.Write(line) // nobody is left to be told
	if n := o.lost.Swap(0); n > 0 {
		fmt.Fprintf(o.to, "eider: %d lines of the log are lost: nobody read it\n", n)
	}
}

// close writes what has come so far, and last, if somebody reads it in time.
func (o *outlet) close() {
	close(o.end)
	atMost(lastLine, func() { <-o.done })
}

// atMost calls f, and doesn't wait for it longer than that.
func atMost(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
