//go:build linux

package faults

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/server/internal/node"
)

// refuses waits until a port refuses, and returns when it first did.
func refuses(t *testing.T, addr string) time.Time {
	t.Helper()
	var at time.Time
	eventually(t, "refusal by "+addr, func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return false
		}
		at = time.Now()
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	return at
}

// kill -9 of one of three under load: its port refuses, the node takes that for its end within milliseconds, and
// its callers never pick it again. Calls that were on their way to it may be cut; none that begins after the first
// refusal fails.
func TestU1KillIsNoticedByEvidence(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	victim := start(t, s, "orders", "v")
	ld := startLoad(t, s.grpc, "orders", 8)
	ld.each(20)
	killed := victim.hears(syscall.SIGKILL)
	gone := refuses(t, victim.addr)
	dead := s.happened(eider.EventDead, "orders", "v")
	took := dead.Time.Sub(killed)
	ld.each(20)
	before := ld.sum()
	ld.each(60)
	after := ld.sum()
	for _, f := range after.Failures {
		if f.Began.After(gone) {
			t.Errorf("a call begun %v after the first refusal failed: %s", f.Began.Sub(gone), f.Text)
		}
	}
	if after.Tries["v"] != before.Tries["v"] {
		t.Errorf("it was picked %d times more after everybody had heard of its end", after.Tries["v"]-before.Tries["v"])
	}
	if took > 2*time.Second {
		t.Errorf("DEAD %v after the kill; evidence takes milliseconds", took)
	}
	if lapsed := s.events(eider.EventLapsed); len(lapsed) > 0 {
		t.Errorf("evidence, not silence: %v", lapsed)
	}
	t.Logf("DEAD %v after the kill, last picked %v after it, %d of %d calls cut", took.Round(time.Millisecond),
		after.Last["v"].Sub(killed).Round(time.Millisecond), len(after.Failures), after.Requests)
}

// SIGSTOP shorter than the lease: suspect, not picked, never ended; SIGCONT cures it, and it is picked again as
// the same attachment of the same incarnation.
func TestSIGSTOPMakesASuspectAndSIGCONTCuresIt(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true}) // the default figures: a busy machine delays beats by more than scaled ones bear
	start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	frozen := start(t, s, "orders", "f")
	was, _ := s.view("orders").Find("f")
	frozen.freeze()
	s.happened(eider.EventSuspect, "orders", "f")
	ld := startLoad(t, s.grpc, "orders", 4)
	ld.each(30)
	if n := ld.sum().Tries["f"]; n > 0 {
		t.Errorf("a suspect was picked %d times, although two aren't", n)
	}
	frozen.thaw()
	s.happened(eider.EventCured, "orders", "f")
	eventually(t, "pick of who is cured", func() bool { return ld.sum().By["f"] > 10 })
	ld.rest()
	ld.sum().flawless(t, "orders")
	if ended := s.events(eider.EventLapsed, eider.EventDead); len(ended) > 0 {
		t.Errorf("it was alive all along: %v", ended)
	}
	is, _ := s.view("orders").Find("f")
	if is == nil || !is.Incarnation.Is(was.Incarnation) || is.Attachment != was.Attachment || is.Suspicion != 0 || is.Status != eider.Up {
		t.Errorf("it is %+v, and was %+v", is, was)
	}
}

// SIGSTOP for longer than the lease: it lapses once, and SIGCONT brings the same incarnation back.
func TestR1SIGSTOPBeyondTheLeaseLapsesOnce(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	s := startNode(t, node.Settings{Fresh: true, Beat: 500 * time.Millisecond, Lease: lease})
	start(t, s, "orders", "a")
	frozen := start(t, s, "orders", "f")
	was, _ := s.view("orders").Find("f")
	stopped := frozen.freeze()
	lapsed := s.happened(eider.EventLapsed, "orders", "f")
	if took := lapsed.Time.Sub(stopped); took < lease-600*time.Millisecond || took > lease+time.Second {
		t.Errorf("it lapsed after %v with a lease of %v", took, lease)
	}
	frozen.thaw()
	eventually(t, "return", func() bool {
		is, ok := s.view("orders").Find("f")
		return ok && is.Status == eider.Up && is.Suspicion == 0 && is.Incarnation.Is(was.Incarnation) && is.Attachment > was.Attachment
	})
	if n := len(s.events(eider.EventLapsed)); n != 1 {
		t.Errorf("%d lapses, want 1", n)
	}
}

