package console

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/front/console/stage"
)

// holding is a stage on which instances can be held.
type holding struct {
	*stage.Registry
	held     map[eider.Key]eider.Hold
	released []string
}

func (h *holding) Hold(key eider.Key, word eider.Hold) (eider.Hold, error) {
	if key.ID == "nobody" {
		return word, eider.Errorf(eider.NotFound, "hold "+key.String(), "nobody of that name is registered")
	}
	word.Count, word.Since = uint64(len(h.held)+1), time.Unix(1_700_000_000, 0).UTC()
	h.held[key] = word
	return word, nil
}

func (h *holding) Release(key eider.Key, by string) error {
	if _, ok := h.held[key]; !ok {
		return eider.Errorf(eider.NotFound, "release "+key.String(), "it isn't held")
	}
	delete(h.held, key)
	h.released = append(h.released, key.String()+" by "+by)
	return nil
}

func (h *holding) Holds() (out []eider.Held) {
	for key, word := range h.held {
		out = append(out, eider.Held{Key: key, Hold: word, Status: eider.Up})
	}
	return out
}

// send sends one request that changes something; headers come in pairs.
func send(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8761", "127.0.0.1:50000"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHoldsByHTTP(t *testing.T) {
	reg := &holding{Registry: scene(), held: map[eider.Key]eider.Hold{}}
	h := New(reg, Config{Logger: quiet()})
	want := func(w *httptest.ResponseRecorder, status int, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if w.Code != status || !strings.Contains(w.Body.String(), part) {
				t.Errorf("status %d, want %d and %q: %s", w.Code, status, part, w.Body)
			}
		}
	}
	good := `{"service": "Orders", "id": "1", "for": "2h", "reason": "disk swap"}`
	w := send(h, "POST", "/v1/holds", good)
	want(w, 200, `"service":"orders","id":"1"`, `"count":1`, `"reason":"disk swap"`, `"by":"127.0.0.1"`, `"status":"UP"`)
	if left := time.Until(reg.held[eider.Key{Service: "orders", ID: "1"}].Until); left < 119*time.Minute || left > 2*time.Hour {
		t.Errorf("held for %s, want 2h", left)
	}
	want(ask(h, "/v1/holds"), 200, `"holds":[{"service":"orders"`)
	want(ask(h, "/v1/holds/orders/1"), 200, `"reason":"disk swap"`)
	want(ask(h, "/v1/holds/orders/2"), 404, "isn't held")
	want(send(h, "DELETE", "/v1/holds/orders/1", ""), 200, `"id":"1"`)
	want(send(h, "DELETE", "/v1/holds/orders/1", ""), 404, "isn't held")
	if len(reg.released) != 1 || reg.released[0] != "orders/1 by 127.0.0.1" {
		t.Errorf("released: %v", reg.released)
	}
	want(send(h, "POST", "/v1/holds", `{"service": "orders", "id": "nobody"}`), 404, "nobody of that name")
	if len(reg.held) != 0 {
		t.Errorf("held: %v", reg.held)
	}
}

// TestHoldsAreReadStrictly: nothing that is misspelt, too large or said twice is taken for something else, and every
// fault is told at once.
// ordered lists holds as a node does: by service, then by id, which isn't the order of what is written with a slash.
type ordered struct{ *holding }

func (h ordered) Holds() []eider.Held {
	out := h.holding.Holds()
	slices.SortFunc(out, func(a, b eider.Held) int { return a.Key.Compare(b.Key) })
	return out
}

func TestHoldsArePagedWhole(t *testing.T) {
	reg := ordered{&holding{Registry: scene(), held: map[eider.Key]eider.Hold{}}}
	for _, service := range []string{"a", "a-b", "a.c", "b"} {
		reg.held[eider.Key{Service: service, ID: "1"}] = eider.Hold{Count: 1}
	}
	h := New(reg, Config{Logger: quiet()})
	var all []string
	for next := ""; ; {
		var page struct {
			Holds []eider.Held
			Next  string
		}
		if err := json.Unmarshal(send(h, "GET", "/v1/holds?limit=1"+next, "").Body.Bytes(), &page); err != nil || len(page.Holds) != 1 {
			t.Fatalf("after %q: %+v, %v", next, page, err)
		}
		all = append(all, page.Holds[0].Service)
		if page.Next == "" {
			break
		}
		next = "&after=" + url.QueryEscape(page.Next)
	}
	if want := []string{"a", "a-b", "a.c", "b"}; !slices.Equal(all, want) {
		t.Errorf("page by page: %v, want %v", all, want)
	}
}

