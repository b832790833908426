package drain

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// child is the second process: this test binary with EIDER_DRAIN_CHILD set. It says on its standard
// output where it listens and how it goes, a line each, and ends with its report.
func child(scene string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if strings.Contains(scene, "restore") { // an idiom: the second signal shall kill. Not while draining.
		context.AfterFunc(ctx, stop)
	}
	if strings.Contains(scene, "slow start") {
		say("starting")
		<-ctx.Done() // what is slow notices nothing; it is over once the signal is in
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		say("listen: %v", err)
		os.Exit(1)
	}
	reg := newScript()
	go func() { <-reg.leave; say("leaving") }()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stuck":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {} // heeds nothing
		case "/barrier":
			close(reg.barrier)
		}
		hello(w, r)
	})}
	cfg := Config{Service: "orders", ID: "1", Listener: ln, Silent: -1, Round: -1, Unknown: -1, Logger: slog.New(slog.NewTextHandler(hints{}, nil))}
	if strings.Contains(scene, "short") {
		cfg.InFlight, cfg.Streams = 50*time.Millisecond, -1
	}
	go func() { <-reg.known; say("serving %s", ln.Addr()) }()
	report, err := serve(ctx, srv, cfg, reg)
	if err != nil {
		say("%v", err)
		os.Exit(1)
	}
	reg.mu.Lock()
	defer reg.mu.Unlock()
	text, _ := json.Marshal(report)
	say("registered %d, left %d", len(reg.registered), reg.left)
	say("%s", text)
	os.Exit(report.Exit)
}

// hints lets through what the log says about SIGINT.
type hints struct{}

func (hints) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "SIGINT") && !strings.Contains(string(b), "is cut by") {
		return os.Stdout.Write(b)
	}
	return len(b), nil
}

// process is a running child.
type process struct {
	*run
	cmd   *exec.Cmd
	lines chan string
}

func spawn(t *testing.T, scene string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "EIDER_DRAIN_CHILD="+scene)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{&run{t: t}, cmd, make(chan string, 100)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-read; cmd.Wait() })
	if first := p.says(); strings.HasPrefix(first, "serving ") {
		p.addr = strings.TrimPrefix(first, "serving ")
	}
	return p
}

func (p *process) says() string {
	p.t.Helper()
	return soon(p.t, p.lines, "a line of the child")
}

func (p *process) hears(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the child's end and returns its exit code, what it says of its registry, and its report.
func (p *process) ends() (code int, registry string, rep Report) {
	p.t.Helper()
	for registry = p.says(); registry == "leaving" || strings.Contains(registry, "SIGINT"); {
		registry = p.says()
	}
	text := p.says()
	if err := json.Unmarshal([]byte(text), &rep); err != nil {
		p.t.Fatalf("%v: %s", err, text)
	}
	for range p.lines {
	}
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode(), registry, rep
}

// served asks the child for something, on a new connection.
func (p *process) served(path string) {
	p.t.Helper()
	c := p.dial()
	c.send(path)
	resp, _ := c.answer()
	told(p.t, resp)
}

// A further SIGTERM changes nothing, also when the program gave its own handler up by then.
func TestD13FurtherSIGTERMsChangeNothing(t *testing.T) {
	for _, scene := range []string{"plain", "restore"} {
		t.Run(scene, func(t *testing.T) {
			p := spawn(t, scene)
			p.hears(syscall.SIGTERM)
			if line := p.says(); line != "leaving" {
				t.Fatal(line)
			}
			for range 3 {
				p.hears(syscall.SIGTERM)
				p.served("/free")
			}
			p.hears(os.Interrupt) // the first SIGINT after SIGTERM isn't the second SIGINT
			p.served("/barrier")
			if code, registry, rep := p.ends(); code != ExitClean || rep.EndedBy != ByBarrier || rep.ServedAfterLeave != 4 || registry != "registered 1, left 1" {
				t.Errorf("exit %d, %s, %+v", code, registry, rep)
			}
		})
	}
}

// A second SIGINT ends it now, in the pause and in flight, stuck requests or not.
func TestD13SecondSIGINTEndsItNow(t *testing.T) {
	for first, more := range map[os.Signal]int{os.Interrupt: 1, syscall.SIGTERM: 2} {
		for _, inFlight := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s in flight %v", first, inFlight), func(t *testing.T) {
				p := spawn(t, "plain")
				c := p.dial()
				c.send("/stuck")
				c.head()
				p.hears(first)
				if line := p.says(); line != "leaving" {
					t.Fatal(line)
				}
				want := BySecondInt
				if inFlight {
					want = ByBarrier
					p.served("/barrier")
					p.unlistened()
				}
				for more := more; more > 0; more-- {
					p.hears(os.Interrupt)
					if more > 1 { // the kernel makes one of two that follow too closely
						if line := p.says(); !strings.Contains(line, "one more SIGINT") {
							t.Error(line)
						}
					}
				}
				code, registry, rep := p.ends()
				if code != ExitInterrupted || rep.EndedBy != want || rep.CutCount != 1 || rep.Cut[0].Path != "/stuck" || registry != "registered 1, left 1" {
					t.Errorf("exit %d, %s, %+v", code, registry, rep)
				}
				if rest, _ := io.ReadAll(c.r); len(rest) != 0 {
					t.Errorf("the stuck request yields %q", rest)
				}
			})
		}
	}
}

// A stuck request is cut at the deadline, and the exit code says so.
func TestStuckRequestCannotBlockTheExit(t *testing.T) {
	p := spawn(t, "short")
	c := p.dial()
	c.send("/stuck")
	c.head()
	p.hears(syscall.SIGTERM)
	if line := p.says(); line != "leaving" {
		t.Fatal(line)
	}
	p.served("/barrier")
	if code, _, rep := p.ends(); code != ExitLoss || rep.CutCount+rep.OverranCount != 1 {
		t.Errorf("exit %d, %+v", code, rep)
	}
}

// SIGTERM during start: the start finishes, and nothing is registered after it.
func TestD14SIGTERMDuringStart(t *testing.T) {
	p := spawn(t, "slow start")
	p.hears(syscall.SIGTERM)
	if code, registry, rep := p.ends(); code != ExitClean || registry != "registered 0, left 0" || rep.EndedBy != ByNoCallers {
		t.Errorf("exit %d, %s, %+v", code, registry, rep)
	}
}
