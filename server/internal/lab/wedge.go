package lab

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
)

// wedgedWithin is how soon every caller must doubt it: two beats (4 s) without a completion, told with the next beat,
// and what a busy machine adds.
const wedgedWithin = 12 * time.Second

// Wedge is the scene wedge.
type Wedge struct {
	Requests    int      `json:"requests"`
	ToSuspect   float64  `json:"to_suspect_ms"`         // from when its handler hung until the last caller's roster doubted it; 0 if one didn't
	FailedAfter int      `json:"failed_after"`          // calls begun after that which failed
	Stuck       int      `json:"stuck"`                 // calls begun before that which timed out
	Failed      int      `json:"failed"`                // any other
	LatePicks   int      `json:"picks_after_suspicion"` // 1 if any call was left to it after that, while it hung; a trial is sent elsewhere in time
	Ended       int      `json:"ended"`                 // instances that the registry took for ended, or a roster lost
	ToCure      float64  `json:"freed_to_cured_ms"`     // from when its handler went on until every caller trusted it again
	Max         float64  `json:"max_ms"`                // the longest that a caller waited for a call
	Details     []string `json:"details,omitempty"`
	Setup       string   `json:"setup"`
}

// playWedge has the handler of one of three instances hang, while its process beats on.
func playWedge(ctx context.Context, o *Options, show *display) (*Wedge, error) {
	p := plan{way: wayEider, instances: 3, callers: 20, work: 30 * time.Millisecond, think: 10 * time.Millisecond, header: headerTimeout, witness: true, keyed: 5, seed: o.Seed}
	show.say("wedge: starting a registry, 3 instances and 20 callers, each a process …")
	f, err := p.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := watchLoad(ctx, show, "wedge", f, o.times().before); err != nil {
		return nil, err
	}
	victim := p.shuffled().IntN(p.instances)
	in, hung := f.at(victim), time.Now()
	if err := in.child.signal(syscall.SIGUSR1); err != nil {
		return nil, err
	}
	f.setState(victim, "hangs (beats on)")
	r := &Wedge{Setup: p.sentence()}
	_, suspected, err := f.awaitSight(ctx, show, "wedge", in.id, wedged, wedgedWithin)
	if err != nil {
		return nil, err
	}
	if suspected.IsZero() {
		suspected = hung.Add(wedgedWithin)
	} else {
		r.ToSuspect = milliseconds(suspected.Sub(hung))
	}
	if err := watchLoad(ctx, show, "wedge", f, 2*o.times().after); err != nil {
		return nil, err
	}
	if f.tally.lastTryOf(in.address) > suspected.Add(sameInstant).UnixNano() {
		r.LatePicks = 1
	}
	return r, f.free(ctx, o, show, r, victim, suspected)
}

func wedged(s sighting) bool { return strings.Contains(s.Doubt, eider.Wedged.String()) }

// free lets the handler go on, waits until every caller trusts the instance again, and sums the scene up.
func (f *fleet) free(ctx context.Context, o *Options, show *display, r *Wedge, victim int, suspected time.Time) error {
	in, freed := f.at(victim), time.Now()
	if err := in.child.signal(syscall.SIGUSR2); err != nil {
		return err
	}
	f.setState(victim, "UP")
	_, cured, err := f.awaitSight(ctx, show, "wedge", in.id, undoubted, 15*time.Second)
	if err != nil {
		return err
	}
	if !cured.IsZero() {
		r.ToCure = milliseconds(max(0, cured.Sub(freed)))
	}
	if err := watchLoad(ctx, show, "wedge", f, o.times().after); err != nil {
		return err
	}
	ended, err := f.ended(ctx)
	if err != nil {
		return err
	}
	_, missed := f.audience.counts()
	r.Ended = max(ended, missed)
	c := f.tally.counts(time.Now())
	r.Requests, r.Max = c.requests(), milliseconds(c.Slowest)
	for _, failed := range f.tally.allFailures() {
		r.count(failed, suspected)
	}
	return nil
}

// count sorts a failed call by whether its caller could know.
func (r *Wedge) count(failed failure, suspected time.Time) {
	switch {
	case failed.Begun > suspected.Add(sameInstant).UnixNano():
		r.FailedAfter++
	case failed.Why == whyTimeout:
		r.Stuck++
		return
	default:
		r.Failed++
	}
	r.Details = detail(r.Details, failed)
}

func (r *Wedge) broken() (out []string) {
	say := func(format string, args ...any) { out = append(out, "wedge: "+fmt.Sprintf(format, args...)) }
	if r.FailedAfter > 0 || r.Failed > 0 {
		say("%d calls failed that were begun after it was suspect, and %d otherwise than by waiting for it (%s)", r.FailedAfter, r.Failed, joined(r.Details))
	}
	if r.Ended > 0 {
		say("%d instances were taken for ended while one only hung", r.Ended)
	}
	switch {
	case r.ToSuspect == 0:
		say("not every caller doubted the instance that hung within %s", wedgedWithin)
	case r.LatePicks > 0:
		say("a call was left to it after every caller had been told to doubt it")
	case r.ToCure == 0:
		say("it answered again, and wasn't trusted again by every caller")
	}
	return out
}

func (r *Wedge) print(w io.Writer) {
	fmt.Fprintf(w, "\nwedge: the handler of one instance hangs, its process beats on\n  %s\n"+
		"  callers wait %s for an answer; every fifth call has an Idempotency-Key,\n"+
		"  and so can be the trial that cures\n\n", r.Setup, headerTimeout)
	row := rows(w)
	row(r.Requests, "requests")
	row(duration(r.ToSuspect), "from the hang until the last caller doubted it")
	row(r.FailedAfter, "failed that were begun after that (promise: 0)")
	row(r.LatePicks, "calls left to it from then on (promise: 0; a trial goes elsewhere)")
	row(r.Stuck, "stuck: begun before that, timed out")
	row(r.Ended, "instances taken for ended (promise: 0)")
	row(duration(r.ToCure), "from when it answered again until every caller trusted it")
	row(duration(r.Max), "the longest that a caller waited for a call")
}
