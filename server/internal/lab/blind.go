package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Blind is what became of those that started while the registry was away: an instance, a caller that knew its address,
// and a caller that had a list on disk.
type Blind struct {
	Answered float64 `json:"answered_ms"`     // from the start of the caller with a list until its first answer; 0 if it had none while the registry was away
	Requests int     `json:"requests"`        // of that caller, in the whole scene
	Failed   int     `json:"failed"`          // likewise
	Serves   float64 `json:"serves_ms"`       // from the start of the instance until the first answer to who knew its address; 0 likewise
	Listed   float64 `json:"listed_ms"`       // from when the registry served again until the instance was listed; 0 if it wasn't
	Known    float64 `json:"known_to_all_ms"` // from when it served again until every caller had the instance and didn't doubt it; 0 if one hadn't

	caller   *tally
	instance int // its place in the fleet
}

// unlisted is the state of an instance that the registry doesn't know yet.
const unlisted = "serves, not listed"

// awaitRoster waits until a caller has saved its list: from then on the folder is never without one.
func (f *fleet) awaitRoster(ctx context.Context) error {
	file := filepath.Join(f.rosters, service+".roster")
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := os.Stat(file)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no caller has saved its list: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startBlind starts them, and waits until each has its first answer. Who has none by then is told of as a broken promise.
func (f *fleet) startBlind(ctx context.Context, r *Outage) error {
	b := &r.Blind
	b.caller = newTally()
	begun := time.Now()
	fromDisk, err := f.startCaller(f.calling(len(f.callers)), b.caller)
	if err != nil {
		return err
	}
	if b.Answered, err = r.firstAnswer(ctx, fromDisk, begun); err != nil {
		return err
	}
	begun = time.Now()
	address, err := f.launchUnlisted(ctx, b)
	if err != nil {
		return err
	}
	told := f.calling(len(f.callers))
	told.Way, told.To, told.Rosters = wayUnknown, address, ""
	knows, err := f.startCaller(told, nil)
	if err != nil {
		return err
	}
	b.Serves, err = r.firstAnswer(ctx, knows, begun)
	return err
}

// firstAnswer tells how long after its start a caller was answered; 0 if it wasn't.
func (r *Outage) firstAnswer(ctx context.Context, c *child, begun time.Time) (float64, error) {
	if _, err := c.waitUp(ctx); err != nil {
		r.Details = append(r.Details, err.Error())
		return 0, ctx.Err()
	}
	return milliseconds(time.Since(begun)), nil
}

// launchUnlisted starts the process of a further place and waits until it serves.
func (f *fleet) launchUnlisted(ctx context.Context, b *Blind) (address string, err error) {
	f.mu.Lock()
	b.instance = len(f.instances)
	f.instances = append(f.instances, instance{id: strconv.Itoa(b.instance + 1), state: unlisted})
	f.mu.Unlock()
	c, err := f.spawnInstance(b.instance, strconv.Itoa(b.instance+1))
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	f.instances[b.instance].child = c
	f.mu.Unlock()
	serving, err := c.waitServing(ctx)
	return serving.Address, err
}

// look notes what has become of the instance since the registry served again.
func (b *Blind) look(f *fleet, served time.Time) {
	in := f.at(b.instance)
	if b.Listed == 0 && !in.listed.IsZero() {
		b.Listed = since(served, in.listed)
	}
	if _, last, all := f.audience.all(in.id, undoubted); b.Known == 0 && all {
		b.Known = since(served, last)
	}
}

// since is the time between two things that are seen from different processes: something, since 0 is for what never was.
func since(then, at time.Time) float64 { return milliseconds(max(10*time.Microsecond, at.Sub(then))) }

func (b *Blind) done() bool { return b.Listed > 0 && b.Known > 0 }

func (b *Blind) broken(say func(format string, args ...any)) {
	switch {
	case b.Answered == 0:
		say("a caller that started meanwhile, with a list on disk, had no answer before the registry was back")
	case b.Serves == 0:
		say("an instance that started meanwhile didn't answer who knew it before the registry was back")
	case b.Listed == 0:
		say("an instance that started meanwhile wasn't listed within 15 s")
	case b.Known == 0:
		say("not every caller had the instance that started meanwhile within 15 s")
	}
}

func (b *Blind) print(w io.Writer) {
	row := rows(w)
	fmt.Fprintln(w, "\n  who started while it was away:")
	row(duration(b.Answered), "a caller, from its start to its first answer, by its list on disk")
	row(b.Failed, fmt.Sprintf("of its %d requests failed (promise: 0)", b.Requests))
	row(duration(b.Serves), "an instance, from its start to its first answer to who knew it")
	row(duration(b.Listed), "from when the registry served again until it was listed")
	row(duration(b.Known), "… and until every caller had it")
}
