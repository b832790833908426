package console

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/console/stage"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is the node run of every scene.
const run = 0xabc

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// scene is a small registry in the middle of things. In a bubble it is 2000-01-01.
func scene() *stage.Registry {
	now := time.Now()
	reg := stage.New(eider.Node{Name: "node-1", Run: run, Version: "v0", Stance: "AP, one node", Since: now.Add(-time.Hour),
		Ready: true, Complete: true, Services: 2, Instances: 4, Callers: 2, Bound: 8 * time.Second})
	reg.SetCallers(
		eider.Caller{ID: "checkout@b2f19c", Kind: eider.Native, Service: "orders", Stream: true, Since: now.Add(-192 * time.Second), Cursor: eider.Cursor{Run: run, Number: 7}, Cap: 8 * time.Second},
		eider.Caller{ID: "web@11aa22", Kind: eider.Native, Service: "orders", Since: now.Add(-time.Minute), Cursor: eider.Cursor{Run: run, Number: 5}, Behind: 2, Cap: 8 * time.Second},
	)
	reg.SetView(&eider.View{Service: "orders", Cursor: eider.Cursor{Run: run, Number: 7}, Complete: true,
		Instances: []eider.Instance{
			instance("orders", "1", eider.Up, 0),
			instance("orders", "2", eider.Draining, 0),
			instance("orders", "3", eider.Up, eider.StreamEnded|eider.BeatsMissed),
		},
		Gone: []eider.Gone{{ID: "0", Incarnation: nonce(9), Attachment: 1, Version: 4, Status: eider.Left}}})
	reg.SetView(&eider.View{Service: "pay", Cursor: eider.Cursor{Run: run, Number: 1}, Complete: true,
		Instances: []eider.Instance{instance("pay", "a", eider.Starting, 0)}})
	breaker := func(state eider.BreakerState, rule eider.BreakerRule, count, of uint64, ago, retry time.Duration) eider.Breaker {
		b := eider.Breaker{State: state, Rule: rule, Count: count, Of: of, Since: now.Add(-ago)}
		if retry > 0 {
			b.Retry = now.Add(retry)
		}
		return b
	}
	reg.SetBreakers(
		eider.Breakers{Key: eider.Key{Service: "orders", ID: "1"}, Incarnation: nonce('1'), State: eider.BreakerOpen, Rejecting: 2, Told: 3, Callers: 3, Seen: []eider.Seen{
			{Caller: "checkout@b2f19c", Breaker: breaker(eider.BreakerOpen, eider.BreakerSlowRate, 7, 10, 12*time.Second, 3*time.Second)},
			{Caller: "web@11aa22", Breaker: breaker(eider.BreakerHalfOpen, eider.BreakerTrial, 0, 0, time.Second, 0)}}, LeftOut: 1},
		eider.Breakers{Key: eider.Key{Service: "pay", ID: "a"}, Incarnation: nonce('a'), State: eider.BreakerForcedOpen, Rejecting: 1, Told: 1, Callers: 1, Seen: []eider.Seen{
			{Caller: "web@11aa22", Breaker: breaker(eider.BreakerForcedOpen, eider.BreakerByHand, 0, 0, time.Hour, 0)}}},
	)
	reg.SetTiming(eider.Timing{Service: "pay", Beat: 2 * time.Second, Lease: 45 * time.Second, SuspectAfter: 4500 * time.Millisecond, Evidence: 300 * time.Millisecond,
		Reattach: time.Second, Batch: 5 * time.Millisecond, Cap: 8 * time.Second, Before: 3 * time.Second, Bound: 8 * time.Second})
	reg.SetTiming(eider.Timing{Service: "orders", Beat: 2 * time.Second, Lease: 20 * time.Second, SuspectAfter: 4500 * time.Millisecond, Evidence: 300 * time.Millisecond,
		Reattach: time.Second, Batch: 5 * time.Millisecond, Cap: 8 * time.Second, Bound: 8 * time.Second})
	reg.SetDrains(
		eider.Drain{Departure: eider.Departure{Key: eider.Key{Service: "orders", ID: "2"}, Incarnation: nonce(2)}, Kind: eider.LeaveDrain, Since: now.Add(-2 * time.Second),
			Bound: 8 * time.Second, Status: eider.Draining, Total: 2, Open: 1, Members: []eider.Member{
				{Caller: "web@11aa22", Kind: eider.Native, State: eider.Waiting, Cap: 8 * time.Second},
				{Caller: "checkout@b2f19c", Kind: eider.Native, State: eider.LetGo, Stream: true, Cap: 8 * time.Second, Settled: 4 * time.Millisecond}}},
		eider.Drain{Departure: eider.Departure{Key: eider.Key{Service: "orders", ID: "0"}, Incarnation: nonce(9)}, Kind: eider.LeaveDrain, Since: now.Add(-time.Minute),
			Bound: 8 * time.Second, Barrier: 12 * time.Millisecond, Reached: true, Status: eider.Left, Total: 1, Members: []eider.Member{
				{Caller: "checkout@b2f19c", Kind: eider.Native, State: eider.LetGo, Stream: true, Cap: 8 * time.Second, Settled: 12 * time.Millisecond}}},
	)
	key := func(kind eider.EventKind, id string, n uint64) eider.Event {
		return eider.Event{Time: now.Add(-time.Minute), Kind: kind, Service: "orders", ID: id, Incarnation: nonce(n)}
	}
	reg.Tell(key(eider.EventRegistered, "2", 2))
	reg.Tell(key(eider.EventLeaving, "0", 9))
	reg.Tell(key(eider.EventBarrier, "0", 9))
	reg.Tell(key(eider.EventLeft, "0", 9))
	return reg
}

