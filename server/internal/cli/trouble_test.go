package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
)

// TestUsage: what can't be tried says why, and how it is used.
func TestUsage(t *testing.T) {
	bubble(t, func(w *world) {
		w.story("usage.txt", "foo", "service", "servces --json -w", "server foo", "demo foo", "services --json=maybe", "services --foo", "services x", "instances", "instances a b", "instances A/B", "callers a b", "drains -",
			"events -n many", "events -n -1", "events -n 99999", "events --service é", "services -o yaml", "services -o yaml --json", "services --http 1:2:3", "services --http ftp://x:1",
			"services --http localhost", "services --http http://127.0.0.1:1/eider", "services --http http://127.0.0.1:x", "version x")
		w.env["EIDER_HTTP"] = "127.0.0.1"
		if code, _, errs := w.eider("services"); code != exitUsage || !strings.Contains(errs, `EIDER_HTTP "127.0.0.1": must name a host and a port`) {
			t.Errorf("a bad EIDER_HTTP: exit %d, %s", code, errs)
		}
	})
}

// TestNoRegistry: who isn't there, doesn't answer, or is something else.
func TestNoRegistry(t *testing.T) {
	bubble(t, func(w *world) {
		w.story("away.txt", "services", "instances orders", "instances orders -w", "callers", "drains -w", "events -f", "services --http 127.0.0.1:9 --json", "instances orders --http http://127.0.0.2:80/")
		w.net.Stall("127.0.0.1")
		defer w.net.Resume("127.0.0.1")
		stop := w.serve()
		defer func() { w.net.Resume("127.0.0.1"); stop() }()
		began := time.Now()
		w.story("hung.txt", "services")
		if took := time.Since(began); took > answerTimeout+dialTimeout {
			t.Errorf("a hung registry held the command for %s", took)
		}
	})
	var all bytes.Buffer
	for _, stranger := range []struct {
		who   string
		serve http.HandlerFunc
	}{
		{"a web page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") }},
		{"a proxy that wants a login", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }},
		{"a proxy that forbids", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }},
		{"JSON of another kind", jsonAnswer(200, `{"services": 7, "callers": {}, "drains": "", "events": [{"status": "SIDEWAYS"}], "instances": [{"suspicion": "tired"}]}`)},
		{"half an answer", jsonAnswer(200, `{"services": [`)},
		{"a registry at its limit", jsonAnswer(429, `{"error":{"kind":"limited","message":"64 event streams are open; come back later"}}`)},
		{"a defect", jsonAnswer(500, `{"error":{"kind":"internal","message":"a defect\nof ours"}}`)},
		{"a kind of error from the future", jsonAnswer(418, `{"error":{"kind":"teapot","message":"short and stout"}}`)},
	} {
		bubble(t, func(w *world) {
			defer w.serveWith(stranger.serve)()
			fmt.Fprintf(&all, "# %s\n\n%s", stranger.who, w.tell("services", "instances orders -w", "events", "events -f"))
		})
	}
	golden(t, filepath.Join("testdata", "strangers.txt"), all.Bytes())
}

func jsonAnswer(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
}

// TestPortsAndSchemesAreTakenForEachOther: what answers there is known by how it answers.
func TestPortsAndSchemesAreTakenForEachOther(t *testing.T) {
	_, at, _ := startServer(t)
	for address, want := range map[string]string{
		at.GRPC:              "http://" + at.GRPC + " doesn't speak HTTP; is it a registry's gRPC port? Its HTTP port is asked, 8761 by default: name it with --http or EIDER_HTTP",
		"https://" + at.HTTP: "https://" + at.HTTP + " speaks plain HTTP, as a registry does: write http:// in --http or EIDER_HTTP",
	} {
		if code, _, errs := runReal("services", "--http", address); code != exitUnreachable || errs != "eider: "+want+"\n" {
			t.Errorf("--http %s: exit %d\n%swant: %s", address, code, errs, want)
		}
	}
}

