package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/control"
)

// hookAt reads from the log where hooks are heard.
type hookAt struct {
	slog.Handler
	at chan string
}

func (h hookAt) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if addr, ok := a.Value.Any().(net.Addr); ok && a.Key == "hook" {
			h.at <- addr.String()
		}
		return true
	})
	return h.Handler.Handle(ctx, r)
}

// hear has a Serve under test hear hooks.
func hear(cfg *Config) (name string, at <-chan string) {
	c := make(chan string, 1)
	cfg.Control, cfg.Hook = fmt.Sprintf("eider-test-%016x", rand.Uint64()), "127.0.0.1:0"
	cfg.Logger = slog.New(hookAt{slog.DiscardHandler, c})
	return cfg.Control, c
}

func (h hookAt) Enabled(context.Context, slog.Level) bool { return true }

// answered is what a hook heard.
type answered struct {
	control.Answer
	err error
}

func ask(t *testing.T, name string, wait bool) <-chan answered {
	c := make(chan answered, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		a, err := control.Leave(ctx, name, wait)
		c <- answered{a, err}
	}()
	return c
}

func fetch(t *testing.T, url string) <-chan string {
	c := make(chan string, 1)
	go func() {
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Timeout: patience, Transport: tr}).Get(url)
		if err != nil {
			c <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		c <- fmt.Sprint(resp.StatusCode, " ", string(body))
	}()
	return c
}

// A hook begins what a signal begins, and is answered when the pause is over; a signal beside it changes nothing.
func TestHookBeginsTheLeave(t *testing.T) {
	for _, first := range []string{"the socket", "HTTP", "a signal"} {
		t.Run(first, func(t *testing.T) {
			var name string
			var at <-chan string
			h := newHeld()
			r := begin(t, h.ServeHTTP, func(_ *http.Server, cfg *Config) { name, at = hear(cfg) })
			busy := r.dial()
			busy.send("/held") // until all are answered: the process would end before a slow hook has come
			soon(t, h.in, "the request")
			url := "http://" + soon(t, at, "the hook's address") + "/leave"
			p := r.dial()
			var asked []<-chan answered
			var got []<-chan string
			switch first {
			case "the socket":
				asked = append(asked, ask(t, name, true))
			case "HTTP":
				got = append(got, fetch(t, url))
			case "a signal":
				r.stop()
			}
			soon(t, r.reg.leave, "the leave")
			r.stop() // SIGTERM beside the hook
			asked = append(asked, ask(t, name, true))
			got = append(got, fetch(t, url))
			if a := soon(t, ask(t, name, false), "an answer at once"); a.err != nil || a.State != control.Leaving || len(a.Services) != 1 {
				t.Errorf("during the pause: %+v", a)
			}
			if text := soon(t, fetch(t, url+"?wait=0"), "an answer at once"); !strings.HasPrefix(text, `200 {"state":"leaving"`) {
				t.Errorf("during the pause: %s", text)
			}
			p.send("/free")
			resp, _ := p.answer()
			told(t, resp)
			for _, c := range asked {
				select {
				case a := <-c:
					t.Fatalf("answered during the pause: %+v", a)
				default:
				}
			}
			r.reg.says(func() { r.reg.heard, r.reg.drain = true, eider.Drain{Total: 3, Open: 0} })
			r.barrier()
			haveLeft(t, asked, got)
			close(h.release)
			busy.answer()
			if report := r.end(); report.EndedBy != ByBarrier || !report.Left || report.Exit != ExitClean {
				t.Errorf("%+v", report)
			}
			if a := soon(t, ask(t, name, true), "an answer"); !errors.Is(a.err, control.ErrNobody) {
				t.Errorf("after the end: %+v", a)
			}
		})
	}
}

// haveLeft waits until all who have asked are answered that the pause is over.
func haveLeft(t *testing.T, asked []<-chan answered, got []<-chan string) {
	t.Helper()
	for _, c := range asked {
		if a := soon(t, c, "the answer"); a.err != nil || a.State != control.Left || a.EndedBy != string(ByBarrier) || a.Waited != 3 || a.Services[0] != "orders" || a.Pause <= 0 {
			t.Errorf("%+v", a)
		}
	}
	for _, c := range got {
		if text := soon(t, c, "the answer"); !strings.HasPrefix(text, `200 {"state":"left","services":["orders"]`) || !strings.Contains(text, `"ended_by":"barrier"`) {
			t.Error(text)
		}
	}
}

