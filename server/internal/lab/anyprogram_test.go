package lab

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eiderhq/eider/internal/fake"
)

// restarted is a scene that kept its promise, but for what a test changes. Strangers lost as much as may be.
func restarted(but func(*AnyProgram)) *AnyProgram {
	way := Way{Requests: 10, Restarts: 2, Pause: &Pause{}}
	r := &AnyProgram{Run: Supervised{way, way}, Front: Supervised{way, way}, Sleep: way}
	r.Run.Strange.Failed = 3
	r.Sleep.Failed = 1
	but(r)
	return r
}

// S8: what restarts of a program that knows nothing of Eider may lose of POSTs, which is what TestSceneAnyProgram holds
// them to.
func TestS8AnyProgramsPromisesBreak(t *testing.T) {
	for name, but := range map[string]func(*AnyProgram){
		"a loss of Eider's callers":             func(r *AnyProgram) { r.Run.Failed = 1 },
		"the same behind the proxy":             func(r *AnyProgram) { r.Front.Failed = 1 },
		"a loss of others behind the proxy":     func(r *AnyProgram) { r.Front.Strange.Failed = 1 },
		"three more than beside the sleep":      func(r *AnyProgram) { r.Run.Strange.Failed = 4 },
		"the proxy was never restarted":         func(r *AnyProgram) { r.Front.Restarts = 0 },
		"callers that know nothing never asked": func(r *AnyProgram) { r.Run.Strange.Requests = 0 },
	} {
		if broken := restarted(but).broken(); len(broken) != 1 {
			t.Errorf("%s: broken = %q", name, broken)
		}
	}
}

// A way's row is the sum of its fleets', and what failed is told by kind.
func TestFleetsOfAWayAddUp(t *testing.T) {
	var sum Way
	sum = sum.plus(Way{Requests: 3, Failed: 2, Restarts: 5, Pause: &Pause{P50: 8, Max: 9}, Kinds: map[string]int{whyCut: 2}, Details: []string{"a", "b"}})
	sum = sum.plus(Way{Requests: 4, Failed: 2, Restarts: 5, Pause: &Pause{P50: 7, Max: 11}, Kinds: map[string]int{whyCut: 1, whyRefused: 1}, Details: []string{"c", "d", "e", "f"}})
	if sum.Requests != 7 || sum.Failed != 4 || sum.Restarts != 10 || *sum.Pause != (Pause{P50: 8, Max: 11}) || sum.Kinds[whyCut] != 3 || sum.Kinds[whyRefused] != 1 {
		t.Errorf("sum = %+v", sum)
	}
	if !slices.Equal(sum.Details, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("details = %q", sum.Details)
	}
}

// S9: callers POST, so a request on a connection that closes under it has failed, and is counted: a client would send a GET
// again without a word.
func TestS9ACutRequestIsCounted(t *testing.T) {
	var mu sync.Mutex
	var methods []string
	ln := fake.Script(t, func(_ int, nc net.Conn) {
		for from := bufio.NewReader(nc); ; {
			r, err := http.ReadRequest(from)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			mu.Lock()
			methods = append(methods, r.Method)
			cut := len(methods) == 2
			mu.Unlock()
			if cut {
				return
			}
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	c := &caller{role: role{Way: waySleep}, tell: newTeller(io.Discard), by: map[string]int{}, picks: map[string]int64{}, births: &births{at: map[string]int64{}},
		client: &http.Client{Transport: base, Timeout: time.Minute},
		target: func() (target, error) { return target{url: "http://" + ln.Addr().String() + "/pay"}, nil }}
	for i, want := range []bool{true, false, true} { // answered, cut under it, answered
		if got := c.call(t.Context()); got != want {
			t.Errorf("call %d: answered %t, want %t", i+1, got, want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if post := http.MethodPost; !slices.Equal(methods, []string{post, post, post}) {
		t.Errorf("three calls came as %q", methods)
	}
}