// SIGTERM while the process still starts: it never registers.
func TestD14SIGTERMDuringStartNeverRegisters(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	p := spawn(t, order{Role: "instance", GRPC: s.grpc, Service: "orders", ID: "a", SlowStart: true})
	p.awaitKind("starting")
	p.hears(syscall.SIGTERM)
	lapse(50 * time.Millisecond) // the signal is heard; what is slow is over
	p.tell("go on")
	if code := p.exit(); code != drain.ExitClean {
		t.Errorf("exit code %d", code)
	}
	if r := p.awaitKind("report").Report; r.EndedBy != drain.ByNoCallers || r.Left {
		t.Errorf("%v", r)
	}
	if all := s.events(); len(all) > 0 {
		t.Errorf("the registry has heard of it: %v", all)
	}
}

// SIGTERM while the registry is away and was never reached: the process ends at once, and nothing that it had
// begun lists it once the registry is there.
func TestD14SIGTERMBeforeTheRegistryIsThere(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	s.kill()
	p := spawn(t, order{Role: "instance", GRPC: s.grpc, Service: "orders", ID: "a"})
	p.await("try to register", func(l *line) bool { return strings.Contains(l.Text, "no registry at") })
	p.hears(syscall.SIGTERM)
	r := p.awaitKind("report").Report
	s = s.again(func(*node.Settings) {})
	if code := p.exit(); code != drain.ExitClean || r.Pause > time.Second || r.Took > 3*time.Second {
		t.Errorf("exit code %d, %v", code, r)
	}
	if all := s.events(eider.EventRegistered); len(all) > 0 {
		t.Errorf("it was listed after it had left: %v", all)
	}
}

// SIGTERM again and again, in the pause of a drain that a hung caller holds up: one departure, which serves on.
func TestD13FurtherSIGTERMsInARealDrain(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true, Cap: 1500 * time.Millisecond})
	a := start(t, s, "orders", "a")
	start(t, s, "orders", "b")
	caller, _ := startCaller(t, order{GRPC: s.grpc, Service: "orders"})
	caller.freeze()
	left := a.hears(syscall.SIGTERM)
	s.happened(eider.EventLeaving, "orders", "a")
	for range 5 {
		a.hears(syscall.SIGTERM)
		c, err := net.DialTimeout("tcp", a.addr, time.Second)
		if err != nil {
			t.Fatalf("%v after the leave: %v", time.Since(left), err)
		}
		c.Close()
		lapse(100 * time.Millisecond)
	}
	r := a.awaitKind("report").Report
	if code := a.exit(); code != drain.ExitClean || r.Pause < 1400*time.Millisecond || !r.Left {
		t.Errorf("exit code %d, %v", code, r)
	}
	if n := len(s.events(eider.EventLeaving)); n != 1 {
		t.Errorf("%d leaves, want 1", n)
	}
}

// A request that never ends is cut at the in-flight deadline and named, and the process ends.
func TestAStuckRequestIsNamedAndDoesNotKeepTheProcess(t *testing.T) {
	t.Parallel()
	s := startNode(t, node.Settings{Fresh: true})
	a := startAs(t, order{GRPC: s.grpc, Service: "orders", ID: "a", InFlight: 700 * time.Millisecond})
	b := start(t, s, "orders", "b")
	ld := startLoad(t, s.grpc, "orders", 2)
	ld.each(10)
	stuck := make(chan error, 1)
	c, err := net.Dial("tcp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("POST /stuck HTTP/1.1\r\nHost: orders\r\nEider-Caller: someone@1\r\nContent-Length: 0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := c.Read(make([]byte, 1))
		stuck <- err
	}()
	lapse(50 * time.Millisecond) // it is being worked on
	a.hears(syscall.SIGTERM)
	r := a.awaitKind("report").Report
	if code := a.exit(); code != drain.ExitLoss || r.EndedBy != drain.ByBarrier || r.OverranCount != 1 || r.Took > 3*time.Second {
		t.Fatalf("exit code %d, %v", code, r)
	}
	if q := r.Overran[0]; q.Path != "/stuck" || q.Caller != "someone@1" || !q.Before {
		t.Errorf("it is named %v", q)
	}
	if err := <-stuck; err == nil {
		t.Error("the stuck request was answered")
	}
	ld.each(10)
	ld.rest()
	ld.sum().flawless(t, "the others")
	if is, ok := s.view("orders").Find(b.id); !ok || is.Suspicion != 0 {
		t.Errorf("the other instance: %+v", is)
	}
}
