package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// child is one process of the lab. It ends when its standard input closes, so it can't outlive the lab.
type child struct {
	name   string
	cmd    *exec.Cmd
	words  func([]byte) (line, error) // of what it says
	stdin  io.Closer
	ready  chan line     // its first "up", then closed
	opened chan line     // its first "serving", likewise
	done   chan struct{} // closed once it has ended and every line has been heard
	errors tail

	mu   sync.Mutex
	exit line // its last "exit"
	err  error
}

// spawn starts a child; hear gets each of its lines, in order, from one goroutine.
func spawn(binary, name string, args []string, hear func(line)) (*child, error) {
	return spawnCommand(exec.Command(binary, args...), name, asLine, hear)
}

// asLine reads what the lab's own children say.
func asLine(text []byte) (l line, err error) {
	err = json.Unmarshal(text, &l)
	return l, err
}

// spawnCommand starts a child of any kind.
func spawnCommand(cmd *exec.Cmd, name string, words func([]byte) (line, error), hear func(line)) (*child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // Ctrl-C is the conductor's: it ends its children in order
	c := &child{name: name, cmd: cmd, words: words, ready: make(chan line, 1), opened: make(chan line, 1), done: make(chan struct{})}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go c.listen(stdout, stderr, hear)
	return c, nil
}

// spawnRole starts a child that plays a role of the lab.
func spawnRole(binary, name string, r role, hear func(line)) (*child, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return spawn(binary, name, []string{"demo", "child", string(text)}, hear)
}

func (c *child) listen(stdout, stderr io.Reader, hear func(line)) {
	defer close(c.done)
	var wg sync.WaitGroup
	wg.Go(func() { c.hearErrors(stderr) })
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		l, err := c.words(scanner.Bytes())
		if err != nil {
			c.errors.add("not a line of the lab: " + scanner.Text())
			continue
		}
		if l.Ready { // a server's own words
			l.Kind = "up"
		}
		switch l.Kind {
		case "up":
			offer(c.ready, l)
		case "serving":
			offer(c.opened, l)
		case "exit":
			c.mu.Lock()
			c.exit = l
			c.mu.Unlock()
		}
		if hear != nil {
			hear(l)
		}
	}
	wg.Wait()
	err := c.cmd.Wait()
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.ready)
	close(c.opened)
}

// offer gives a channel of one its first line; what follows was said before.
func offer(to chan<- line, l line) {
	select {
	case to <- l:
	default:
	}
}

// hearErrors keeps the last lines for an error's sake.
func (c *child) hearErrors(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		c.errors.add(scanner.Text())
	}
}

// waitUp returns the child's first "up".
func (c *child) waitUp(ctx context.Context) (line, error) { return c.await(ctx, c.ready, "up") }

// waitServing returns the child's first "serving".
func (c *child) waitServing(ctx context.Context) (line, error) {
	return c.await(ctx, c.opened, "serving")
}

func (c *child) await(ctx context.Context, first <-chan line, what string) (line, error) {
	select {
	case l, ok := <-first:
		if !ok && ctx.Err() != nil {
			return line{}, ctx.Err()
		}
		if !ok {
			return line{}, fmt.Errorf("%s ended before it was %s: %s", c.name, what, c.errors.String())
		}
		return l, nil
	case <-time.After(20 * time.Second):
		return line{}, fmt.Errorf("%s isn't %s after 20 s: %s", c.name, what, c.errors.String())
	case <-ctx.Done():
		return line{}, ctx.Err()
	}
}

// signal sends a signal; a child that has ended gets none.
func (c *child) signal(sig syscall.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling %s: %w", c.name, err)
	}
	return nil
}

// waitEnd waits until the child has ended, and returns its last "exit".
func (c *child) waitEnd(ctx context.Context, within time.Duration) (line, error) {
	select {
	case <-c.done:
	case <-time.After(within):
		return line{}, fmt.Errorf("%s hasn't ended after %s: %s", c.name, within, c.errors.String())
	case <-ctx.Done():
		return line{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit, nil
}

// stop ends the child without ceremony and waits for it.
func (c *child) stop() {
	_ = c.stdin.Close()
	select {
	case <-c.done:
	case <-time.After(2 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// tail keeps the last lines of a text.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
}

func (t *tail) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, []byte(text))
	if len(t.lines) > 8 {
		t.lines = t.lines[1:]
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return "it said nothing"
	}
	return string(bytes.Join(t.lines, []byte("; ")))
}
