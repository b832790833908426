//go:build linux

package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/node"
)

// server is a registry in a process of its own.
type server struct {
	*process
	settings   node.Settings
	grpc, http string
}

// startNode starts one; where nothing else is said on any free ports.
func startNode(t *testing.T, s node.Settings) *server {
	t.Helper()
	if s.GRPC == "" {
		s.GRPC, s.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	}
	p := spawn(t, order{Role: "registry", Settings: s})
	ready := p.awaitKind("ready")
	s.GRPC, s.HTTP = ready.GRPC, ready.HTTP
	return &server{p, s, ready.GRPC, ready.HTTP}
}

// again starts another run of a registry that has ended, at the same addresses.
func (s *server) again(change func(*node.Settings)) *server {
	s.t.Helper()
	settings := s.settings
	change(&settings)
	return startNode(s.t, settings)
}

// succeed has another run of the registry take its addresses over the moment it is killed.
func (s *server) succeed(change func(*node.Settings)) *server {
	s.t.Helper()
	settings := s.settings
	change(&settings)
	p := spawn(s.t, order{Role: "registry", Settings: settings, SlowStart: true})
	p.awaitKind("starting")
	s.kill()
	p.tell("start")
	ready := p.awaitKind("ready")
	return &server{p, settings, ready.GRPC, ready.HTTP}
}

// ask reads what one of the console's addresses says.
func (s *server) ask(path string, into any) error {
	hc := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := hc.Get("http://" + s.http + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// events returns what has happened, of some kinds; of all if none is named.
func (s *server) events(kinds ...eider.EventKind) (out []eider.Event) {
	s.t.Helper()
	var page struct{ Events []eider.Event }
	if err := s.ask("/v1/events?limit=1000", &page); err != nil {
		s.t.Fatal(err)
	}
	for _, e := range page.Events {
		for _, k := range kinds {
			if e.Kind == k {
				out = append(out, e)
			}
		}
	}
	if len(kinds) == 0 {
		return page.Events
	}
	return out
}

// happened waits for an event.
func (s *server) happened(kind eider.EventKind, service, id string) eider.Event {
	s.t.Helper()
	var found eider.Event
	eventually(s.t, fmt.Sprintf("%s of %s/%s", kind, service, id), func() bool {
		for _, e := range s.events(kind) {
			if e.Service == service && (id == "" || e.ID == id) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// view returns the node's view of a service; empty if it doesn't know it.
func (s *server) view(service string) *eider.View {
	s.t.Helper()
	v := new(eider.View)
	if err := s.ask("/v1/services/"+service, v); err != nil && !strings.Contains(err.Error(), "404") {
		s.t.Fatal(err)
	}
	return v
}

// drains returns the running and the finished ones of a service, the newest first.
func (s *server) drains(service string) []eider.Drain {
	s.t.Helper()
	var page struct{ Drains []eider.Drain }
	if err := s.ask("/v1/drains?service="+service, &page); err != nil && !strings.Contains(err.Error(), "404") {
		s.t.Fatal(err)
	}
	return page.Drains
}

// calls tells whether the node knows a caller of that name.
func (s *server) calls(caller string) bool {
	s.t.Helper()
	var page struct{ Callers []struct{ ID string } }
	if err := s.ask("/v1/callers?service=orders", &page); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range page.Callers {
		if c.ID == caller {
			return true
		}
	}
	return false
}

// metric reads an unlabelled one.
func (s *server) metric(name string) float64 {
	s.t.Helper()
	hc := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := hc.Get("http://" + s.http + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return v
		}
	}
	s.t.Fatalf("no metric %s", name)
	return 0
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !ok(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// holds demands that a condition holds for a while, looked at again and again.
func holds(t *testing.T, what string, d time.Duration, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(d); ; {
		if !ok() {
			t.Fatalf("it doesn't hold that %s", what)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// lapse lets real time pass for processes that no bubble holds.
func lapse(d time.Duration) { <-time.After(d) }

// instance is a process of a service.
type instance struct {
	*process
	id, addr string
}

// start starts an instance and waits until it is listed.
func start(t *testing.T, s *server, service, id string) *instance {
	t.Helper()
	return startAs(t, order{Role: "instance", GRPC: s.grpc, Service: service, ID: id})
}

func startAs(t *testing.T, o order) *instance {
	t.Helper()
	o.Role = "instance"
	p := spawn(t, o)
	return &instance{p, o.ID, p.awaitKind("listed").Addr}
}

// startCaller starts a caller in a process of its own, and waits until its calls are answered.
func startCaller(t *testing.T, o order) (p *process, name string) {
	t.Helper()
	o.Role = "caller"
	p = spawn(t, o)
	name = p.awaitKind("ready").Text
	for p.tally().Requests < 10 {
		lapse(5 * time.Millisecond)
	}
	return p, name
}

// tally asks a caller how it goes.
func (p *process) tally() tally {
	p.t.Helper()
	p.mu.Lock()
	from := len(p.lines)
	p.mu.Unlock()
	p.tell("tally")
	var got *tally
	eventually(p.t, "tally", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines[from:] {
			if l.Kind == "tally" {
				got = l.Tally
				return true
			}
		}
		return false
	})
	return *got
}

// member finds a caller in a report.
func member(members []eider.Member, caller string) (eider.Member, bool) {
	for _, m := range members {
		if m.Caller == caller {
			return m, true
		}
	}
	return eider.Member{}, false
}
