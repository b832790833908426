package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/eiderhq/eider/bulkhead"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/registry"
)

// calls is a node, an instance that serves HTTP, and two clients of it.
type calls struct {
	node     *node
	instance *process
	reg      *registry.Registry
	ours     *eiderhttp.Transport
	plain    *http.Transport
}

func openCalls() (c *calls, err error) {
	c = &calls{plain: &http.Transport{MaxIdleConnsPerHost: 100}}
	if c.node, err = startNode("--fresh"); err != nil {
		return nil, err
	}
	if c.instance, err = startInstance(c.node, "orders", "1"); err != nil {
		c.node.stop()
		return nil, err
	}
	c.reg = registry.Open(registry.Config{Addr: c.node.grpc, Caller: "checkout", Logger: quiet()})
	c.ours = &eiderhttp.Transport{Registry: c.reg}
	return c, nil
}

func (c *calls) Close() {
	c.plain.CloseIdleConnections()
	_ = c.ours.Close()
	_ = c.reg.Close()
	c.instance.stop()
	c.node.stop()
}

// batch is how many calls a round of a gate times.
const batch = 300

// Ours and Plain make n calls, one after another, and return what one took.
func (c *calls) Ours(n int) (time.Duration, error) { return posts(c.ours, "http://orders/pay", n) }

func (c *calls) Plain(n int) (time.Duration, error) {
	return posts(c.plain, "http://"+c.instance.addr+"/pay", n)
}

func posts(rt http.RoundTripper, url string, n int) (time.Duration, error) {
	client := &http.Client{Transport: rt}
	body := bytes.Repeat([]byte("x"), 100)
	start := time.Now()
	for range n {
		if err := post(client, url, body); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(n), nil
}

func post(client *http.Client, url string, body []byte) error {
	resp, err := client.Post(url, "text/plain", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return err
}

func httpTime(s Size) (Result, error) {
	c, err := openCalls()
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	return compare(s.Rounds, contender{do: batched(c.Ours)}, contender{do: batched(c.Plain)})
}

func batched(do func(int) (time.Duration, error)) func() (time.Duration, error) {
	return func() (time.Duration, error) { return do(batch) }
}

// httpGuarded compares calls with a breaker and a bulkhead and without. They take turns call by call, the first of each two another each time: what is
// looked for is less than what rounds of calls differ by. Of each side's calls it takes the tenth that is fastest: what else the machine
// does only adds.
func httpGuarded(s Size) (Result, error) {
	const calls = 200 // for one round of a gate
	c, err := openCalls()
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	guarded := &eiderhttp.Transport{Registry: c.reg, Bulkhead: &bulkhead.Config{}}
	defer guarded.Close()
	bare := &eiderhttp.Transport{Registry: c.reg, NoBreakers: true}
	defer bare.Close()
	sides := [2]http.RoundTripper{guarded, bare}
	var times [2][]time.Duration
	for n := range (s.Rounds + warmUp) * calls {
		for i := range sides {
			side := (n + i) % 2
			took, err := posts(sides[side], "http://orders/pay", 1)
			if err != nil {
				return Result{}, err
			}
			if n >= warmUp*calls {
				times[side] = append(times[side], took)
			}
		}
	}
	low := func(ds []time.Duration) time.Duration { return slices.Sorted(slices.Values(ds))[len(ds)/10] }
	note := fmt.Sprintf("a tenth is faster; medians %s and %s", median(times[0]), median(times[1]))
	return Result{Eider: nanoseconds(low(times[0])), Peer: nanoseconds(low(times[1])), Note: note}, nil
}

// httpAllocations counts what this process allocates meanwhile. The handle's few messages a second are in it.
func httpAllocations(s Size) (Result, error) {
	c, err := openCalls()
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	both, err := turns(min(s.Rounds, 9), contender{do: allocated(c.Ours)}, contender{do: allocated(c.Plain)})
	if err != nil {
		return Result{}, err
	}
	ours, plain := float64(median(both[0].times))/batch, float64(median(both[1].times))/batch
	return Result{Eider: Figure{ours - plain, "allocations"}, Peer: Figure{12, "allocations"},
		Note: fmt.Sprintf("%.1f a call, http.Transport's %.1f", ours, plain)}, nil
}

// allocated counts allocations as if they were nanoseconds.
func allocated(do func(int) (time.Duration, error)) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := do(batch)
		runtime.ReadMemStats(&after)
		return time.Duration(after.Mallocs - before.Mallocs), err
	}
}
