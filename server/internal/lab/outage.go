package lab

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/eiderhq/eider"
)

// Outage is the scene outage.
type Outage struct {
	Requests   int      `json:"requests"`
	Failed     int      `json:"failed"`
	Emptied    int      `json:"emptied_rosters"`      // callers that had nobody to call at some time
	Lost       int      `json:"lost_instances"`       // instances that a roster lost
	Reattached float64  `json:"reattached_ms"`        // from when the registry served again until the last instance was listed again; 0 if one wasn't
	Restored   int      `json:"restored"`             // instances in the registry's first answer
	Instances  int      `json:"instances"`            // that there are
	Away       float64  `json:"away_ms"`              // from SIGKILL until it served again
	Trusted    float64  `json:"served_to_trusted_ms"` // from when it served again until no caller doubted any of them; 0 if one still did
	Max        float64  `json:"max_ms"`               // the longest that a caller waited for a call
	Blind      Blind    `json:"started_blind"`
	Details    []string `json:"details,omitempty"`
	Setup      string   `json:"setup"`
}

// playOutage kills the registry and starts it again from its disk, under load.
func playOutage(ctx context.Context, o *Options, show *display) (*Outage, error) {
	p := plan{way: wayEider, instances: 3, callers: 20, work: 30 * time.Millisecond, think: 10 * time.Millisecond, witness: true, persistent: true, rosters: true, seed: o.Seed}
	show.say("outage: starting a registry with a disk, 3 instances and 20 callers, each a process …")
	f, err := p.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := watchLoad(ctx, show, "outage", f, o.times().before); err != nil {
		return nil, err
	}
	if err := f.awaitRoster(ctx); err != nil {
		return nil, err
	}
	r := &Outage{Setup: p.sentence(), Instances: p.instances}
	killed := time.Now()
	if err := f.killRegistry(ctx); err != nil {
		return nil, err
	}
	if err := f.startBlind(ctx, r); err != nil {
		return nil, err
	}
	if err := watchLoad(ctx, show, "outage", f, o.times().after); err != nil { // so long it is away, and more
		return nil, err
	}
	if err := f.startRegistry(ctx); err != nil {
		return nil, err
	}
	served := time.Now()
	r.Away = milliseconds(served.Sub(killed))
	var first eider.View
	if err := getJSON(ctx, "http://"+f.http+"/v1/services/"+service, &first); err != nil {
		return nil, err
	}
	for _, in := range first.Instances {
		if in.ID != f.at(r.Blind.instance).id { // who began meanwhile may be listed already
			r.Restored++
		}
	}
	if err := f.awaitBack(ctx, show, r, killed, served); err != nil {
		return nil, err
	}
	if err := watchLoad(ctx, show, "outage", f, o.times().after); err != nil {
		return nil, err
	}
	c := f.tally.counts(time.Now())
	r.Requests, r.Failed, r.Max = c.requests(), c.Failed, milliseconds(c.Slowest)
	r.Emptied, r.Lost = f.audience.counts()
	own := r.Blind.caller.counts(time.Now())
	r.Blind.Requests, r.Blind.Failed = own.requests(), own.Failed
	for _, failed := range f.tally.allFailures() {
		r.Details = detail(r.Details, failed)
	}
	return r, nil
}

// awaitBack shows the load until every instance has said that it is listed again, or at last, and no caller doubts any.
func (f *fleet) awaitBack(ctx context.Context, show *display, r *Outage, killed, served time.Time) error {
	for deadline := served.Add(15 * time.Second); time.Now().Before(deadline) && (r.Reattached == 0 || r.Trusted == 0 || !r.Blind.done()); {
		r.Blind.look(f, served)
		if last, all := f.listedSince(killed); all && r.Reattached == 0 {
			r.Reattached = since(served, last)
		}
		trusted, all := served, true
		for i := range f.plan.instances {
			_, last, every := f.audience.all(f.at(i).id, undoubted)
			all = all && every
			if last.After(trusted) {
				trusted = last
			}
		}
		if all && r.Reattached > 0 {
			r.Trusted = since(served, trusted)
		}
		if err := watchLoad(ctx, show, "outage", f, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// listedSince tells when the last instance said that it is listed, if all that were before have since then.
func (f *fleet) listedSince(then time.Time) (last time.Time, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.instances[:f.plan.instances] {
		if !in.listed.After(then) {
			return last, false
		}
		if in.listed.After(last) {
			last = in.listed
		}
	}
	return last, true
}

func (r *Outage) broken() (out []string) {
	say := func(format string, args ...any) { out = append(out, "outage: "+fmt.Sprintf(format, args...)) }
	if r.Failed > 0 {
		say("%d calls failed (%s)", r.Failed, joined(r.Details))
	}
	if r.Emptied > 0 || r.Lost > 0 {
		say("%d callers had nobody to call, %d instances were lost by a roster", r.Emptied, r.Lost)
	}
	switch {
	case r.Restored < r.Instances:
		say("the registry came back with %d of %d instances", r.Restored, r.Instances)
	case r.Reattached == 0:
		say("not every instance was listed again within 15 s")
	case r.Trusted == 0:
		say("not every caller trusted every instance again within 15 s")
	}
	r.Blind.broken(say)
	return out
}

func (r *Outage) print(w io.Writer) {
	fmt.Fprintf(w, "\noutage: SIGKILL of the registry, then started again from its disk\n  %s\n\n", r.Setup)
	row := rows(w)
	row(r.Requests, "requests")
	row(r.Failed, "failed (promise: 0)")
	row(r.Emptied, "callers that had nobody to call at some time (promise: 0)")
	row(duration(r.Away), "from the kill until it served again")
	row(fmt.Sprintf("%d of %d", r.Restored, r.Instances), "instances in its first answer")
	row(duration(r.Reattached), "from then until the last instance had attached again")
	row(duration(r.Trusted), "from then until no caller doubted any of them")
	row(duration(r.Max), "the longest that a caller waited for a call")
	r.Blind.print(w)
}
