package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fleet is a registry of its own, instances and callers, all of them processes.
type fleet struct {
	plan
	binary   string
	grpc     string
	http     string
	dir      string // of all that is kept on disk; "" means none
	data     string // the folder of the registry's memory; "" means none
	rosters  string // the folder of callers' lists; "" means none
	registry *child
	tally    *tally
	strange  *tally // of callers that know nothing of Eider, which are in tally too
	audience *audience
	audit    *audit
	callers  []*child
	opened   time.Time // when all of it was there

	mu        sync.Mutex
	instances []instance
	restarts  int
	pauses    []time.Duration
	bound     time.Duration
	hung      bool   // an instance hangs, or hung
	lost      string // what has become of the registry; "" while it serves
}

// instance is one place in the fleet; its process changes with each restart.
type instance struct {
	id      string
	address string
	child   *child
	state   string    // for the display
	listed  time.Time // when its process last said that it is
}

const service = "orders"

// open starts the fleet and returns once every instance is listed and every caller has been answered.
func (p plan) open(ctx context.Context, binary string) (*fleet, error) {
	f := &fleet{plan: p, binary: binary, tally: newTally(), strange: newTally(), audience: newAudience(p.callers), audit: newAudit()}
	if err := f.start(ctx); err != nil {
		f.close()
		return nil, fmt.Errorf("starting the fleet %q: %w", p.way, err)
	}
	f.opened = time.Now()
	return f, nil
}

func (f *fleet) start(ctx context.Context) error {
	if err := f.makeFolders(); err != nil {
		return err
	}
	if err := f.startRegistry(ctx); err != nil {
		return err
	}
	f.instances = make([]instance, f.plan.instances)
	for i := range f.instances {
		if err := f.launch(ctx, i); err != nil {
			return err
		}
	}
	if err := f.startCallers(); err != nil {
		return err
	}
	return f.waitAnswered(ctx)
}

func (f *fleet) makeFolders() (err error) {
	if !f.persistent && !f.plan.rosters {
		return nil
	}
	if f.dir, err = os.MkdirTemp("", "eider-lab-"); err != nil {
		return fmt.Errorf("making a folder for the registry and its callers: %w", err)
	}
	if f.persistent {
		f.data = filepath.Join(f.dir, "registry")
	}
	if f.plan.rosters {
		f.rosters = filepath.Join(f.dir, "rosters")
	}
	return nil
}

// startRegistry starts the registry, where it was if it has been there before: then somebody may have called it.
func (f *fleet) startRegistry(ctx context.Context) error {
	args := []string{"server", "--grpc", cmp.Or(f.grpc, "127.0.0.1:0"), "--http", cmp.Or(f.http, "127.0.0.1:0"), "--log-level", "warn", "--json"}
	if f.grpc == "" {
		args = append(args, "--fresh")
	}
	if f.data != "" {
		args = append(args, "--data", f.data)
	}
	c, err := spawn(f.binary, "registry", args, nil)
	if err != nil {
		return err
	}
	f.registry = c
	up, err := c.waitUp(ctx)
	if err != nil {
		return err
	}
	if f.grpc == "" {
		f.grpc, f.http = up.GRPC, up.HTTP
	}
	f.loses("")
	return nil
}

// loses takes down what has become of the registry.
func (f *fleet) loses(how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = how
}

// killRegistry ends it as a crash does.
func (f *fleet) killRegistry(ctx context.Context) error {
	if err := f.registry.signal(syscall.SIGKILL); err != nil {
		return err
	}
	f.loses("killed (SIGKILL)")
	_, err := f.registry.waitEnd(ctx, 10*time.Second)
	return err
}

// calling is the role of caller i.
func (f *fleet) calling(i int) role {
	return role{Play: "caller", Way: f.callersWay(), Service: service, ID: strconv.Itoa(i), GRPC: f.grpc, HTTP: f.http, Rosters: f.rosters,
		Work: f.work, Think: f.think, Header: f.header, Witness: f.witness, Keyed: f.keyed, Seed: f.seed + uint64(i)}
}

func (f *fleet) startCallers() error {
	for i := range f.crowds() {
		r := f.calling(i)
		var own *tally
		switch {
		case i < f.pollers:
			r.Way = wayPoller
		case i < f.pollers+f.plan.unknown:
			r.Way, own = wayUnknown, f.strange
		case i < f.pollers+f.plan.unknown+f.pinned:
			r.Way, r.Think, own = wayPinned, 10*r.Think, f.strange // whose connection is silent most of the time
		}
		if f.crowd > 0 {
			r.Play, r.Crowd, r.Seed = "crowd", min(f.crowd, f.plan.callers-i*f.crowd), f.seed+uint64(i*f.crowd)
		}
		if _, err := f.startCaller(r, own); err != nil {
			return err
		}
	}
	return nil
}

// startCaller starts the next caller's process; it is counted in own too, if there is one.
func (f *fleet) startCaller(r role, own *tally) (*child, error) {
	i := len(f.callers)
	c, err := spawnRole(f.binary, fmt.Sprintf("%s %d", r.Play, i), r, func(l line) {
		f.tally.hear(l)
		f.audience.hear(i, l)
		f.audit.hear(l)
		if own != nil {
			own.hear(l)
		}
	})
	if err != nil {
		return nil, err
	}
	f.callers = append(f.callers, c)
	return c, nil
}

