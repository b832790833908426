package eiderhttp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/eiderhq/eider/internal/fake"
)

// Instances that misbehave in every way at random, and POSTs from many callers: none is ever read wholly by two
// instances, or twice by one, unless the first said that it hadn't processed it. With an Idempotency-Key all that
// is promised is an answer from somebody.
func TestS9NoPOSTIsEverSentTwice(t *testing.T) {
	const loops, rounds = 8, 120
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, &Transport{RetryRatio: 1})
	var processed tally
	w.Set("orders", fake.Up("orders", "a", misbehave(t, &processed, seed, 1)), fake.Up("orders", "b", misbehave(t, &processed, seed, 2)), fake.Up("orders", "c", misbehave(t, &processed, seed, 3)), fake.Up("orders", "dead", fake.DeadPort(t)))
	var wg sync.WaitGroup
	for i := range loops {
		wg.Go(func() {
			for k := range rounds {
				req := post(t, strings.NewReader(fmt.Sprintf("%d-%d", i, k)))
				if resp, err := w.tr.RoundTrip(req); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	wg.Wait()
	processed.mu.Lock() // a script may still be reading what its caller has given up
	for id, n := range processed.n {
		if n > 1 {
			t.Errorf("POST %s was processed %d times", id, n)
		}
	}
	processed.mu.Unlock()
	faults := w.tr.Faults()
	t.Logf("faults: %v", faults)
	if faults[Cut] == 0 || faults[WrongAddress] == 0 {
		t.Errorf("nothing went wrong: %v", faults)
	}
	for _, in := range w.tr.live() {
		if n := in.inFlight.Load(); n != 0 {
			t.Errorf("%d tries of %v are still counted as in flight", n, in.to)
		}
	}
}

// misbehave serves an instance that does something else with each connection and request, and books what it has
// processed.
func misbehave(t *testing.T, processed *tally, seed, n uint64) string {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, n))
	draw := func() int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(16)
	}
	return fake.Script(t, func(_ int, c net.Conn) {
		if draw() == 0 {
			c.(*net.TCPConn).SetLinger(0) // reset before a byte is read
			return
		}
		requests(c, func(_ int, r *http.Request, body string) bool {
			how := draw()
			if how == 1 {
				io.WriteString(c, "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			processed.add(body)
			switch how {
			case 2: // read, and not answered
				return false
			case 3: // cut in the header
				io.WriteString(c, "HTTP/1.1 200 O")
				return false
			case 4: // cut in the body
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
				return false
			case 5: // answered, then reset
				io.WriteString(c, answerOK)
				c.(*net.TCPConn).SetLinger(0)
				return false
			case 6: // answered, then ended: the keep-alive race
				io.WriteString(c, answerOK)
				return false
			}
			io.WriteString(c, answerOK)
			return true
		})
	}).Addr().String()
}
