package console

import (
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/breaker"
	"github.com/eiderhq/eider/breaker/fleet"
	"github.com/eiderhq/eider/server/internal/access"
	"github.com/eiderhq/eider/server/internal/panel"
)

// TestSharedBreakersByHTTP: they are read by whoever reads, and told an operator's word as instances are held.
func TestSharedBreakersByHTTP(t *testing.T) {
	mem := fleet.NewMemory(0)
	var told []string
	h := New(scene(), Config{Logger: quiet(), Panel: panel.New(mem, nil), Audit: &access.Audit{Log: quiet(), Tell: func(e eider.Event) { told = append(told, e.String()) }}})
	if _, _, err := mem.Swap(t.Context(), "orders", 0, fleet.Record{Epoch: 1, State: breaker.Open, For: time.Minute, Rule: breaker.RuleFailureRate, Count: 3, Of: 4, Seers: 3}.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := mem.Swap(t.Context(), "https://pay", 0, fleet.Record{Epoch: 1, State: breaker.Open, For: time.Minute}.Bytes()); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string, status int, parts ...string) {
		t.Helper()
		w := send(h, method, path, body)
		for _, part := range append(parts, "") {
			if w.Code != status || !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s %s %s: status %d, want %d and %q: %s", method, path, body, w.Code, status, part, w.Body)
			}
		}
	}
	ask("GET", "/v1/breakers?service=orders", "", 200, `"fleet":[{"key":"orders","state":"open","rule":"failure rate","count":3,"of":4`, `"seers":3`)
	ask("GET", "/v1/breakers?limit=1", "", 200, `"fleet":[{"key":"https://pay"`, `"fleet_left_out":1`)
	if w := send(h, "GET", "/v1/breakers?after=orders/1", ""); strings.Contains(w.Body.String(), "fleet") {
		t.Errorf("on the second page: %s", w.Body)
	}
	for do, state := range map[string]string{"open": "forced open", "close": "forced closed", "reset": "closed"} {
		ask("POST", "/v1/breakers", `{"key": "orders", "do": "`+do+`"}`, 200, `"state":"`+state+`"`)
	}
	ask("POST", "/v1/breakers", `{"key": "https://pay", "do": "reset"}`, 200)
	ask("POST", "/v1/breakers", `{"key": "nobodys", "do": "open"}`, 404, "nobodys")
	ask("POST", "/v1/breakers", `{"key": "orders", "do": "shut"}`, 400, "open, close and reset")
	ask("POST", "/v1/breakers", `{"key": "orders", "do": "open", "for": "2h"}`, 400, "for")
	ask("POST", "/v1/breakers", `{"key": "orders", "do": "open"} {}`, 400, "one object")
	ask("DELETE", "/v1/breakers", "", 405)
	for _, want := range []string{"operator orders somebody on this machine: open the breaker that callers share, from 127.0.0.1",
		`operator somebody on this machine: reset the breaker that callers share by the key "https://pay", from 127.0.0.1`} {
		if !strings.Contains(strings.Join(told, "\n"), want) {
			t.Errorf("nobody was told %q: %q", want, told)
		}
	}
	if w := send(New(scene(), Config{Logger: quiet()}), "POST", "/v1/breakers", `{"key": "orders", "do": "open"}`); w.Code != 503 {
		t.Errorf("a node without a panel: %d", w.Code)
	}
}

// A page of another site, a form and who only reads force nothing.
func TestAttackForcesASharedBreakerByHTTP(t *testing.T) {
	mem := fleet.NewMemory(0)
	if _, _, err := mem.Swap(t.Context(), "orders", 0, fleet.Record{Epoch: 1, State: breaker.Closed}.Bytes()); err != nil {
		t.Fatal(err)
	}
	h := New(scene(), Config{Logger: quiet(), Panel: panel.New(mem, nil)})
	const body = `{"key": "orders", "do": "open"}`
	for name, headers := range map[string][]string{"a form": {"Content-Type", "text/plain"}, "another origin": {"Origin", "http://evil.example"}, "another site": {"Sec-Fetch-Site", "cross-site"}} {
		if w := send(h, "POST", "/v1/breakers", body, headers...); w.Code < 400 {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	cfg := guarded(t, &[]eider.Event{})
	cfg.Panel = panel.New(mem, nil)
	asked := New(scene(), cfg)
	for token, want := range map[string]int{"reader": 403, "wrong": 401, "": 401, "ops": 200} {
		if w := send(asked, "POST", "/v1/breakers", body, "Authorization", "Bearer "+token); w.Code != want {
			t.Errorf("token %q: status %d, want %d", token, w.Code, want)
		}
		if r, _ := fleet.Read(mem.Look("orders", false)); r.State != breaker.Closed {
			if token != "ops" {
				t.Errorf("token %q has forced it", token)
			}
			if _, err := fleet.Force(t.Context(), mem, "orders", breaker.Closed); err != nil {
				t.Fatal(err)
			}
		}
	}
}
