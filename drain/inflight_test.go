package drain

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// A stuck request can't block the exit: it has its deadline, and is named.
func TestOverrunIsNamedAndCut(t *testing.T) {
	h := newHeld()
	r := begin(t, h.ServeHTTP, func(_ *http.Server, c *Config) { c.InFlight = 50 * time.Millisecond })
	before, after := r.dial(), r.dial()
	before.send("/stuck?token=secret", "Eider-Caller: checkout@b2")
	soon(t, h.in, "the request")
	r.leave()
	after.send("/late")
	soon(t, h.in, "the later request")
	r.barrier()
	before.closed()
	after.closed()
	rep := r.end()
	close(h.release) // its handler ignores its context: Serve didn't wait for it
	if rep.OverranCount != 2 || len(rep.Overran) != 2 || rep.ForceClosed != 2 || rep.Exit != ExitLoss || rep.UnansweredCount != 0 {
		t.Fatalf("%+v", rep)
	}
	text := rep.String()
	for _, want := range []string{"overran the in-flight deadline: 2\n", "POST /stuck of checkout@b2 from 127.0.0.1:", ", after more than ", "POST /late from "} {
		if !strings.Contains(text, want) {
			t.Errorf("the report doesn't say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("the report tells a query:\n%s", text)
	}
}

// In HTTP/1 a stream is cut with its connection; a long answer of declared length is no stream.
func TestD9StreamIsCutAfterItsBudget(t *testing.T) {
	open, release := make(chan struct{}, 2), make(chan struct{})
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/long" {
			w.Header().Set("Content-Length", "5")
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		open <- struct{}{}
		select {
		case <-req.Context().Done():
		case <-release:
			hello(w, req)
		}
	}, func(_ *http.Server, c *Config) { c.Streams = 50 * time.Millisecond })
	stream, long := r.dial(), r.dial()
	stream.send("/stream")
	long.send("/long")
	soon(t, open, "an answer")
	soon(t, open, "an answer")
	stream.head()
	r.leave()
	r.barrier()
	if rest, err := io.ReadAll(stream.r); len(rest) != 0 {
		t.Errorf("the stream yields %q, %v", rest, err)
	}
	close(release)
	if _, body := long.answer(); body != "hello" {
		t.Errorf("the long answer is %q", body)
	}
	if rep := r.end(); rep.CutCount != 1 || rep.Cut[0].Path != "/stream" || rep.OverranCount != 0 || rep.Exit != ExitLoss {
		t.Errorf("%+v", rep)
	}
}

// A stream that heeds Started ends by itself, and nothing is lost.
func TestD9StreamThatHeedsTheDrainEnds(t *testing.T) {
	open := make(chan struct{})
	r := begin(t, func(w http.ResponseWriter, req *http.Request) {
		w.(http.Flusher).Flush()
		close(open)
		<-Started(req.Context())
		io.WriteString(w, "bye")
	}, nil)
	p := r.dial()
	p.send("/stream")
	soon(t, open, "the stream")
	resp := p.head()
	r.leave()
	if rest, err := io.ReadAll(resp.Body); string(rest) != "bye" || err != nil {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	r.barrier()
	if rep := r.end(); rep.Exit != ExitClean || rep.CutCount != 0 {
		t.Errorf("%+v", rep)
	}
}

func TestStartedOutsideADrain(t *testing.T) {
	if Started(t.Context()) != nil {
		t.Error("there is no drain in this context")
	}
}

// Handlers that panic or exit leave the books right.
func TestPanicsKeepTheCount(t *testing.T) {
	in, release := make(chan struct{}, 2), make(chan struct{})
	r := begin(t, func(_ http.ResponseWriter, req *http.Request) {
		in <- struct{}{}
		<-release
		if req.URL.Path == "/exit" {
			runtime.Goexit()
		}
		panic(http.ErrAbortHandler)
	}, nil)
	for _, path := range []string{"/panic", "/exit"} {
		r.dial().send(path)
		soon(t, in, "the request")
	}
	r.leave()
	r.barrier()
	close(release)
	if rep := r.end(); rep.OverranCount != 0 || rep.Took > 10*time.Second {
		t.Errorf("%+v", rep)
	}
}

// LEFT is bounded: a registry that hangs doesn't hold the exit up.
func TestD15LeftIsBounded(t *testing.T) {
	r := begin(t, hello, nil)
	r.reg.mu.Lock()
	r.reg.leftHangs, r.reg.bound = true, time.Millisecond
	r.reg.mu.Unlock()
	r.leave()
	if rep := r.end(); rep.Left || rep.Heard || rep.EndedBy != ByBound || rep.Took > 10*time.Second {
		t.Errorf("%+v", rep)
	}
}

// Who is cut by the grace is named.
func TestGraceNamesWhoIsCut(t *testing.T) {
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Grace, c.InFlight = 2100*time.Millisecond, 50*time.Millisecond })
	r.reg.says(func() {
		r.reg.heard, r.reg.drain = true, eider.Drain{Total: 2, Open: 1, Members: []eider.Member{
			{Caller: "checkout@b2", Kind: eider.Native, State: eider.Waiting, Stream: true, Cap: 8 * time.Second},
			{Caller: "web@c3", Kind: eider.Native, State: eider.LetGo, Settled: time.Millisecond}}}
	})
	r.leave()
	rep := r.end()
	if rep.EndedBy != ByGrace || rep.Open != 1 || rep.Bound != 50*time.Millisecond || rep.Pause < rep.Bound {
		t.Fatalf("%+v", rep)
	}
	if want := "  callers: 1 of 2 let go; checkout@b2 (native, ≤ 8s)\n"; !strings.Contains(rep.String()+"\n", want) {
		t.Errorf("the report doesn't say %q:\n%s", want, rep)
	}
}

// Callers that are counted by name are bounded.
func TestServedByIsBounded(t *testing.T) {
	var ta tally
	ta.d = &drainer{}
	for i := range 3 * MaxNamed {
		ta.arrived(&exchange{caller: strings.Repeat("x", i) + "\n"})
	}
	rep := ta.into(Report{})
	if len(rep.ServedBy) != MaxNamed+1 || rep.ServedBy[OtherCallers] != 2*MaxNamed || rep.ServedAfterLeave != 3*MaxNamed {
		t.Errorf("%d callers, %d others", len(rep.ServedBy), rep.ServedBy[OtherCallers])
	}
	if strings.Contains(rep.String(), "\n\n") || rep.ServedBy["xx?"] != 1 {
		t.Errorf("a stranger's bytes are told as they come: %v", rep.ServedBy)
	}
}