// TestFollowingAMisspeltService says so once, and waits: it may yet come.
func TestFollowingAMisspeltService(t *testing.T) {
	bubble(t, func(w *world) {
		defer w.serve()()
		w.scene()
		out, errs, stop := w.begin("events", "-f", "--service", "ordes")
		if got, want := errs.rewind(), `eider: this node has never heard of a service "ordes": did you mean "orders"? (waiting for it)`+"\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		w.reg.Tell(eider.Event{Kind: eider.EventRegistered, Service: "ordes", ID: "1"})
		if got := out.rewind(); !strings.Contains(got, "registered        ordes/1") {
			t.Errorf("what happens to it isn't told: %q", got)
		}
		if code := stop(); code != exitOK || errs.rewind() != "" {
			t.Errorf("exit %d", code)
		}
		_, errs, stop = w.begin("events", "-f", "--service", "pay")
		if got := errs.rewind(); got != "" {
			t.Errorf("of a service that is known: %q", got)
		}
		stop()
	})
}

func TestWhichRegistry(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:8761": "http://127.0.0.1:8761", "http://localhost:1/": "http://localhost:1", "https://eider:443": "https://eider:443", "[::1]:8761": "http://[::1]:8761",
	} {
		if u, err := parseBase(text, nil); err != nil || u.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, u, err, want)
		}
	}
	bubble(t, func(w *world) {
		defer w.serve()()
		w.env["EIDER_HTTP"] = "127.0.0.1:9"
		if code, _, errs := w.eider("services"); code != exitUnreachable || !strings.Contains(errs, "127.0.0.1:9") {
			t.Errorf("EIDER_HTTP: exit %d, %s", code, errs)
		}
		if code, _, errs := w.eider("services", "--http", "127.0.0.1:8761"); code != exitOK {
			t.Errorf("--http wins over EIDER_HTTP: exit %d, %s", code, errs)
		}
	})
}

// TestPages: lists and views longer than a page come whole, and a view that changes meanwhile comes as one.
func TestPages(t *testing.T) {
	bubble(t, func(w *world) {
		const n = 5_001 // one more than a page
		v := &eider.View{Service: "orders", Cursor: eider.Cursor{Run: run, Number: 1}, Complete: true}
		var callers []eider.Caller
		for i := range n {
			in := instance("1", eider.Up, 0)
			in.ID = fmt.Sprintf("%06d", i)
			v.Instances = append(v.Instances, in)
			callers = append(callers, eider.Caller{ID: in.ID, Service: "orders", Stream: true})
			w.reg.SetView(&eider.View{Service: "s" + in.ID})
		}
		w.reg.SetCallers(callers...)
		w.reg.SetView(v)
		defer w.serve()()
		for args, want := range map[string]int{"instances orders": n + 1, "callers orders": n + 1, "services": n + 2} {
			code, out, errs := w.eider(strings.Fields(args)...)
			if got := strings.Count(out, "\n"); code != exitOK || got != want {
				t.Errorf("eider %s: %d lines, want %d (exit %d, %s)", args, got, want, code, errs)
			}
		}
	})
}

// TestCompletion: the shell is offered services that fit; without a registry nothing, and no noise.
func TestCompletion(t *testing.T) {
	bubble(t, func(w *world) {
		if code, out, errs := w.eider("__complete", "instances", ""); code != exitOK || strings.Contains(out+errs, "no registry") {
			t.Errorf("without a registry: exit %d, %q %q", code, out, errs)
		}
		defer w.serve()()
		w.scene()
		if _, out, _ := w.eider("__complete", "instances", "OR"); !strings.HasPrefix(out, "orders\n:4\n") {
			t.Errorf("completion offers %q", out)
		}
	})
}

// TestWatchInstances: drawn at every change and at no other time, across a restart of the registry.
func TestWatchInstances(t *testing.T) { bubble(t, watchInstancesBubble) }

