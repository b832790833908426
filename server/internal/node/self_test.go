package node

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// A node answers itself in clear text and over TLS, whoever else has to prove himself; one that has ended doesn't.
func TestANodeAnswersItself(t *testing.T) {
	for name, r := range map[string]running{"clear": start(t, Settings{Fresh: true}), "TLS with client certificates": fortress(t, Settings{}).running} {
		if err := r.Answers(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if err := r.Answers(t.Context()); err == nil {
			t.Errorf("%s: it answers after its end", name)
		}
	}
}

// deaf accepts nobody: connections stay in its queue, as with a process that has no descriptor left.
type deaf struct {
	net.Listener
	closed chan struct{}
}

func (d deaf) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

func (d deaf) Close() error {
	close(d.closed)
	return d.Listener.Close()
}

func TestANodeThatAcceptsNobodyDoesNotAnswerItself(t *testing.T) {
	n := start(t, Settings{Fresh: true}, func(cfg *Config) {
		cfg.Listen = func(address string) (net.Listener, error) {
			l, err := net.Listen("tcp", address)
			return deaf{l, make(chan struct{})}, err
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := n.Answers(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it answers %v, want nothing within the time", err)
	}
}

// What listens everywhere is asked at loopback.
func TestWhereANodeReachesItself(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:8761": "127.0.0.1:8761", "[::]:8761": "[::1]:8761", "10.1.2.3:8761": "10.1.2.3:8761", "[fe80::1%eth0]:1": "[fe80::1%eth0]:1",
	} {
		if got := reachable(address); got != want {
			t.Errorf("%s is reached at %s, want %s", address, got, want)
		}
	}
}
