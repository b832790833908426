package native

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/memnet"
	"github.com/eiderhq/eider/server/internal/replica"
)

// A client that is stopped (SIGSTOP) keeps its connection open and says nothing: the keepalive finds out.
func TestHungClientIsDroppedByTheKeepalive(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.attached("10.0.0.2")
		r.watching("10.0.0.3")
		pass(time.Minute) // idle and well: nobody is dropped
		if st := r.srv.Stats(); st.Streams != 2 || st.Connections != 2 {
			t.Fatalf("idle clients were dropped: %+v", st)
		}
		r.net.Stall("10.0.0.2")
		stalled := time.Now()
		if how := r.fake.stream(0).over(t); how != replica.Lost {
			t.Fatalf("ended as %d", how)
		}
		if took := time.Since(stalled); took > pingAfter+pingTimeout+time.Second {
			t.Fatalf("dropped after %s", took)
		}
		synctest.Wait()
		if st := r.srv.Stats(); st.Streams != 1 {
			t.Fatalf("%+v", st)
		}
		r.net.Resume("10.0.0.2")
	})
}

// A client whose transport lives while its program doesn't read: pings are answered, so only the
// blocked send tells. It holds up nobody else meanwhile.
func TestR12AbandonedWatcherIsDroppedAndBlocksNobody(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.watching("10.0.0.2") // never reads again
		good := r.watching("10.0.0.3")
		big := make([]byte, 0, 48<<10)
		for len(big) < 40<<10 {
			big = append(big, encoded(t, 1)...)
		}
		began := time.Now()
		for range 6 { // more than flow control lets through
			r.fake.stream(0).views <- [][]byte{big, big}
		}
		synctest.Wait() // until the bad one's is blocked
		r.fake.stream(1).views <- [][]byte{encoded(t, 2)}
		hear(t, good.Recv)
		if took := time.Since(began); took > 0 {
			t.Fatalf("the good one waited %s for the bad one", took)
		}
		if how := r.fake.stream(0).over(t); how != replica.Lost {
			t.Fatalf("ended as %d", how)
		}
		if took := time.Since(began); took < sendTimeout || took > sendTimeout+time.Second {
			t.Fatalf("dropped after %s", took)
		}
		synctest.Wait()
		if st := r.srv.Stats(); st.Streams != 1 || st.Dropped != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestR12WatchersEndWithTheirStreams(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.watching("10.0.0.9")
		synctest.Wait()
		before := inside()
		const many = 50
		for range many {
			cc := r.dial("10.0.0.2")
			s := r.watch(cc)
			tell(t, s.Send, watchHello(false))
			hear(t, s.Recv)
			tell(t, s.Send, subscribe("orders"))
			cc.Close()
		}
		for i := range many {
			r.fake.stream(i + 1).over(t)
		}
		synctest.Wait()
		if after := inside(); after > before {
			t.Fatalf("%d goroutines before, %d after %d watchers came and went", before, after, many)
		}
		if st := r.srv.Stats(); st.Streams != 1 || st.Connections != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

// The server's half of R10: a node that stops says so, so that its clients go at once, and suspects none.
func TestR10StoppingNodeTellsItsClientsToAttachElsewhere(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		a := r.attached("10.0.0.2")
		w := r.watching("10.0.0.3")
		silent := r.attach(r.dial("10.0.0.4")) // before its Hello
		synctest.Wait()
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("the stop took %s", took)
		}
		if e := hear(t, a.Recv).GetEnd(); !e.GetReattach() || e.GetError().GetMessage() == "" {
			t.Errorf("attach: %v", e)
		}
		if e := hear(t, w.Recv).GetEnd(); !e.GetReattach() {
			t.Errorf("watch: %v", e)
		}
		if code, _ := hearEnd(t, silent.Recv); code != codes.Unavailable {
			t.Errorf("before Hello: %v", code)
		}
		for i := range 2 {
			if how := r.fake.stream(i).over(t); how != replica.Stopping {
				t.Errorf("stream %d ended as %d", i, how)
			}
		}
	})
}

// A node that stops as it starts may call Stop before the goroutine of Serve has run.
func TestAStopThatComesFirstIsNoFault(t *testing.T) {
	lis, err := memnet.New().Listen(node + ":0")
	if err != nil {
		t.Fatal(err)
	}
	srv := New(&fake{}, Config{Logger: slog.New(slog.DiscardHandler)})
	srv.Stop(t.Context())
	if err := srv.Serve(lis); err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := lis.Accept(); err == nil {
		t.Error("the listener is open")
	}
}

func TestStopIsBoundedThoughAClientHangs(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.watching("10.0.0.2")
		r.net.Stall("10.0.0.2")
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the stop took %s", took)
		}
		if how := r.fake.stream(0).over(t); how != replica.Stopping {
			t.Errorf("ended as %d", how)
		}
		r.net.Resume("10.0.0.2")
	})
}

// The server's half of R13: whatever ends a stream, its process can tell whether and when to come back.
func TestR13EveryEndSaysWhatToDo(t *testing.T) {
	for _, row := range []struct {
		err      error
		reattach bool
		silent   bool
	}{
		{stopped(), true, false},
		{errGone, false, true},
		{errors.New("broken"), false, false},
		{eider.Errorf(eider.Stale, "", "had lapsed"), true, false},
		{eider.Errorf(eider.Unavailable, "", "stopped"), true, false},
		{&eider.Error{Kind: eider.Limited, RetryAfter: time.Second}, false, false},
	} {
		why := endingOf(row.err)
		if why.reattach != row.reattach || why.silent != row.silent || !why.silent && why.err == nil {
			t.Errorf("%v: %+v", row.err, why)
		}
	}
}