func watchInstancesBubble(w *world) {
	stop := w.serve()
	change := func(number uint64, status eider.Status) {
		w.reg.SetView(&eider.View{Service: "orders", Cursor: eider.Cursor{Run: run, Number: number}, Complete: true, Instances: []eider.Instance{instance("1", status, 0)}})
		w.reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "orders", ID: "1"})
	}
	change(1, eider.Starting)
	out, errs, end := w.begin("instances", "orders", "-w")
	wantPart(w.t, out.rewind(), "STARTING")
	time.Sleep(2*time.Minute + time.Second) // several waits pass without news
	wantPart(w.t, out.rewind(), "")
	change(2, eider.Up)
	wantPart(w.t, out.rewind(), "UP")
	time.Sleep(2 * frameGap) // it asks again
	stop()
	wantPart(w.t, errs.rewind(), "trying again until it answers")
	time.Sleep(time.Minute)
	wantPart(w.t, errs.rewind(), "")
	change(3, eider.Draining)
	stop = w.serve()
	time.Sleep(2 * time.Second)
	wantPart(w.t, out.rewind(), "DRAINING")
	if code := end(); code != exitOK {
		w.t.Errorf("ended by Ctrl-C: exit %d, want 0", code)
	}
	w.tty = true
	out, _, end = w.begin("instances", "orders", "-w")
	wantPart(w.t, out.rewind(), "\x1b[H\x1b[2J")
	end()
	out, _, end = w.begin("instances", "orders", "-w", "--json")
	if got := out.rewind(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"service":"orders"`) {
		w.t.Errorf("watched as JSON: %q, want one line", got)
	}
	end()
	stop()
}

func wantPart(t *testing.T, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) || part == "" && got != "" {
		t.Errorf("printed %q, want %q in it", got, part)
	}
}

// TestWatchDrains: drawn at events, and each half second while one runs; no other time.
func TestWatchDrains(t *testing.T) { bubble(t, watchDrainsBubble) }

func watchDrainsBubble(w *world) {
	stop := w.serve()
	out, errs, end := w.begin("drains", "-w")
	wantPart(w.t, out.rewind(), "No instance has left")
	time.Sleep(5 * time.Minute)
	wantPart(w.t, out.rewind(), "")
	w.reg.SetDrains(drain("2", 0, eider.Draining, eider.Member{Caller: "web@1", Kind: eider.Native, State: eider.Waiting, Stream: true, Cap: 8 * time.Second}))
	w.reg.Tell(eider.Event{Kind: eider.EventLeaving, Service: "orders", ID: "2"})
	wantPart(w.t, out.rewind(), "waits for 1 of 1: web@1")
	time.Sleep(3 * time.Second)
	if got := strings.Count(out.rewind(), "waits for"); got != 6 {
		w.t.Errorf("a running drain was drawn %d times in 3s, want 6", got)
	}
	w.reg.SetDrains(drain("2", 3*time.Second, eider.Left, eider.Member{Caller: "web@1", Kind: eider.Native, State: eider.LetGo, Settled: 3 * time.Second}))
	w.reg.Tell(eider.Event{Kind: eider.EventLeft, Service: "orders", ID: "2"})
	time.Sleep(frameGap) // a frame was drawn just now
	wantPart(w.t, out.rewind(), "web@1 let go, the last")
	time.Sleep(time.Minute)
	wantPart(w.t, out.rewind(), "")
	stop()
	time.Sleep(frameGap) // its last word was drawn
	wantPart(w.t, errs.rewind(), "trying again")
	stop = w.serve()
	time.Sleep(2 * time.Second)
	wantPart(w.t, out.rewind(), "web@1 let go, the last")
	if code := end(); code != exitOK {
		w.t.Errorf("ended by Ctrl-C: exit %d, want 0", code)
	}
	stop()
}

// TestFollowEvents: what was and what comes, once each, across a restart of the port; what is lost is said.
func TestFollowEvents(t *testing.T) { bubble(t, followEventsBubble) }

func followEventsBubble(w *world) {
	stop := w.serve()
	tell := func(id string) { w.reg.Tell(eider.Event{Kind: eider.EventStatus, Service: "orders", ID: id}) }
	tell("1")
	tell("2")
	out, errs, end := w.begin("events", "-f", "-n", "1")
	wantPart(w.t, out.rewind(), "orders/2\n")
	tell("3")
	wantPart(w.t, out.rewind(), "orders/3\n")
	stop()
	wantPart(w.t, errs.rewind(), "has ended the stream")
	tell("4")
	stop = w.serve()
	time.Sleep(5 * time.Second)
	if got := out.rewind(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "orders/4") {
		w.t.Errorf("after the restart: %q, want orders/4 alone", got)
	}
	stop()
	w.reg.Keep(1)
	tell("5")
	tell("6")
	stop = w.serve()
	time.Sleep(5 * time.Second)
	wantPart(w.t, out.rewind(), "orders/6\n")
	wantPart(w.t, errs.rewind(), "no longer kept")
	w.net.Stall("127.0.0.1")
	time.Sleep(silence + time.Second)
	wantPart(w.t, errs.rewind(), "trying again")
	w.net.Resume("127.0.0.1")
	if code := end(); code != exitOK {
		w.t.Errorf("ended by Ctrl-C: exit %d, want 0", code)
	}
	out, _, end = w.begin("events", "-f", "-n", "1", "--json")
	if got := out.rewind(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"seq":`) {
		w.t.Errorf("followed as JSON: %q, want one line", got)
	}
	end()
	stop()
}

