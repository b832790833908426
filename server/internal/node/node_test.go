package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eiderhq/eider"
	pb "github.com/eiderhq/eider/api/eider/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines is a log that tests may read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a node on ports of its own.
type running struct {
	*Node
	log  *lines
	stop func() error // stops it and returns what Run did
}

func start(t *testing.T, s Settings, change ...func(*Config)) running {
	t.Helper()
	s.GRPC, s.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	log := &lines{}
	cfg := Config{Settings: s, Version: "v1", Logger: s.Logger(log)}
	for _, c := range change {
		c(&cfg)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	select {
	case <-n.Ready():
	case <-time.After(20 * time.Second):
		t.Fatalf("not ready; the log says\n%s", log)
	}
	return running{n, log, stop}
}

func (r running) client(t *testing.T) pb.RegistryClient {
	t.Helper()
	cc, err := grpc.NewClient(r.Addrs().GRPC.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return pb.NewRegistryClient(cc)
}

func (r running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	res, err := hc.Get("http://" + r.Addrs().HTTP.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// attachedAs returns a stream with one instance, orders/1.
func attachedAs(t *testing.T, c pb.RegistryClient, address string) (grpc.BidiStreamingClient[pb.AttachRequest, pb.AttachReply], *pb.Welcome, *pb.Registered) {
	t.Helper()
	s, err := c.Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*pb.AttachRequest{
		{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: "orders@1"}}},
		{Kind: &pb.AttachRequest_Register{Register: &pb.Register{Record: &pb.Record{Service: "orders", Id: "1",
			Incarnation: &pb.Incarnation{Nonce: 7}, Attachment: 1, Status: pb.Status_STATUS_UP, Address: address}}}},
	} {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	welcome, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	registered, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return s, welcome.GetWelcome(), registered.GetRegistered()
}

func TestNodeServesBothPortsAndStopsInOrder(t *testing.T) {
	r := start(t, Settings{Fresh: true, Node: "n1", Beat: 1500 * time.Millisecond, Lease: 12 * time.Second})
	if want := "eider: ready, grpc " + r.Addrs().GRPC.String() + " http " + r.Addrs().HTTP.String(); !strings.Contains(r.log.String(), want) {
		t.Errorf("the log lacks %q:\n%s", want, r.log)
	}
	s, welcome, registered := attachedAs(t, r.client(t), "127.0.0.1:9")
	if welcome.GetNode() != "n1" || welcome.GetBeatMs() != 1500 || registered.GetLeaseMs() != 12_000 {
		t.Errorf("settings didn't reach the rooms: %v, %v", welcome, registered)
	}
	for path, want := range map[string]string{"/readyz": "", "/v1/services/orders": `"127.0.0.1:9"`, "/metrics": "eider_native_streams 1"} {
		if code, body := r.get(t, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if err := r.stop(); err != nil {
		t.Errorf("the stop: %v", err)
	}
	end, err := s.Recv()
	if err != nil || !end.GetEnd().GetReattach() {
		t.Errorf("the stream heard %v, %v", end, err)
	}
	if _, err := net.Dial("tcp", r.Addrs().HTTP.String()); err == nil {
		t.Error("the HTTP port still answers")
	}
	if strings.Contains(r.log.String(), "level=ERROR") || strings.Contains(r.log.String(), "suspect") {
		t.Errorf("an orderly stop suspects nobody and is no error:\n%s", r.log)
	}
}

func TestReadinessSaysWhatTheNodeWaitsFor(t *testing.T) {
	n, err := New(Config{Settings: Settings{Fresh: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (int, string) {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/readyz", nil)
		n.console.ServeHTTP(rec, req)
		return rec.Code, rec.Body.String()
	}
	if code, body := ask(); code != http.StatusServiceUnavailable || !strings.Contains(body, "hasn't started") {
		t.Errorf("before Run: %d %s", code, body)
	}
	r := start(t, Settings{Fresh: true})
	n = r.Node
	if code, body := ask(); code != http.StatusOK {
		t.Errorf("running: %d %s", code, body)
	}
	r.stop()
	if code, body := ask(); code != http.StatusServiceUnavailable || !strings.Contains(body, "it is stopping") {
		t.Errorf("stopped: %d %s", code, body)
	}
}

func TestTakenPortsAreBothNamed(t *testing.T) {
	one, two := listen(t), listen(t)
	n, err := New(Config{Settings: Settings{GRPC: one, HTTP: two}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	err = n.Run(t.Context())
	if eider.KindOf(err) != eider.Conflict {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"listen for grpc: " + one + " is taken", "--grpc 127.0.0.1:0", "listen for http: " + two + " is taken", "--http 127.0.0.1:0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in\n%v", want, err)
		}
	}
}

func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestOneTakenPortLeavesTheOtherFree(t *testing.T) {
	taken := listen(t)
	var grpcAddr string
	n, err := New(Config{Settings: Settings{GRPC: "127.0.0.1:0", HTTP: taken}, Logger: slog.New(slog.DiscardHandler),
		Listen: func(address string) (net.Listener, error) {
			l, err := net.Listen("tcp", address)
			if err == nil {
				grpcAddr = l.Addr().String()
			}
			return l, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); err == nil || strings.Contains(err.Error(), "for grpc") {
		t.Fatalf("%v", err)
	}
	if c, err := net.Dial("tcp", grpcAddr); err == nil {
		c.Close()
		t.Fatal("the other port was left open")
	}
}

func TestNodeRefusesWhatSettingsCantBe(t *testing.T) {
	_, err := New(Config{Settings: Settings{GRPC: "0.0.0.0:8762", LogLevel: "loud"}})
	if eider.KindOf(err) != eider.Invalid || strings.Count(err.Error(), "\n") != 1 {
		t.Fatalf("%v", err)
	}
}

func TestNodeRunsOnce(t *testing.T) {
	r := start(t, Settings{Fresh: true})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); eider.KindOf(err) != eider.Closed {
		t.Fatalf("a second run: %v", err)
	}
}

func TestStoppedBeforeItWasReady(t *testing.T) {
	n, err := New(Config{Settings: Settings{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