func nonce(n uint64) eider.Incarnation { return eider.Incarnation{Number: 1, Nonce: n} }

func instance(service, id string, status eider.Status, doubt eider.Suspicion) eider.Instance {
	return eider.Instance{Suspicion: doubt, Record: eider.Record{Key: eider.Key{Service: service, ID: id}, Incarnation: nonce(uint64(id[0])),
		Attachment: 1, Version: 1, Status: status, Address: "127.0.0.1:808" + string(id[0]&7+'0'), Zone: "a",
		Ports: map[string]uint16{"metrics": 9090}, Metadata: map[string]string{"git-sha": "4f1c<", "git.sha": "x"}}}
}

// ask sends one GET; headers come in pairs.
func ask(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	raw, query, _ := strings.Cut(path, "?")
	r.URL.Path, r.URL.RawQuery, r.Host = raw, query, "127.0.0.1:8761"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestAnswers holds every JSON answer, good and bad, to testdata/answers.txt.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(scene(), Config{Version: "v0", Logger: quiet()})
		var out bytes.Buffer
		for _, path := range []string{
			"/", "/healthz", "/readyz", "/v1/services", "/v1/services?limit=1", "/v1/services?after=orders",
			"/v1/services/orders", "/v1/services/ORDERS?limit=1", "/v1/services/orders?after=2&limit=1", "/v1/services/pay",
			"/v1/callers", "/v1/callers?limit=1", "/v1/callers?after=orders/checkout@b2f19c", "/v1/callers?service=pay",
			"/v1/breakers", "/v1/breakers?limit=1", "/v1/breakers?after=orders/1", "/v1/breakers?service=orders&wait=1s", "/v1/breakers?service=ordesr",
			"/v1/drains?service=orders", "/v1/drains?limit=1", "/v1/drains?service=pay",
			"/v1/window?service=orders", "/v1/window?service=pay", "/v1/window", "/v1/window?service=order", "/v1/window?service=orders&limit=1",
			"/v1/events", "/v1/events?after=2", "/v1/events?after=abc-3", "/v1/events?after=def-3&limit=1", "/v1/events?last=1", "/v1/events?service=pay",
			"/v1/sd", "/v1/sd?service=orders&port=metrics", "/v1/sd?service=nobody", "/v1/sd?port=grpc",
			"/v1/services/ordes", "/v1/services/zzz", "/v1/callers?service=ordesr", "/v1/drains?service=zzz", "/v1/instances", "/v1/services/",
			"/v1/services/a%20b", "/v1/services?limit=0&after=&x=1", "/v1/services?limit=many&limit=2", "/v1/services?%zz=1",
			"/v1/services/orders?wait=2m", "/v1/services/orders?caller=shop", "/v1/services/orders?every=10s&cache=1s", "/v1/services/orders?caller=&every=0s&cache=11m&wait=x",
			"/v1/services/nobody?caller=shop&every=10s", "/v1/services/pay?caller=shop&every=10s", "/v1/callers?caller=shop&every=10s", "/v1/events?after=one", "/v1/events?after=1&last=1", "/v1/callers?service=-", "/healthz/x", "//evil.example/..", "/v1/../v1/services", "/v1//services", "",
		} {
			w := ask(h, path)
			fmt.Fprintf(&out, "GET %s\n%d %s\n", path, w.Code, w.Header().Get("Content-Type"))
			if tag := w.Header().Get("ETag"); tag != "" {
				fmt.Fprintf(&out, "ETag: %s\n", tag)
			}
			if err := json.Indent(&out, w.Body.Bytes(), "", "  "); err != nil {
				t.Errorf("GET %s: not JSON: %v", path, err)
			}
			out.WriteString("\n")
		}
		golden(t, "answers.txt", out.Bytes())
	})
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, diff)
	}
}

// TestOnlyThisMachineAsks: a page of a stranger's can't read a loopback port by naming it (DNS rebinding).
func TestOnlyThisMachineAsks(t *testing.T) {
	h := New(scene(), Config{Hosts: []string{"Eider.Internal"}, Logger: quiet()})
	for host, want := range map[string]int{
		"127.0.0.1:8761": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "localhost:8761": 200, "LOCALHOST": 200, "[::1]:8761": 200, "[::1]": 200,
		"eider.internal:8761": 200, "": 200, "[::ffff:127.0.0.1]:8761": 200,
		"evil.example": 403, "evil.example:8761": 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403, "localhost.evil.example:8761": 403,
		"[::1": 403, "127.0.0.1:port": 403, "0.0.0.0:8761": 403, "localhost:8761:1": 403,
	} {
		if got := ask(h, "/v1/services", "Host", host).Code; got != want {
			t.Errorf("Host %q: status %d, want %d", host, got, want)
		}
	}
	if got := ask(h, "/v1/services", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors").Code; got != 403 {
		t.Errorf("a page of another site: status %d, want 403", got)
	}
	if got := ask(h, "/v1/services", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate").Code; got != 200 {
		t.Errorf("a link followed from another site: status %d, want 200", got)
	}
	w := ask(h, "/v1/services")
	if w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v: no origin may read, no type may be guessed", w.Header())
	}
}

