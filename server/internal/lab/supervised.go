package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
)

// Starter makes the command that is `eider run` with these flags and, at this address, a program whose handler takes so
// long.
type Starter func(flags []string, address string, work time.Duration) *exec.Cmd

// supervised tells whether the instances are programs under `eider run`.
func (p plan) supervised() bool { return p.way == wayRun || p.way == wayFront }

// callersWay is the way of callers that the plan says nothing else of.
func (p plan) callersWay() string {
	if p.supervised() {
		return wayEider
	}
	return p.way
}

// beginSupervised starts a program at a port of its own, and waits until it is listed.
func (f *fleet) beginSupervised(ctx context.Context, i int, id string) (*child, line, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, line{}, err
	}
	listed := address
	flags := []string{"--service", service + "=" + address, "--id", id, "--registry", f.grpc, "--ready", "http://" + address + "/ready", "--report", "-"}
	if f.way == wayFront {
		if listed, err = freeAddress(); err != nil {
			return nil, line{}, err
		}
		flags = append(flags, "--front", listed)
	}
	run := f.run
	if run == nil {
		run = f.ownProgram
	}
	c, err := spawnCommand(run(flags, address, f.work), fmt.Sprintf("%s %s/%s", f.way, service, id), asReport, func(l line) { f.hear(i, l) })
	if err != nil {
		return nil, line{}, err
	}
	if err := f.awaitListed(ctx, c, id, listed); err != nil {
		c.stop()
		return nil, line{}, err
	}
	return c, line{Text: id, Address: listed}, nil
}

// ownProgram has the lab's binary be both.
func (f *fleet) ownProgram(flags []string, address string, work time.Duration) *exec.Cmd {
	text, err := json.Marshal(role{Play: "program", At: address, Work: work})
	if err != nil {
		panic(err) // strings and a number
	}
	args := append([]string{"run"}, flags...)
	return exec.Command(f.binary, append(args, "--", f.binary, "demo", "child", string(text))...)
}

// awaitListed waits until the registry has an instance at an address: its program can't tell.
func (f *fleet) awaitListed(ctx context.Context, c *child, id, address string) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		var view eider.View
		err := getJSON(ctx, "http://"+f.http+"/v1/services/"+service, &view)
		if in, ok := view.Find(id); err == nil && ok && in.Address == address && in.Status == eider.Up {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s isn't listed at %s after 20 s (%w): %s", c.name, address, cmp.Or(err, errUnlisted), c.errors.String())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return fmt.Errorf("%s ended before it was listed: %s", c.name, c.errors.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var (
	errUnlisted = errors.New("the registry answers without it")
	errNoReport = errors.New("no report of a departure")
)

// asReport reads what `eider run` says on its standard output, which is its program's too: nothing but its report.
func asReport(text []byte) (line, error) {
	var r struct{ Services []drain.Report }
	if err := json.Unmarshal(text, &r); err != nil || len(r.Services) == 0 {
		return line{}, cmp.Or(err, errNoReport)
	}
	return line{Kind: "exit", Pause: r.Services[0].Pause, Bound: r.Services[0].Bound}, nil
}

// freeAddress is of a port that nobody listens on, below those that systems give to connections: a program that knows
// nothing must be told its port, and between the look and the program's start nobody else may come to it.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		var ln net.Listener
		if ln, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))); err == nil {
			return ln.Addr().String(), ln.Close()
		}
	}
	return "", fmt.Errorf("no port is free: %w", err)
}

// playProgram is a program as people write it: it serves, on SIGTERM it finishes what it has begun, and it knows nothing
// of Eider.
func playProgram(ctx context.Context, r role) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	srv := &http.Server{Addr: r.At, Handler: r.handler()}
	failed := make(chan error, 1)
	go func() { failed <- srv.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return srv.Shutdown(bounded)
}