// A body that never comes would hold a connection for ever, also of somebody who isn't let in.
func TestAttackSendsNoBody(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(New(scene(), Config{Logger: quiet()}))
	defer srv.Close()
	nc, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.Write([]byte("POST /v1/holds HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n"))
	nc.SetReadDeadline(time.Now().Add(3 * bodyWithin))
	if _, err := io.Copy(io.Discard, nc); err != nil {
		t.Errorf("it is held: %v", err)
	}
}

func TestHoldsAreReadStrictly(t *testing.T) {
	reg := &holding{Registry: scene(), held: map[eider.Key]eider.Hold{}}
	h := New(reg, Config{Logger: quiet()})
	for body, part := range map[string]string{
		``:   "can't be read",
		`[]`: "can't be read",
		`{"service":"orders","id":"1","untill":"2h"}`:                                               "untill",
		`{"service":"orders","id":"1"} {}`:                                                          "goes on",
		`{"service":"orders","id":"1","for":"2"}`:                                                   "must be a duration",
		`{"service":"orders","id":"1","for":"-2h"}`:                                                 "must be a duration",
		`{"service":"orders","id":"1","for":"9999h"}`:                                               "must be a duration",
		`{"service":"or ders","id":""}`:                                                             "or ders",
		`{"service":"or ders","id":"a/b"}`:                                                          "a/b",
		`{"service":"orders","id":"1","reason":"` + strings.Repeat("x", eider.MaxHoldText+1) + `"}`: "reason",
		`{"service":"orders","id":"1","reason":"` + strings.Repeat("x", maxBody) + `"}`:             "can't be read",
	} {
		if w := send(h, "POST", "/v1/holds", body); w.Code != 400 || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%.60s: status %d, want 400 and %q: %s", body, w.Code, part, w.Body)
		}
	}
	if w := send(h, "POST", "/v1/holds?for=2h", `{"service":"orders","id":"1"}`); w.Code != 400 {
		t.Errorf("a parameter beside the body: status %d", w.Code)
	}
	for _, path := range []string{"/v1/holds", "/v1/services", "/v1/holds/orders"} {
		if w := send(h, "DELETE", path, ""); w.Code < 400 {
			t.Errorf("DELETE %s: status %d", path, w.Code)
		}
	}
	if w := send(h, "POST", "/v1/services", `{}`); w.Code != 405 {
		t.Errorf("POST /v1/services: status %d", w.Code)
	}
	if len(reg.held) != 0 {
		t.Errorf("held: %v", reg.held)
	}
}

// TestHoldsAreNoBrowsersToSet: a form or a script of another page holds and releases nobody.
func TestHoldsAreNoBrowsersToSet(t *testing.T) {
	reg := &holding{Registry: scene(), held: map[eider.Key]eider.Hold{{Service: "orders", ID: "2"}: {Count: 1}}}
	h := New(reg, Config{Logger: quiet()})
	good := `{"service":"orders","id":"1"}`
	for name, headers := range map[string][]string{
		"a form":         {"Content-Type", "application/x-www-form-urlencoded"},
		"plain text":     {"Content-Type", "text/plain"},
		"no type":        {"Content-Type", ""},
		"another origin": {"Origin", "http://evil.example"},
		"another port":   {"Origin", "http://127.0.0.1:8080"},
		"no origin":      {"Origin", "null"},
		"another site":   {"Sec-Fetch-Site", "cross-site"},
	} {
		if w := send(h, "POST", "/v1/holds", good, headers...); w.Code < 400 {
			t.Errorf("%s: status %d", name, w.Code)
		}
		if w := send(h, "DELETE", "/v1/holds/orders/2", "", headers...); w.Code < 400 {
			t.Errorf("%s: status %d for a release", name, w.Code)
		}
	}
	if len(reg.held) != 1 || len(reg.released) != 0 {
		t.Errorf("held: %v, released: %v", reg.held, reg.released)
	}
	if w := send(h, "POST", "/v1/holds", good, "Origin", "http://127.0.0.1:8761"); w.Code != 200 {
		t.Errorf("a page of this node: status %d: %s", w.Code, w.Body)
	}
}
