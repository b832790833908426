package console

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/access"
)

// guarded lets in the tokens "reader" (read) and "ops" (operate) and "orders" (register orders).
func guarded(t *testing.T, told *[]eider.Event) Config {
	t.Helper()
	var book []byte
	for name, roles := range map[string]access.Roles{"reader": {Read: true}, "ops": {Operate: true}, "orders": {Register: []string{"orders"}}} {
		book = access.AppendLine(book, access.Identity{Name: name, Kind: access.Token, Roles: roles}, name, time.Now())
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, book, 0o600); err != nil {
		t.Fatal(err)
	}
	k := access.NewKeeper(path)
	if _, err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	return Config{Version: "v0", Logger: quiet(), Guard: &access.Guard{Keeper: k},
		Audit: &access.Audit{Log: quiet(), Tell: func(e eider.Event) { *told = append(*told, e) }}}
}

// A page that was led here by a name of its own, or that sends a request from elsewhere, gets nothing; whoever is
// here, and programs, do.
func TestAttackBrowserReads(t *testing.T) {
	h := New(scene(), Config{Version: "v0", Logger: quiet(), Hosts: []string{"registry.example"}})
	local := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 8761}))
	for _, c := range []struct {
		host, origin, site string
		want               int
	}{
		{"127.0.0.1:8761", "", "", 200}, {"localhost:8761", "", "none", 200}, {"[::1]:8761", "", "same-origin", 200},
		{"registry.example:8761", "", "", 200}, {"10.0.0.7:8761", "", "", 200},
		{"127.0.0.1:8761", "http://127.0.0.1:8761", "same-origin", 200},
		{"evil.example:8761", "", "", 403}, // DNS rebinding
		{"evil.example:8761", "http://evil.example:8761", "same-origin", 403},
		{"10.0.0.8:8761", "", "", 403},
		{"127.0.0.1.evil.example", "", "", 403}, {"localhost.evil.example:8761", "", "", 403},
		{"127.0.0.1:8761", "http://evil.example", "", 403}, // a browser without Sec-Fetch-Site
		{"127.0.0.1:8761", "null", "", 403},                // a sandboxed page
		{"127.0.0.1:8761", "http://127.0.0.1:9999", "same-site", 403},
		{"127.0.0.1:8761", "https://127.0.0.1:8761", "", 403},
		{"127.0.0.1:8761", "", "cross-site", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/services", nil).WithContext(local)
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%+v: %d", c, w.Code)
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%+v: the answer has %s", c, name)
			}
		}
	}
}

// What changes something is for operators, and for no page of another origin: a form can't send JSON, and what can
// names its origin.
func TestAttackBrowserWrites(t *testing.T) {
	var told []eider.Event
	for _, c := range []struct {
		token, host, origin, kind string
		want                      int
	}{
		{"ops", "127.0.0.1:8761", "", "application/json", 204},
		{"ops", "127.0.0.1:8761", "http://127.0.0.1:8761", "application/json; charset=utf-8", 204},
		{"", "127.0.0.1:8761", "", "application/json", 401},
		{"wrong", "127.0.0.1:8761", "", "application/json", 401},
		{"reader", "127.0.0.1:8761", "", "application/json", 403},
		{"orders", "127.0.0.1:8761", "", "application/json", 403},
		{"ops", "127.0.0.1:8761", "http://evil.example", "application/json", 403},
		{"ops", "evil.example:8761", "http://evil.example:8761", "application/json", 403},
		{"ops", "127.0.0.1:8761", "", "application/x-www-form-urlencoded", 415},
		{"ops", "127.0.0.1:8761", "", "text/plain", 415},
		{"ops", "127.0.0.1:8761", "", "", 415},
	} {
		con := New(scene(), guarded(t, &told)).(*console)
		done := false
		r := httptest.NewRequest(http.MethodPost, "/v1/holds", strings.NewReader("{}"))
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Content-Type": c.kind, "Authorization": "Bearer " + c.token} {
			if value != "" && value != "Bearer " {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		if reason, sentence := con.foreign(r); reason != "" {
			fail(w, http.StatusForbidden, eider.Invalid, sentence)
		} else {
			con.writes(func(w http.ResponseWriter, r *http.Request) {
				done = true
				con.operated(r, "held it", eider.Key{Service: "orders", ID: "1"})
				w.WriteHeader(http.StatusNoContent)
			})(w, r)
		}
		if w.Code != c.want || done != (c.want == 204) {
			t.Errorf("%+v: %d, done %v", c, w.Code, done)
		}
	}
	acts := 0
	for _, e := range told {
		if e.Kind == eider.EventOperated {
			acts++
			if e.Caller != "token ops" || e.Service != "orders" || !strings.Contains(e.Detail, "held it, from 192.0.2.1") {
				t.Errorf("the audit says %+v", e)
			}
		}
		if strings.Contains(e.Detail, "Bearer") || strings.Contains(e.Detail, "wrong") {
			t.Errorf("the audit repeats what was shown: %+v", e)
		}
	}
	if acts != 2 {
		t.Errorf("%d acts were told, want 2", acts)
	}
}

// Refusals are told, but no flood of them; and what wasn't told is counted.
func TestAttackFloodsTheAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []eider.Event
		cfg := guarded(t, &told)
		h := New(scene(), cfg)
		for range 1000 {
			ask(h, "/v1/services", "Authorization", "Bearer guess")
		}
		if n := len(told); n < 1 || n > 20 {
			t.Errorf("1000 refusals at once are %d events", n)
		}
		time.Sleep(3 * time.Second)
		told = nil
		ask(h, "/v1/services")
		if len(told) != 1 || !strings.Contains(told[0].Detail, "(and 990 refusals before, untold)") {
			t.Errorf("after a rest: %+v", told)
		}
		if n := cfg.Audit.Refusals(); n != 1001 {
			t.Errorf("%d counted", n)
		}
	})
}

// An event stream ends with what its reader may do.
func TestEventStreamsEndWithTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []eider.Event
		cfg := guarded(t, &told)
		reg := scene()
		h := New(reg, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := httptest.NewRequest(http.MethodGet, "/v1/events", nil).WithContext(ctx)
		r.Host = "127.0.0.1:8761"
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Authorization", "Bearer reader")
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() { defer close(done); h.ServeHTTP(w, r) }()
		synctest.Wait()
		cfg.Guard.Keeper = access.NewKeeper("/nowhere")
		reg.Tell(eider.Event{Kind: eider.EventLeft, Service: "secret", ID: "1"})
		<-done
		if body := w.Body.String(); strings.Contains(body, "secret") || !strings.Contains(body, "what you may do has changed") {
			t.Errorf("after the token was revoked:\n%s", body)
		}
	})
}
