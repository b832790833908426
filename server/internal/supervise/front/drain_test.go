package front

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/internal/fake"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// served serves a front under a drain; leave begins it, and ended is how it went.
func served(t *testing.T, h http.Handler, cfg drain.Config) (at string, leave func(), ended <-chan drain.Report) {
	t.Helper()
	cfg.Listener, cfg.Logger = fake.Listen(t), slog.New(slog.DiscardHandler)
	ctx, leave := context.WithCancel(t.Context())
	out := make(chan drain.Report, 1)
	go func() {
		r, err := drain.Serve(ctx, &http.Server{Handler: h, Protocols: both()}, cfg)
		if err != nil {
			t.Error(err)
		}
		out <- r
	}()
	return "http://" + cfg.Listener.Addr().String(), leave, out
}

// S10: an answer of the program says that the connection closes, before it does: nobody sends on it any more.
func TestS10AnswersSayThatTheConnectionCloses(t *testing.T) {
	let := make(chan struct{})
	to := program(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "keep-alive") // as Node says on each answer
		if r.URL.Path == "/slow" {
			<-let
		}
	})
	f := handler(t, to)
	started := make(chan (<-chan struct{}), 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			started <- drain.Started(r.Context())
		}
		f.ServeHTTP(w, r)
	})
	at, leave, ended := served(t, h, drain.Config{Pause: -1})
	c := client(t, false)
	if resp, _ := do(t, c, request(t, "GET", at, nil)); resp.Close {
		t.Error("the connection closes before the leave")
	}
	told := make(chan bool, 1)
	go func() {
		resp, err := c.Do(request(t, "POST", at+"/slow", strings.NewReader("body")))
		if err != nil {
			t.Error(err)
			told <- false
			return
		}
		resp.Body.Close()
		told <- resp.Close
	}()
	begun := <-started
	leave()
	<-begun
	close(let)
	if !<-told {
		t.Error("an answer after the leave doesn't say Connection: close")
	}
	if r := <-ended; r.CutCount+r.OverranCount > 0 {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsInFlightIsWaitedFor(t *testing.T) {
	came, let := make(chan struct{}), make(chan struct{})
	to := program(t, func(w http.ResponseWriter, r *http.Request) {
		close(came)
		<-let
		_, _ = io.WriteString(w, "done")
	})
	at, leave, ended := served(t, handler(t, to), drain.Config{Pause: -1})
	got := make(chan string, 1)
	go func() {
		resp, err := client(t, false).Post(at, "text/plain", strings.NewReader("body"))
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		got <- string(body)
	}()
	<-came
	leave()
	for { // until nobody is let in any more: the pause has ended
		nc, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
		if err != nil {
			break
		}
		nc.Close()
	}
	close(let)
	if body := <-got; body != "done" {
		t.Error(body)
	}
	if r := <-ended; r.OverranCount+r.CutCount > 0 {
		t.Errorf("%+v", r)
	}
}

// echoes upgrades every connection, and says everything again.
func echoes(t *testing.T) string {
	return "http://" + fake.Script(t, func(_ int, nc net.Conn) {
		from := bufio.NewReader(nc)
		r, err := http.ReadRequest(from)
		if err != nil || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			return
		}
		_, _ = io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Key: "+r.Header.Get("Sec-WebSocket-Key")+"\r\n\r\n")
		_, _ = io.Copy(nc, from)
	}).Addr().String()
}

func TestUpgradesPassAndAreCounted(t *testing.T) {
	at, leave, ended := served(t, handler(t, echoes(t)), drain.Config{Pause: -1, Streams: time.Second})
	nc, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = io.WriteString(nc, "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
	from := bufio.NewReader(nc)
	resp, err := http.ReadResponse(from, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Key") != "k" {
		t.Fatal(resp, err)
	}
	talk := func(word string) {
		t.Helper()
		_, _ = io.WriteString(nc, word)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != word {
			t.Fatalf("%q, %v", got, err)
		}
	}
	talk("before")
	leave()
	talk("while it leaves")
	if _, err := from.ReadByte(); err == nil {
		t.Error("it said something of its own")
	}
	if r := <-ended; r.CutCount != 1 || len(r.Cut) != 1 || !strings.Contains(r.Cut[0].String(), "/chat") {
		t.Errorf("%+v", r)
	}
}

func TestGRPCPasses(t *testing.T) {
	ln := fake.Listen(t)
	srv, states := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(srv, states)
	go srv.Serve(ln)
	defer srv.Stop()
	cc, err := grpc.NewClient(strings.TrimPrefix(before(t, "http://"+ln.Addr().String()), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	c := healthpb.NewHealthClient(cc)
	if got, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		if got, err := watch.Recv(); err != nil || got.Status != want {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
		states.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	}
}
