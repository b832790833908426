package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// few is a node that takes 32 HTTP connections, 16 of one address.
var few = Settings{Fresh: true, MaxHTTPConnections: 32}

const fewShare = 16

// street is a listener whose connections come from where dial says.
type street struct {
	net.Listener
	from chan string
}

type comer struct {
	net.Conn
	from net.Addr
}

func (c comer) RemoteAddr() net.Addr { return c.from }

func (s street) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from, err := net.ResolveTCPAddr("tcp", <-s.from)
	return comer{conn, from}, err
}

func (s street) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	conn := dial(t, s.Addr().String())
	s.from <- from
	return conn
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// onStreet returns a node with few HTTP connections, whose remote ends are chosen.
func onStreet(t *testing.T) (running, street) {
	t.Helper()
	var s street
	r := start(t, few, func(c *Config) {
		c.Listen = func(address string) (lis net.Listener, err error) {
			if lis, err = net.Listen("tcp", address); err == nil && s.from == nil { // the first one is gRPC's
				s.from = make(chan string)
				return lis, nil
			}
			s.Listener = lis
			return s, err
		}
	})
	return r, s
}

// ask sends a request on a connection and reads the answer.
func ask(conn net.Conn, path string) (int, string, error) {
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0, "", err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

func mustAsk(t *testing.T, conn net.Conn, who string) {
	t.Helper()
	if code, body, err := ask(conn, "/readyz"); err != nil || code != http.StatusOK {
		t.Errorf("%s: %d %s, %v", who, code, body, err)
	}
}

// One process of this machine opens connections without end and sends nothing, or half a header. It has as many as one
// address may; who comes next comes in.
func TestAttackHoldsTheConsole(t *testing.T) {
	r := start(t, few)
	for i := range 3 * fewShare {
		conn := dial(t, r.Addrs().HTTP.String())
		if i%2 == 0 {
			io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: local")
		}
	}
	if code, body := r.get(t, "/readyz"); code != http.StatusOK {
		t.Errorf("an operator: %d %s", code, body)
	}
	if got := r.doors[0].stats(); got.open > fewShare || got.shed == 0 || got.turnedAway != 0 {
		t.Errorf("%+v, want at most %d open and some shed", got, fewShare)
	}
	if log := r.log.String(); strings.Count(log, "--max-http-connections") != 1 {
		t.Errorf("the log doesn't say so once:\n%s", log)
	}
	if _, body := r.get(t, "/metrics"); strings.Contains(body, "eider_http_shed_total 0\n") || !strings.Contains(body, "eider_http_turned_away_total 0\n") || !strings.Contains(body, "eider_http_connections ") {
		t.Error("the metrics don't say so")
	}
}

// One address that opens connections without end closes none but its own.
func TestAttackFromOneAddressClosesItsOwn(t *testing.T) {
	r, s := onStreet(t)
	other := s.dial(t, "10.0.0.2:1")
	mustAsk(t, other, "another, before")
	for range 3 * fewShare {
		s.dial(t, "10.0.0.1:1")
	}
	mustAsk(t, s.dial(t, "10.0.0.1:1"), "the newest of that address")
	mustAsk(t, other, "another, that rested meanwhile")
	if got := r.doors[0].stats(); got.open > fewShare+1 || got.shed == 0 {
		t.Errorf("%+v", got)
	}
}

// However many come from elsewhere, who works at the node comes in, and stays.
func TestAttackFromManyAddressesLeavesTheOperator(t *testing.T) {
	r, s := onStreet(t)
	operator := s.dial(t, "127.0.0.1:1")
	mustAsk(t, operator, "the operator, before")
	early := s.dial(t, "10.0.9.9:1")
	mustAsk(t, early, "who came early")
	for i := range 5 * few.MaxHTTPConnections {
		s.dial(t, fmt.Sprintf("10.0.0.%d:1", i))
	}
	mustAsk(t, s.dial(t, "[::1]:1"), "an operator who comes now")
	mustAsk(t, operator, "the operator, that rested meanwhile")
	if got := r.doors[0].stats(); got.open > few.MaxHTTPConnections+2 || got.shed == 0 {
		t.Errorf("%+v", got)
	}
	if _, _, err := ask(early, "/readyz"); err == nil {
		t.Error("the one that has waited longest is still there")
	}
}

// Who is being served is closed for nobody: the next one is turned away until one of them has ended.
func TestWhoIsServedIsNotShed(t *testing.T) {
	r := start(t, few)
	address := r.Addrs().HTTP.String()
	var streams []net.Conn
	for range fewShare {
		conn := dial(t, address)
		io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%s %v", line, err)
		}
		streams = append(streams, conn)
	}
	if n, err := dial(t, address).Read(make([]byte, 1)); err == nil {
		t.Fatalf("%d bytes for one too many", n)
	}
	if got := r.doors[0].stats(); got.turnedAway != 1 || got.shed != 0 || got.open != fewShare {
		t.Errorf("%+v", got)
	}
	streams[3].Close()
	for late := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		if code, _, err := ask(dial(t, address), "/readyz"); err == nil && code == http.StatusOK {
			break
		}
		if time.Now().After(late) {
			t.Fatal("nobody comes in although one has left")
		}
	}
}

// Under TLS the server knows a connection by another name.
func TestWhoIsServedUnderTLSIsNotShed(t *testing.T) {
	d := newDoor(32, slog.New(slog.DiscardHandler))
	began, release := make(chan struct{}), make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	}))
	srv.Listener = d.at(srv.Listener)
	srv.Config.ConnState = d.changed
	srv.StartTLS()
	defer srv.Close()
	answered := make(chan error, 1)
	go func() {
		res, err := srv.Client().Get(srv.URL)
		if err == nil {
			err = res.Body.Close()
		}
		answered <- err
	}()
	<-began
	for range 3 * fewShare {
		dial(t, srv.Listener.Addr().String())
	}
	for late := time.Now().Add(20 * time.Second); d.stats().shed < 2*fewShare && time.Now().Before(late); {
		<-time.After(time.Millisecond)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("%v, %+v", err, d.stats())
	}
}

// Who doesn't read an answer holds its connection for half a minute.
func TestAnswersThatNobodyReadsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, n bubble) {
		conn, err := n.dial("127.0.0.2")(context.Background(), n.Addrs().HTTP.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 500))
		<-time.After(time.Second)
		if got := n.doors[0].stats(); got.open != 1 {
			t.Fatalf("%+v", got)
		}
		<-time.After(answerWithin)
		if got := n.doors[0].stats(); got.open != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestWhoCountsAsOne(t *testing.T) {
	for a, b := range map[string]string{"127.0.0.1:1": "[::1]:2", "127.3.4.5:1": "[::ffff:127.0.0.1]:2", "10.0.0.1:1": "[::ffff:10.0.0.1]:2",
		"[2001:db8:0:1::1]:1": "[2001:db8:0:1:ffff::2]:3", "[fe80::1%eth0]:1": "[fe80::2]:1"} {
		if addressOf(t, a) != addressOf(t, b) {
			t.Errorf("%s and %s are two", a, b)
		}
	}
	for a, b := range map[string]string{"10.0.0.1:1": "10.0.0.2:1", "[2001:db8:0:1::1]:1": "[2001:db8:0:2::1]:1", "[::1]:1": "[::2]:1"} {
		if addressOf(t, a) == addressOf(t, b) {
			t.Errorf("%s and %s are one", a, b)
		}
	}
}

func addressOf(t *testing.T, text string) string {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", text)
	if err != nil {
		t.Fatal(err)
	}
	return neighbour(at).String()
}
