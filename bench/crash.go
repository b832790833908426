package bench

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/eiderhq/eider"
)

const (
	crashCallers = 100
	// So many others are listed that the crashes of ten seconds are no mass refusal, which would be told as doubts.
	crashOthers = 150
)

// crash is the time from the SIGKILL of an instance's process until the last caller no longer has it in what it
// picks by, less the time until the node's dial was refused: the node's own event says when.
func crash(s Size) (Result, error) {
	e, err := openCrash()
	if err != nil {
		return Result{}, err
	}
	defer e.Close()
	n := 0
	var wholes, waits []time.Duration
	kill := func() (time.Duration, error) {
		n++
		whole, wait, err := e.Crash("victim" + strconv.Itoa(n))
		wholes, waits = append(wholes, whole), append(waits, wait)
		return whole - wait, err
	}
	r, err := compare(s.Rounds, contender{do: kill}, contender{do: timed(e.Change)})
	if err != nil {
		return Result{}, err
	}
	r.Note = fmt.Sprintf("in all %s, of which %s until the dial was refused", nanoseconds(median(wholes[warmUp:])), nanoseconds(median(waits[warmUp:])))
	return r, nil
}

// openCrash is a fan with others beside it, all of which the node has dialled: it dials each newcomer once, at
// a limited rate, and takes no refusal for evidence from a port that it hasn't seen open.
func openCrash() (f *eiderFan, err error) {
	if f, err = openEider(crashCallers); err != nil {
		return nil, err
	}
	for i := range crashOthers {
		if _, err = f.served.Register(others(i)); err != nil {
			f.Close()
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err = f.serve(ctx, "others", "last"); err != nil {
		f.Close()
		return nil, err
	}
	<-time.After(2 * time.Second)
	return f, nil
}

// Crash starts an instance, kills its process, and returns how long it took until nobody picks it, and how
// long until the node knew by a refused dial.
func (f *eiderFan) Crash(id string) (whole, refused time.Duration, err error) {
	f.expect(lists(id))
	p, err := startInstance(f.node, "orders", id)
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	if err := f.finish.wait(); err != nil {
		return 0, 0, err
	}
	<-time.After(rest) // the node dials a newcomer once, to know that it could
	f.expect(not(lists(id)))
	start := time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		return 0, 0, err
	}
	if err := f.finish.wait(); err != nil {
		return 0, 0, err
	}
	whole = time.Since(start)
	at, err := f.died(id)
	return whole, at.Sub(start.Round(0)), err
}

// died returns when the node found out.
func (f *eiderFan) died(id string) (time.Time, error) {
	var list struct {
		Events []eider.Event `json:"events"`
	}
	if err := f.node.ask("/v1/events?"+url.Values{"service": {"orders"}, "last": {"20"}}.Encode(), &list); err != nil {
		return time.Time{}, err
	}
	for _, e := range list.Events {
		if e.ID == id && e.Kind == eider.EventDead {
			return e.Time, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s isn't dead by evidence: %v", id, list.Events)
}
