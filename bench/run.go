package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/eiderhq/eider/registry"
)

// What eider-run may take: it is in every image, beside every program.
const (
	runMostBytes    = 16_000_000
	runMostResident = 20 << 20
	runMostRatio    = 1.2 // of a start
	runMostLater    = 30 * time.Millisecond
)

func runBytes(Size) (Result, error) {
	binary, err := build("eider-run")
	if err != nil {
		return Result{}, err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return Result{}, err
	}
	return Result{Eider: Figure{float64(info.Size()), "bytes"}, Peer: Figure{runMostBytes, "bytes"}}, nil
}

// runResident is what eider-run holds once its program is listed, after a while in which it asks and beats. Where the
// program is said to serve this process listens, so that the program can be one that is everywhere.
func runResident(Size) (Result, error) {
	binary, err := build("eider-run")
	if err != nil {
		return Result{}, err
	}
	n, err := startNode("--fresh")
	if err != nil {
		return Result{}, err
	}
	defer n.stop()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Result{}, err
	}
	defer ln.Close()
	p, err := start(exec.Command(binary, "--service", "run="+ln.Addr().String(), "--registry", n.grpc, "--unknown", "none", "--", "sleep", "600"), "program is started")
	if err != nil {
		return Result{}, err
	}
	defer p.stop()
	if err := awaitListed(n, "run"); err != nil {
		return Result{}, err
	}
	<-time.After(5 * time.Second)
	held, err := p.resident()
	return Result{Eider: Figure{float64(held), "bytes"}, Peer: Figure{runMostResident, "bytes"}}, err
}

// awaitListed waits until a service has an instance.
func awaitListed(n *node, service string) error {
	reg := registry.Open(registry.Config{Addr: n.grpc, Caller: "observer", Logger: quiet()})
	defer reg.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for view, err := range reg.Watch(ctx, service) {
		if err == nil && len(view.Instances) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s isn't listed: %w", service, ctx.Err())
}

// runStart compares the time until a program has said its first word with the same started by hand. No registry is
// there: the program doesn't wait for one.
func runStart(s Size) (Result, error) {
	binary, err := build("eider-run")
	if err != nil {
		return Result{}, err
	}
	byRun := func() (time.Duration, error) {
		return firstWord(binary, "--service", "run=127.0.0.1:9", "--registry", "127.0.0.1:9", "--", "echo", "up")
	}
	byHand := func() (time.Duration, error) { return firstWord("echo", "up") }
	r, err := compare(s.Rounds, contender{do: byRun}, contender{do: byHand})
	if err != nil {
		return Result{}, err
	}
	r.Note = "by itself " + r.Peer.String()
	r.Peer.Value = runMostRatio*r.Peer.Value + float64(runMostLater)
	return r, nil
}

// firstWord is the time from a command's start until it has said something; then it is ended.
func firstWord(name string, args ...string) (time.Duration, error) {
	cmd := exec.Command(name, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = out.Read(make([]byte, 1))
	took := time.Since(begun)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return took, err
}