// A hook that comes while a request is still in flight after the pause is answered at once: SIGTERM may come.
func TestHookAfterThePause(t *testing.T) {
	var name string
	begun, rest := make(chan struct{}), make(chan struct{})
	r := begin(t, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-rest
		hello(w, r)
	}, func(_ *http.Server, cfg *Config) { name, _ = hear(cfg) })
	p := r.dial()
	p.send("/slow")
	soon(t, begun, "the request")
	first := ask(t, name, true)
	soon(t, r.reg.leave, "the leave")
	r.barrier()
	if a := soon(t, first, "the answer"); a.State != control.Left {
		t.Errorf("at the end of the pause: %+v", a)
	}
	if a := soon(t, ask(t, name, true), "the answer"); a.err != nil || a.State != control.Left || a.EndedBy != string(ByBarrier) {
		t.Errorf("after the pause: %+v", a)
	}
	close(rest)
	p.answer()
	r.end()
}

// A hook before the registration is a stop during start: the process never registers (D14).
func TestD14HookBeforeTheRegistration(t *testing.T) {
	reg := newScript()
	set, err := Config{Service: "orders", Address: ":8080", Logger: slog.New(slog.DiscardHandler)}.resolve(&http.Server{})
	if err != nil {
		t.Fatal(err)
	}
	d, finished := newDrainer(set, reg), 0
	d.beside = &Program{Finish: func(context.Context) { finished++ }}
	h := newHooked(t.Context(), "orders")
	d.hooked = h
	if a := h.Outcome(); a.State != control.Serving {
		t.Errorf("before: %+v", a)
	}
	h.Leave()
	r, err := d.through(h.ctx)
	if err != nil || len(reg.registered) != 0 || r.EndedBy != ByNoCallers || finished != 1 {
		t.Errorf("%v, registered %d times\n%+v", err, len(reg.registered), r)
	}
	if a := h.Outcome(); a.State != control.Left || !closed(h.Left()) {
		t.Errorf("after: %+v", a)
	}
}

// Beside hears hooks as Serve does, and a crash leaves nobody waiting.
func TestHookBesideAProgram(t *testing.T) {
	for _, crash := range []bool{false, true} {
		cfg, reg, ended := Config{Service: "orders", Address: ":8080", Unknown: -1}, newScript(), make(chan error, 1)
		name, _ := hear(&cfg)
		results := make(chan result, 1)
		go func() {
			report, err := beside(t.Context(), cfg, Program{Ended: ended, Finish: func(context.Context) {}}, reg)
			results <- result{report, err}
		}()
		soon(t, reg.known, "the registration")
		if crash {
			ended <- errors.New("exit status 3")
			if r := soon(t, results, "the end"); r.err == nil {
				t.Error("a crash is no error")
			}
		} else {
			asked := ask(t, name, true)
			soon(t, reg.leave, "the leave")
			close(reg.barrier)
			if a := soon(t, asked, "the answer"); a.err != nil || a.State != control.Left || a.EndedBy != string(ByBarrier) {
				t.Errorf("%+v", a)
			}
			if r := soon(t, results, "the end"); r.err != nil || !r.report.Left {
				t.Errorf("%+v", r)
			}
		}
		if a := soon(t, ask(t, name, true), "an answer"); !errors.Is(a.err, control.ErrNobody) {
			t.Errorf("after the end: %+v", a)
		}
	}
}

// What can't be listened at is an error at start: nobody is served, or registered, who couldn't be asked to leave.
func TestHookThatCannotBeHeardIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		control, hook, want string
		kind                eider.Kind
	}{{"", taken.Addr().String(), "set another port", eider.Conflict}, {"a name", "", "is no name for a socket", eider.Invalid}, {"", "8764", "as in :8764", eider.Invalid}} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		reg := newScript()
		_, err = serve(t.Context(), &http.Server{}, Config{Service: "orders", Listener: ln, Control: c.control, Hook: c.hook, Logger: slog.New(slog.DiscardHandler)}, reg)
		if err == nil || eider.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) || len(reg.registered) > 0 {
			t.Errorf("%+v: %v (%v)", c, err, eider.KindOf(err))
		}
		if nc, err := net.DialTimeout("tcp", ln.Addr().String(), time.Second); err == nil {
			nc.Close()
			t.Errorf("%+v: its listener is left open", c)
		}
	}
}
