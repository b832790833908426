package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/eiderhq/eider"
)

// target is where a call goes.
type target struct {
	url string
	id  string // id@incarnation of who is meant; "" unless the caller is a poller

	address string // of who is on a list
}

// reread is a list as callers without the SDK keep it: read again every now and then.
type reread struct {
	url   string
	every time.Duration
	named bool // the caller says whom it means, and shows the list that it has
	tag   string
	rnd   *rand.Rand
	mu    sync.Mutex
	to    []target
}

// list makes the list that a caller of this way keeps.
func (r role) list() *reread {
	l := &reread{url: "http://" + r.HTTP + "/v1/services/" + r.Service, every: usualRefresh, rnd: rand.New(rand.NewPCG(r.Seed, 2))}
	switch r.Way {
	case wayPoller:
		l.url += "?" + url.Values{"caller": {r.pollsAs()}, "every": {pollerEvery.String()}}.Encode()
		l.named = true
	case wayUnknown:
		l.every = unknownRefresh
	}
	return l
}

// pollsAs is the name of a poller, one for each process.
func (r role) pollsAs() string { return "poller-" + r.ID }

func (l *reread) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.every):
			had := l.tag
			_ = l.read(ctx) // the next one will do; the list stays as it was
			if l.tag != had {
				_ = l.read(ctx) // at once: the registry learns that it has arrived
			}
		}
	}
}

func (l *reread) read(ctx context.Context) error {
	var view eider.View
	tag, err := getChanged(ctx, l.url, l.tag, &view)
	if err != nil || l.named && tag == l.tag {
		return err
	}
	if l.named {
		l.tag = tag
	}
	var to []target
	for _, in := range view.Instances {
		if in.Status != eider.Up || in.Suspicion != 0 {
			continue
		}
		t := target{url: "http://" + in.Address + "/pay", address: in.Address}
		if l.named {
			t.id = in.ID + "@" + in.Incarnation.String()
		}
		to = append(to, t)
	}
	if len(to) > 0 {
		l.mu.Lock()
		l.to = to
		l.mu.Unlock()
	}
	return nil
}

func (l *reread) pick() (target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.to) == 0 {
		return target{}, errors.New("the list is empty")
	}
	return l.to[l.rnd.IntN(len(l.to))], nil
}

// dial opens a connection to one of the list, whatever the address is called: so does a virtual address, and all that
// is sent on the connection goes there until it closes.
func (l *reread) dial(ctx context.Context, network string, births *births) (net.Conn, error) {
	to, err := l.pick()
	if err != nil {
		return nil, err
	}
	return births.dial(ctx, network, to.address)
}
