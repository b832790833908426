//go:build linux

package supervise_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// departure is one whose pause lasts until release: a caller hasn't let go.
type departure struct {
	*run
	w       *world
	to      string // where callers are sent
	release func()
}

// inBoth runs a test of a program, and of one behind a front.
func inBoth(t *testing.T, test func(t *testing.T, front bool)) {
	for name, front := range map[string]bool{"the program's own port": false, "a front": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, front)
		})
	}
}

// leaving starts a program, and has it leave. Every bound is an hour: what ends earlier doesn't end by one.
func leaving(t *testing.T, front bool, p program) departure {
	t.Helper()
	d := departure{w: newPatientWorld(t, time.Hour)}
	flags := []string{"--unknown", "none", "--in-flight", "1h", "--grace", "3h"}
	if front {
		d.run, d.to = d.w.fronted(p, flags...)
	} else {
		d.run = d.w.start(p, flags...)
		d.to = d.at
		d.w.is(eider.Up)
	}
	d.release = d.w.pick()
	d.signal(syscall.SIGTERM)
	d.w.is(eider.Draining)
	return d
}

// pick makes a caller of orders that doesn't let go until it is released.
func (w *world) pick() (release func()) {
	w.t.Helper()
	caller, err := w.look.Follow("orders")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		u, err := caller.Next(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if u.View != nil && len(u.View.Instances) == 1 {
			caller.Ack(u.View.Cursor, nil, nil)
			return caller.Close
		}
	}
}

// answers tells why a POST isn't answered as ever, on a connection of its own or one that lasts.
func answers(client *http.Client, to, path, want string) error {
	resp, err := client.Post("http://"+to+path, "text/plain", strings.NewReader("x"))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(text), want) {
		return fmt.Errorf("%s %q, %v", resp.Status, text, err)
	}
	return nil
}

// calling is a client of a test's own.
func calling(t *testing.T, keep bool) *http.Client {
	transport := &http.Transport{DisableKeepAlives: !keep}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// refused waits until nobody is let in any more.
func (d departure) refused() {
	d.t.Helper()
	for late := time.After(patience); ; {
		nc, err := net.Dial("tcp", d.to)
		if err != nil {
			return
		}
		nc.Close()
		select {
		case <-late:
			d.t.Fatal("it goes on listening")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func create(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// S2: until its callers have let go it answers as before, and the program hears of its end only then.
func TestS2ThePauseLastsUntilCallersLetGo(t *testing.T) {
	inBoth(t, func(t *testing.T, front bool) {
		d := leaving(t, front, program{Exit: 3})
		client := calling(t, true)
		for range 20 {
			if err := answers(client, d.to, "/", "pid "); err != nil {
				t.Fatal(err)
			}
		}
		if _, early := d.find("heard terminated"); early {
			t.Error("the program was told before its callers had let go")
		}
		d.release()
		d.says("heard terminated")
		if code := d.exit(); code != 3 {
			t.Errorf("it exits with %d", code)
		}
	})
}

// S3: who comes is let in until the barrier, and refused from then on, while what is in flight goes on.
func TestS3ThePortIsRefusedAfterTheBarrier(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "answer")
	d := leaving(t, true, program{Slow: file})
	slow := make(chan error, 1)
	go func() { slow <- answers(calling(t, true), d.to, "/slow", "slow") }()
	d.says("slow begun")
	for range 20 {
		nc, err := net.Dial("tcp", d.to)
		if err != nil {
			t.Fatalf("refused before the barrier: %v", err)
		}
		nc.Close()
	}
	d.release()
	d.refused()
	create(t, file)
	if err := <-slow; err != nil {
		t.Errorf("what was in flight: %v", err)
	}
	if code := d.exit(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
}

// S5: it exits once all has ended, long before the deadline, and not earlier.
func TestS5ItExitsOnceAllHasEnded(t *testing.T) {
	inBoth(t, func(t *testing.T, front bool) {
		file := filepath.Join(t.TempDir(), "end")
		d := leaving(t, front, program{Exit: 3, Linger: file})
		d.release()
		d.says("heard terminated")
		if _, over := d.find(`{"exit":`); over {
			t.Error("it is over, and its program isn't")
		}
		create(t, file)
		if code := d.exit(); code != 3 { // within the test's patience; the deadline is an hour
			t.Errorf("it exits with %d", code)
		}
		d.w.is(eider.Left)
	})
}

// S6: the port is open in the pause: who connects only then is served.
func TestS6ThePauseServesWhoComesInIt(t *testing.T) {
	inBoth(t, func(t *testing.T, front bool) {
		d := leaving(t, front, program{})
		client := calling(t, false)
		for range 20 {
			if err := answers(client, d.to, "/", "pid "); err != nil {
				t.Fatal(err)
			}
		}
		d.release()
		d.exit()
	})
}

// S7: no answer of the pause, and none of what is finished after it, is an error.
func TestS7NoAnswerIsAnError(t *testing.T) {
	inBoth(t, func(t *testing.T, front bool) {
		file, end := filepath.Join(t.TempDir(), "answer"), filepath.Join(t.TempDir(), "end")
		d := leaving(t, front, program{Slow: file, Linger: end})
		slow, client := make(chan error, 1), calling(t, true)
		go func() { slow <- answers(client, d.to, "/slow", "slow") }()
		d.says("slow begun")
		ask := func(when string) {
			t.Helper()
			for range 20 {
				if err := answers(client, d.to, "/", "pid "); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
			}
		}
		ask("in the pause")
		d.release()
		if front {
			d.refused()
		} else { // who still comes is the program's to answer
			d.says("heard terminated")
			ask("while it finishes")
		}
		create(t, file)
		if err := <-slow; err != nil {
			t.Errorf("what was in flight: %v", err)
		}
		create(t, end)
		if code := d.exit(); code != 0 {
			t.Errorf("it exits with %d", code)
		}
	})
}
