//go:build linux

package supervise_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// program is one that knows nothing of Eider, as it is told to behave. It says on standard output what happens to it.
type program struct {
	At    string `json:",omitempty"` // where it serves
	Late  bool   `json:",omitempty"` // it serves once it is sent SIGUSR2
	Mute  bool   `json:",omitempty"` // it doesn't serve at all
	Exit  int    `json:",omitempty"` // its exit code, when it is told to end or by itself
	Soon  bool   `json:",omitempty"` // it ends by itself at once
	Deaf  bool   `json:",omitempty"` // it ignores SIGTERM
	Bare  bool   `json:",omitempty"` // it has no handler of SIGTERM
	Hasty bool   `json:",omitempty"` // the first that it does is to send SIGTERM to its parent
	Flood int    `json:",omitempty"` // bytes that it writes at its start

	Child  *program `json:",omitempty"` // a child of it
	Apart  bool     `json:",omitempty"` // of a child: in a session of its own
	Linger string   `json:",omitempty"` // told to end, it waits until there is such a file
	Slow   string   `json:",omitempty"` // asked for /slow, it answers once there is such a file
	Name   string   `json:",omitempty"` // before each word that it says
}

func (p *program) say(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "%s%s\n", p.Name, fmt.Sprintf(format, args...))
}

// play is the program's main.
func play(text string) int {
	var p program
	if text == "well" { // it is a check
		return 0
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fmt.Println(err)
		return 99
	}
	heard := p.begin()
	if p.Soon {
		return p.Exit
	}
	hangs := new(atomic.Bool)
	serve := func() { go p.serve(hangs) }
	if !p.Late && !p.Mute && p.At != "" {
		serve()
	}
	p.say("begun")
	for sig := range heard {
		p.say("heard %s", sig)
		switch sig {
		case syscall.SIGUSR1:
			p.say("hangs %t", !hangs.Load())
			hangs.Store(!hangs.Load())
		case syscall.SIGUSR2:
			if p.Late {
				p.Late = false
				serve()
			}
		case syscall.SIGQUIT: // it ends by itself
			return p.Exit
		case syscall.SIGTERM:
			if p.Deaf {
				continue
			}
			await(p.Linger)
			p.say("ends")
			return p.Exit
		}
	}
	return 99
}

// begin hears signals, and does what comes before it serves.
func (p *program) begin() chan os.Signal {
	heard := make(chan os.Signal, 16)
	sigs := []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGWINCH}
	if !p.Bare {
		sigs = append(sigs, syscall.SIGTERM)
	}
	signal.Notify(heard, sigs...)
	p.say("pid %d", os.Getpid())
	p.say("finds %s", os.Getenv("EIDER_LEAVING_FILE"))
	for _, word := range os.Args[3:] {
		p.say("argument %s", word)
	}
	if p.Hasty {
		syscall.Kill(os.Getppid(), syscall.SIGTERM)
	}
	if p.Child != nil {
		p.fork()
	}
	if p.Flood > 0 {
		p.flood()
	}
	return heard
}

// flood writes more than anybody wants to read.
func (p *program) flood() {
	line := strings.Repeat("x", 1023) + "\n"
	for n := 0; n < p.Flood; n += len(line) {
		os.Stdout.WriteString(line)
	}
	p.say("flooded")
}

// await waits until there is such a file; "" is none.
func await(file string) {
	for file != "" {
		if _, err := os.Stat(file); err == nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (p *program) serve(hangs *atomic.Bool) {
	err := http.ListenAndServe(p.At, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // who answers before that has net/http's server end the connection
		switch {
		case r.URL.Path == "/leaving":
			p.say("POST /leaving")
		case r.URL.Path == "/slow":
			p.say("slow begun")
			await(p.Slow)
			p.say("slow answered")
			fmt.Fprint(w, "slow")
		case r.URL.Path == "/quit": // it ends by itself
			os.Exit(p.Exit)
		case hangs.Load():
			<-r.Context().Done()
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, "/login", http.StatusFound)
		case r.URL.Path == "/never":
			<-r.Context().Done()
		case r.URL.Path == "/garbage":
			nc, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = nc.Write([]byte("\x1b[2J no HTTP\n\n"))
				nc.Close()
			}
		default:
			fmt.Fprintf(w, "pid %d", os.Getpid())
		}
	}))
	p.say("can't serve: %v", err)
	os.Exit(98)
}

// fork starts the child, and doesn't wait for it.
func (p *program) fork() {
	text, _ := json.Marshal(p.Child)
	c := exec.Command(os.Args[0], asProgram, string(text))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: p.Child.Apart}
	if err := c.Start(); err != nil {
		p.say("no child: %v", err)
		return
	}
	if !p.Soon {
		go c.Wait()
	}
}