func TestOnlyReads(t *testing.T) {
	h := New(scene(), Config{Logger: quiet()})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"} {
		r := httptest.NewRequest(method, "/", nil)
		r.Host, r.URL.Path = "localhost", "/v1/services"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: status %d, Allow %q; want 405 and what is allowed", method, w.Code, w.Header().Get("Allow"))
		}
	}
	if got := ask(h, "/v1/services?"+strings.Repeat("a", maxQuery+1)).Code; got != http.StatusBadRequest {
		t.Errorf("a query beyond the bound: status %d, want 400", got)
	}
}

func TestEveryKindHasAStatus(t *testing.T) {
	for kind := eider.Internal; !strings.HasPrefix(kind.String(), "Kind("); kind++ {
		if _, ok := statusOf[kind]; !ok {
			t.Errorf("kind %q has no row in statusOf", kind)
		}
	}
	w := httptest.NewRecorder()
	failWith(w, &eider.Error{Kind: eider.Limited, Err: http.ErrBodyNotAllowed, RetryAfter: 1100 * time.Millisecond})
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" {
		t.Errorf("limited: status %d, Retry-After %q; want 429 and whole seconds, rounded up", w.Code, w.Header().Get("Retry-After"))
	}
}

// TestReadiness: reasons until ready; a node that is cold is ready and says that it isn't complete.
func TestReadiness(t *testing.T) {
	reg := stage.New(eider.Node{Name: "node-1"})
	var pending []string
	h := New(reg, Config{Pending: func() []string { return pending }, Logger: quiet()})
	check := func(status int, parts ...string) {
		t.Helper()
		w := ask(h, "/readyz")
		for _, part := range parts {
			if w.Code != status || !strings.Contains(w.Body.String(), part) {
				t.Errorf("status %d, body %s; want %d and %s", w.Code, w.Body, status, part)
			}
		}
	}
	check(503, `"reasons":["the node isn't running`)
	pending = []string{"the gRPC port isn't open yet"}
	check(503, `"reasons":["the gRPC port isn't open yet"]`)
	reg.SetNode(eider.Node{Ready: true})
	check(503, `"not ready"`)
	pending = nil
	check(200, `"status":"ready"`, `"complete":false`)
	if w := ask(h, "/healthz"); w.Code != 200 {
		t.Errorf("healthz: %d", w.Code)
	}
}

// TestAColdNodeEmptiesNoTargets: Prometheus keeps its targets when a request fails.
func TestAColdNodeEmptiesNoTargets(t *testing.T) {
	reg := scene()
	reg.SetNode(eider.Node{Ready: true, Complete: false})
	if w := ask(New(reg, Config{Logger: quiet()}), "/v1/sd"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("a cold node: status %d, want 503 with Retry-After", w.Code)
	}
}

// TestAnswersAreBounded: pages by bytes; every item is reached by asking on; the discovery, which knows no
// pages, fails with a sentence.
func TestAnswersAreBounded(t *testing.T) {
	reg := stage.New(eider.Node{Ready: true, Complete: true})
	v := &eider.View{Service: "big", Cursor: eider.Cursor{Run: 1, Number: 1}, Complete: true}
	for i := range 100 {
		in := instance("big", fmt.Sprintf("%03d", i), eider.Up, 0)
		in.Metadata = map[string]string{"k": strings.Repeat("\x01", eider.MaxMetadataValue)}
		v.Instances = append(v.Instances, in)
	}
	reg.SetView(v)
	h := New(reg, Config{MaxBytes: 32 << 10, Logger: quiet()})
	seen, next := 0, ""
	for {
		w := ask(h, "/v1/services/big"+next)
		var got struct {
			Instances []eider.Instance
			Next      string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Body.Len() > 40<<10 || len(got.Instances) == 0 {
			t.Fatalf("status %d, %d bytes, %d instances, %v", w.Code, w.Body.Len(), len(got.Instances), err)
		}
		for _, in := range got.Instances {
			if in.ID != v.Instances[seen].ID {
				t.Fatalf("instance %q comes where %q is due", in.ID, v.Instances[seen].ID)
			}
			seen++
		}
		if got.Next == "" {
			break
		}
		next = "?after=" + got.Next
	}
	if seen != 100 {
		t.Errorf("%d instances seen, want 100", seen)
	}
	if w := ask(h, "/v1/sd"); w.Code != 429 || !strings.Contains(w.Body.String(), "service=NAME") {
		t.Errorf("the discovery: status %d %s", w.Code, w.Body)
	}
}