// TestClosedOutput: a reader that has gone (eider events -f | head -1) ends the command.
func TestClosedOutput(t *testing.T) {
	bubble(t, func(w *world) {
		defer w.serve()()
		w.scene()
		for _, args := range []string{"services", "instances orders -w", "drains -w", "events -f"} {
			p := w.process(strings.Fields(args), nil, &printed{})
			p.Out = closed{}
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
			if code := p.Run(ctx); code != exitFailure {
				t.Errorf("eider %s: exit %d, want %d", args, code, exitFailure)
			}
			cancel()
			synctest.Wait()
		}
	})
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, http.ErrBodyNotAllowed }

// FuzzStream: whatever a stream holds, reading it ends, and places and kinds stay on one line.
func FuzzStream(f *testing.F) {
	f.Add("retry: 2000\n: hello\n\nid: abc-1\ndata: {}\n\nevent: lost\ndata: a\ndata: b\r\n\r\n")
	f.Add("data\n\n:\n\nid: \x00\ndata:x\n\nevent:end\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := newFollowing(strings.NewReader(text), "")
		for n := 0; ; n++ {
			m, err := s.next()
			if err != nil {
				break
			}
			if strings.ContainsAny(m.event+s.id, "\n\x00") && !strings.Contains(text, "\x00") || n > len(text) {
				t.Fatalf("message %d: %q at %q", n, m, s.id)
			}
		}
	})
}

// FuzzBase: what is taken as an address names a host and a port, and no more.
func FuzzBase(f *testing.F) {
	for _, seed := range []string{"127.0.0.1:8761", "http://[::1]:1", "https://a:1/b", "x://", "http://u@h:1", ":1", "%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseBase(text, nil)
		if err != nil {
			return
		}
		if again, err := url.Parse(u.String()); err != nil || again.Hostname() == "" || again.Port() == "" || again.Path != "" || again.User != nil {
			t.Errorf("%q became %q: %v", text, u, err)
		}
	})
}

// What a gRPC port says may come before the request is written, or after; net/http has other words for each.
func TestAPortThatSpeaksFirstIsKnown(t *testing.T) {
	for text, want := range map[string]bool{
		`net/http: HTTP/1.x transport connection broken: malformed HTTP response "\x00"`: true,
		"readLoopPeekFailLocked: %!w(<nil>)":                                             true,
		"readLoopPeekFailLocked: broken":                                                 false,
		"dial tcp 127.0.0.1:1: connect refused":                                          false,
	} {
		if got := speaksFirst(errors.New(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
