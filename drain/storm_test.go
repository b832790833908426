package drain

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Strangers who dial without end while the listener closes are answered or refused, and nobody who was
// connected is cut.
func TestD5StormAtTheCloseCutsNobody(t *testing.T) {
	r := begin(t, hello, func(_ *http.Server, c *Config) { c.Silent = patience })
	var answered, refused, cut atomic.Int64
	var storm sync.WaitGroup
	warm := make(chan struct{}, 1)
	for range 8 {
		storm.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				nc, err := new(net.Dialer).DialContext(ctx, "tcp", r.addr)
				cancel()
				if err != nil {
					refused.Add(1)
					return
				}
				nc.SetDeadline(time.Now().Add(patience))
				_, err = io.WriteString(nc, "POST / HTTP/1.1\r\nHost: orders\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
				if err == nil {
					var resp *http.Response
					if resp, err = http.ReadResponse(bufio.NewReader(nc), nil); err == nil {
						resp.Body.Close()
					}
				}
				nc.Close()
				if err != nil {
					cut.Add(1)
					t.Error(err)
					return
				}
				answered.Add(1)
				select {
				case warm <- struct{}{}:
				default:
				}
			}
		})
	}
	soon(t, warm, "the first answer")
	r.leave()
	r.barrier()
	rep := r.end()
	storm.Wait()
	t.Logf("answered %d, refused %d, cut %d, the end took %s", answered.Load(), refused.Load(), cut.Load(), rep.Took)
	if cut.Load() > 0 || refused.Load() != 8 {
		t.Errorf("answered %d, refused %d, cut %d", answered.Load(), refused.Load(), cut.Load())
	}
}
