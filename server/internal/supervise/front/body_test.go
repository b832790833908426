package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestStreamsFlushAtOnce(t *testing.T) {
	each(t, func(t *testing.T, c *http.Client) {
		next := make(chan struct{})
		at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/counted" {
				w.Header().Set("Content-Length", "30")
			}
			w.(http.Flusher).Flush()
			for i := range 3 {
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
				fmt.Fprintf(w, "data: %d\r\n\n", i)
				w.(http.Flusher).Flush()
			}
		}))
		for _, path := range []string{"/events", "/counted"} {
			resp, err := c.Do(request(t, "GET", at+path, nil))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 10)
			for i := range 3 {
				next <- struct{}{} // the program writes only then: what it wrote before has come
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != fmt.Sprintf("data: %d\r\n\n", i) {
					t.Fatalf("%q, %v", got, err)
				}
			}
			resp.Body.Close()
		}
	})
}

func TestTrailersPass(t *testing.T) {
	each(t, func(t *testing.T, c *http.Client) {
		at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.Copy(w, r.Body)
			w.Header().Set("X-Sum", r.Trailer.Get("X-Digest"))
			w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
		}))
		r := request(t, "POST", at, struct{ io.Reader }{strings.NewReader("body")})
		r.Trailer = http.Header{"X-Digest": {"sha"}}
		resp, got := do(t, c, r)
		if got != "body" || resp.Trailer.Get("X-Sum") != "sha" || resp.Trailer.Get("X-Late") != "unannounced" {
			t.Errorf("%q, trailers %v", got, resp.Trailer)
		}
	})
}

func TestAClientMayAskBeforeItSends(t *testing.T) {
	at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	for path, want := range map[string]string{"/yes": "body", "/no": "too large\n"} {
		nc, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n", path)
		from := bufio.NewReader(nc)
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (resp.StatusCode == http.StatusContinue) != (path == "/yes") {
			t.Fatalf("%s: %d", path, resp.StatusCode)
		}
		if path == "/yes" {
			fmt.Fprint(nc, "body")
			if resp, err = http.ReadResponse(from, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := io.ReadAll(resp.Body); string(got) != want {
			t.Errorf("%s: %d %q", path, resp.StatusCode, got)
		}
	}
}

func TestAProgramMayAnswerBeforeTheBodyIsHere(t *testing.T) {
	each(t, func(t *testing.T, c *http.Client) {
		at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.WriteHeader(http.StatusUnauthorized)
			w.(http.Flusher).Flush()
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		body, more := io.Pipe()
		resp, err := c.Do(request(t, "POST", at, body)) // of which nothing has come yet
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusUnauthorized {
			t.Error(resp.StatusCode)
		}
		if resp.ProtoMajor < 2 && !resp.Close {
			t.Error("the connection stays, with half a body in it")
		}
		more.Close()
		resp.Body.Close()
	})
}

func TestLargeBodies(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB, more than all that is buffered on the way
	each(t, func(t *testing.T, c *http.Client) {
		at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) {
			h := sha256.New()
			n, err := io.Copy(h, r.Body)
			w.Header().Set("X-Sum", fmt.Sprintf("%d %x %v", n, h.Sum(nil), err))
			_, _ = w.Write(large)
		}))
		resp, got := do(t, c, request(t, "POST", at, bytes.NewReader(large)))
		if want := fmt.Sprintf("%d %x <nil>", len(large), sha256.Sum256(large)); resp.Header.Get("X-Sum") != want || got != string(large) {
			t.Errorf("the program got %s, want %s; the client %d bytes", resp.Header.Get("X-Sum"), want, len(got))
		}
	})
}

func TestAClientThatGoesAway(t *testing.T) {
	each(t, func(t *testing.T, c *http.Client) {
		came, gone := make(chan struct{}), make(chan struct{})
		at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			close(came)
			<-r.Context().Done()
			close(gone)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := request(t, "POST", at, strings.NewReader("body")).WithContext(ctx)
		done := make(chan error, 1)
		go func() {
			_, err := c.Do(r)
			done <- err
		}()
		<-came
		cancel()
		<-gone // the program heard of it
		if err := <-done; err == nil {
			t.Error("an answer came")
		}
	})
}

// An empty 200 would be a lie, should anybody be there to read it.
func TestNoAnswerIsMadeUpForAClientThatHasGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("%v, want the connection's end", got)
		}
	}()
	handler(t, "http://127.0.0.1:1").refuse(httptest.NewRecorder(), request(t, "GET", "http://127.0.0.1:1", nil).WithContext(ctx), ctx.Err())
}

func TestWhatMayBeSentAgainSharesConnections(t *testing.T) {
	at := before(t, program(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }))
	seen := map[string]bool{}
	for range 20 {
		_, from := do(t, client(t, false), request(t, "GET", at, nil))
		seen[from] = true
	}
	if len(seen) > 10 {
		t.Errorf("20 requests came by %d connections", len(seen))
	}
}
