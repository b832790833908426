package cli

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestR13WatchingNeverSpins: a registry that doesn't wait, ends every stream at once or fails is asked
// again with backoff.
func TestR13WatchingNeverSpins(t *testing.T) {
	for name, c := range map[string]struct {
		args  string
		serve http.HandlerFunc
	}{
		"unchanged at once": {"instances orders -w", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("ETag", `"a:1"`)
			jsonAnswer(200, `{"service":"orders","complete":true,"instances":[]}`)(w, r)
		}},
		"a change each time": {"instances orders -w", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", fmt.Sprintf(`"a:%d"`, time.Now().UnixNano()))
			jsonAnswer(200, `{"service":"orders","complete":true,"instances":[]}`)(w, r)
		}},
		"streams that end":       {"events -f", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }},
		"streams that end again": {"drains -w", endingStreams},
		"errors later": {"instances orders -w", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("If-None-Match") != "" {
				jsonAnswer(503, `{"error":{"kind":"unavailable","message":"this node is stopping"}}`)(w, r)
				return
			}
			w.Header().Set("ETag", `"a:1"`)
			jsonAnswer(200, `{"service":"orders","complete":true,"instances":[]}`)(w, r)
		}},
	} {
		bubble(t, func(w *world) { neverSpinsBubble(w, name, c.args, c.serve) })
	}
}

func endingStreams(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v1/drains") {
		jsonAnswer(200, `{"drains":[]}`)(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "id: abc-1\n\n")
}

func neverSpinsBubble(w *world, name, args string, serve http.HandlerFunc) {
	var asked atomic.Int64
	defer w.serveWith(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1000 {
			panic(http.ErrAbortHandler) // or the test would spin for ever
		}
		serve(rw, r)
	}))()
	_, errs, end := w.begin(strings.Fields(args)...)
	time.Sleep(time.Minute)
	if n := asked.Load(); n < 10 || n > 601 { // each frameGap, and both ends of the minute count
		w.t.Errorf("%s: eider %s asked %d times in a minute, want some dozens", name, args, n)
	}
	if got := strings.Count(errs.rewind(), "trying again"); got != 1 && name != "a change each time" {
		w.t.Errorf("%s: eider %s said %d times that it tries again, want once", name, args, got)
	}
	if code := end(); code != exitOK {
		w.t.Errorf("%s: eider %s ended by Ctrl-C: exit %d", name, args, code)
	}
}

// TestATornViewIsFetchedAgain: pages of two different views are never shown as one.
func TestATornViewIsFetchedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		number, asked := 1, 0
		defer w.serveWith(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			page := func(id, next string) {
				rw.Header().Set("ETag", fmt.Sprintf(`"a:%d"`, number))
				jsonAnswer(200, fmt.Sprintf(`{"service":"orders","complete":true,"instances":[{"service":"orders","id":"%s-of-%d","status":"UP","incarnation":"00000000000000ff"}],"next":%q}`, id, number, next))(rw, r)
			}
			if asked++; r.URL.Query().Get("after") == "" {
				page("first", "x")
				if asked == 1 {
					number = 2
				}
				return
			}
			page("second", "")
		}))()
		code, out, errs := w.eider("instances", "orders")
		if code != exitOK || asked != 4 || !strings.Contains(out, "first-of-2") || !strings.Contains(out, "second-of-2") || strings.Contains(out, "-of-1") {
			t.Errorf("exit %d after %d questions:\n%s%s", code, asked, out, errs)
		}
	})
}