// waitAnswered waits until there has been an answer for every caller on average.
func (f *fleet) waitAnswered(ctx context.Context) error {
	deadline := time.Now().Add(20 * time.Second)
	for f.tally.counts(time.Now()).OK < f.plan.callers {
		if time.Now().After(deadline) {
			return fmt.Errorf("the callers aren't answered: %v", f.tally.allFailures())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// launch starts the process of place i and waits until it is listed.
func (f *fleet) launch(ctx context.Context, i int) error {
	c, up, err := f.begin(ctx, i)
	if err != nil {
		return err
	}
	f.place(i, c, up)
	return nil
}

func (f *fleet) begin(ctx context.Context, i int) (*child, line, error) {
	id := strconv.Itoa(i + 1)
	if f.surge {
		id += "-" + strconv.FormatInt(time.Now().UnixMilli()%1e6, 36) // both run for a moment, so they need names of their own
	}
	if f.supervised() {
		return f.beginSupervised(ctx, i, id)
	}
	c, err := f.spawnInstance(i, id)
	if err != nil {
		return nil, line{}, err
	}
	up, err := c.waitUp(ctx)
	if err != nil {
		c.stop()
		return nil, line{}, err
	}
	up.Text = id
	return c, up, nil
}

func (f *fleet) spawnInstance(i int, id string) (*child, error) {
	r := role{Play: "instance", Way: f.way, Service: service, ID: id, GRPC: f.grpc, Work: f.work}
	return spawnRole(f.binary, fmt.Sprintf("%s %s/%s", f.way, service, id), r, func(l line) { f.hear(i, l) })
}

func (f *fleet) place(i int, c *child, up line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances[i] = instance{id: up.Text, address: up.Address, child: c, state: "UP", listed: time.Now()}
}

func (f *fleet) hear(i int, l line) {
	if l.To != "" {
		id, _, _ := strings.Cut(l.To, "@")
		f.audit.born(id, l.To)
	}
	f.audit.hear(l)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch l.Kind {
	case "draining":
		f.instances[i].state = "DRAINING  " + l.Text
		f.bound = max(f.bound, l.Bound)
	case "up":
		f.bound = max(f.bound, l.Bound)
		f.instances[i].listed = time.Now()
		if f.instances[i].state == unlisted {
			f.instances[i].state = "UP"
		}
	}
}

func (f *fleet) setState(i int, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances[i].state = state
	f.hung = f.hung || strings.HasPrefix(state, "frozen") || strings.HasPrefix(state, "hangs")
}

func (f *fleet) at(i int) instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.instances[i]
}

// roll restarts one instance after the other until rolling ends; a restart that has begun is finished,
// unless ctx ends.
func (f *fleet) roll(ctx, rolling context.Context) error {
	for i := 0; rolling.Err() == nil; i = (i + 1) % f.plan.instances {
		if err := f.restart(ctx, i); err != nil {
			return err
		}
		select {
		case <-rolling.Done():
		case <-time.After(f.settle):
		}
	}
	return nil
}

// restart replaces the process of place i: the old one leaves before its successor starts, unless surge.
func (f *fleet) restart(ctx context.Context, i int) error {
	old := f.at(i)
	if f.surge {
		next, up, err := f.begin(ctx, i)
		if err != nil {
			return err
		}
		if err := f.retire(ctx, i, old); err != nil {
			next.stop()
			return err
		}
		f.place(i, next, up)
		return nil
	}
	if err := f.retire(ctx, i, old); err != nil {
		return err
	}
	return f.launch(ctx, i)
}

func (f *fleet) retire(ctx context.Context, i int, old instance) error {
	f.setState(i, "SIGTERM")
	f.audit.told(old.id, time.Now())
	if err := old.child.signal(syscall.SIGTERM); err != nil {
		return err
	}
	exit, err := old.child.waitEnd(ctx, 60*time.Second)
	if err != nil {
		return err
	}
	f.setState(i, "restarting")
	_ = old.child.stdin.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restarts++
	if f.way != wayPlain {
		f.pauses = append(f.pauses, exit.Pause)
	}
	return nil
}

// close ends every process of the fleet, callers first, so that nobody is counted for what the end does.
func (f *fleet) close() {
	var wg sync.WaitGroup
	for _, c := range f.callers {
		wg.Go(c.stop)
	}
	wg.Wait()
	for _, in := range f.instances {
		if in.child != nil {
			wg.Go(in.child.stop)
		}
	}
	wg.Wait()
	if f.registry != nil {
		_ = f.registry.signal(syscall.SIGTERM)
		f.registry.stop()
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir) // what stays is in the temporary folder
	}
}

// openAll starts several fleets at once.
func openAll(ctx context.Context, binary string, plans ...plan) ([]*fleet, error) {
	fleets := make([]*fleet, len(plans))
	errs := make([]error, len(plans))
	var wg sync.WaitGroup
	for i, p := range plans {
		wg.Go(func() { fleets[i], errs[i] = p.open(ctx, binary) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		closeAll(fleets)
		return nil, err
	}
	return fleets, nil
}

func closeAll(fleets []*fleet) {
	var wg sync.WaitGroup
	for _, f := range fleets {
		if f != nil {
			wg.Go(f.close)
		}
	}
	wg.Wait()
}
