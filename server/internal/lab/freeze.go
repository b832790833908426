package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
)

const (
	frozenFor     = 10 * time.Second // SIGSTOP until SIGCONT
	headerTimeout = time.Second      // of the callers of freeze and wedge
	sameInstant   = 5 * time.Millisecond
)

// Freeze is the scene freeze.
type Freeze struct {
	Requests       int      `json:"requests"`
	Failed         int      `json:"failed"`                  // calls that failed, but for those stuck
	Stuck          int      `json:"stuck"`                   // calls begun before the suspicion that timed out
	Throughput     float64  `json:"throughput_ratio"`        // from the suspicion plus one header timeout until SIGCONT, over that before SIGSTOP
	FalseEvictions int      `json:"false_evictions"`         // instances that a roster lost, or that the registry took for ended
	Max            float64  `json:"max_ms"`                  // the longest that a caller waited for a call, whatever came of it
	ToSuspect      float64  `json:"stop_to_suspect_ms"`      // SIGSTOP until the last caller's roster doubted it; 0 if none did
	Told           float64  `json:"first_to_last_caller_ms"` // between the first caller that doubted it and the last
	LatePicks      int      `json:"picks_after_suspicion"`   // 1 if any call was sent to it after that, until SIGCONT
	ToCure         float64  `json:"cont_to_cured_ms"`        // SIGCONT until no caller doubted it any more
	Details        []string `json:"details,omitempty"`
	Setup          string   `json:"setup"`
}

// playFreeze stops one of three instances for ten seconds, under load.
func playFreeze(ctx context.Context, o *Options, show *display) (*Freeze, error) {
	p := plan{way: wayEider, instances: 3, callers: 20, work: 30 * time.Millisecond, think: 10 * time.Millisecond, header: headerTimeout, witness: true, seed: o.Seed}
	show.say("freeze: starting a registry, 3 instances and 20 callers, each a process …")
	f, err := p.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	before, err := f.throughput(ctx, show, "freeze", 2*o.times().before)
	if err != nil {
		return nil, err
	}
	victim := p.shuffled().IntN(p.instances)
	in, stopped := f.at(victim), time.Now()
	if err := in.child.signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	defer in.child.signal(syscall.SIGCONT)
	f.setState(victim, "frozen (SIGSTOP)")
	r := &Freeze{Setup: p.sentence()}
	first, suspected, err := f.awaitSight(ctx, show, "freeze", in.id, doubted, time.Until(stopped.Add(frozenFor-2*headerTimeout)))
	if err != nil {
		return nil, err
	}
	if suspected.IsZero() {
		suspected = stopped.Add(frozenFor)
	} else {
		r.ToSuspect, r.Told = milliseconds(suspected.Sub(stopped)), milliseconds(suspected.Sub(first))
		if err := watchLoad(ctx, show, "freeze", f, time.Until(suspected.Add(headerTimeout))); err != nil {
			return nil, err
		}
		after, err := f.throughput(ctx, show, "freeze", time.Until(stopped.Add(frozenFor)))
		if err != nil {
			return nil, err
		}
		r.Throughput = after / before
	}
	if f.tally.lastTryOf(in.address) > suspected.Add(sameInstant).UnixNano() {
		r.LatePicks = 1
	}
	return r, f.thaw(ctx, o, show, r, victim, suspected)
}

// thaw lets the instance go on, waits until every caller trusts it again, and sums the scene up.
func (f *fleet) thaw(ctx context.Context, o *Options, show *display, r *Freeze, victim int, suspected time.Time) error {
	in, resumed := f.at(victim), time.Now()
	if err := in.child.signal(syscall.SIGCONT); err != nil {
		return err
	}
	f.setState(victim, "UP")
	_, cured, err := f.awaitSight(ctx, show, "freeze", in.id, undoubted, 15*time.Second)
	if err != nil {
		return err
	}
	if !cured.IsZero() {
		r.ToCure = milliseconds(max(0, cured.Sub(resumed)))
	}
	if err := watchLoad(ctx, show, "freeze", f, o.times().after); err != nil {
		return err
	}
	ended, err := f.ended(ctx)
	if err != nil {
		return err
	}
	_, missed := f.audience.counts()
	r.FalseEvictions = max(ended, missed)
	c := f.tally.counts(time.Now())
	r.Requests, r.Max = c.requests(), milliseconds(c.Slowest)
	for _, failed := range f.tally.allFailures() {
		r.count(failed, suspected)
	}
	return nil
}

// count sorts a failed call: begun before the suspicion, a timeout is what freezing costs; else it should have gone
// elsewhere. The witness is told within the same instant as the transport's roster, which is a few milliseconds.
func (r *Freeze) count(failed failure, suspected time.Time) {
	if failed.Why == whyTimeout && failed.Begun < suspected.Add(sameInstant).UnixNano() {
		r.Stuck++
		return
	}
	r.Failed++
	r.Details = detail(r.Details, failed)
}

func (r *Freeze) broken() (out []string) {
	say := func(format string, args ...any) { out = append(out, "freeze: "+fmt.Sprintf(format, args...)) }
	if r.Failed > 0 {
		say("%d calls failed that should have gone elsewhere (%s)", r.Failed, joined(r.Details))
	}
	if r.FalseEvictions > 0 {
		say("%d instances were taken for ended while they were only frozen", r.FalseEvictions)
	}
	switch {
	case r.ToSuspect == 0:
		say("not every caller doubted the frozen instance within %s", frozenFor-2*headerTimeout)
	case r.LatePicks > 0:
		say("it was picked after every caller had been told to doubt it")
	case r.Throughput < 0.6:
		say("throughput fell to %.0f %% of before, once it was suspect; 60 %% is promised", 100*r.Throughput)
	}
	if r.ToCure == 0 {
		say("it went on, and wasn't trusted again by every caller")
	}
	return out
}

func (r *Freeze) print(w io.Writer) {
	fmt.Fprintf(w, "\nfreeze: SIGSTOP of one instance for %s, then SIGCONT\n  %s\n"+
		"  callers wait %s for an answer\n\n", frozenFor, r.Setup, headerTimeout)
	row := rows(w)
	row(r.Requests, "requests")
	row(r.Failed, "failed that should have gone elsewhere (promise: 0)")
	row(r.Stuck, "stuck: begun before it was suspect, timed out")
	row(duration(r.ToSuspect), "from SIGSTOP until the last caller doubted it (2 missed beats)")
	row(r.LatePicks, "picks of it from then until SIGCONT (promise: 0)")
	row(fmt.Sprintf("%.0f %%", 100*r.Throughput), "of the throughput from then plus 1 s on (promise: 60 % at least)")
	row(r.FalseEvictions, "instances taken for ended (promise: 0)")
	row(duration(r.ToCure), "from SIGCONT until every caller trusted it again")
	row(duration(r.Max), "the longest that a caller waited for a call")
}

// rows prints a figure and what it is, a line each.
func rows(w io.Writer) func(figure any, text string) {
	return func(figure any, text string) { fmt.Fprintf(w, "  %9v  %s\n", figure, text) }
}

// throughput shows the load for a while and returns its answers a second.
func (f *fleet) throughput(ctx context.Context, show *display, scene string, length time.Duration) (float64, error) {
	start, was := time.Now(), f.tally.counts(time.Now()).OK
	err := watchLoad(ctx, show, scene, f, length)
	return float64(f.tally.counts(time.Now()).OK-was) / time.Since(start).Seconds(), err
}

// awaitSight shows the load until every caller's roster has the instance as it should be, and returns when the first
// one and the last one had; zero times if not all have within the limit.
func (f *fleet) awaitSight(ctx context.Context, show *display, scene, id string, ok func(sighting) bool, limit time.Duration) (first, last time.Time, err error) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if first, last, all := f.audience.all(id, ok); all {
			return first, last, nil
		}
		if err := watchLoad(ctx, show, scene, f, 20*time.Millisecond); err != nil {
			return first, last, err
		}
	}
	return time.Time{}, time.Time{}, nil
}

// ended counts the instances that the registry's own events say were ended otherwise than by a leave.
func (f *fleet) ended(ctx context.Context) (int, error) {
	var got struct {
		Events []eider.Event `json:"events"`
	}
	if err := getJSON(ctx, "http://"+f.http+"/v1/events?last=10000&limit=10000", &got); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range got.Events {
		if e.Kind == eider.EventDead || e.Kind == eider.EventLapsed {
			n++
		}
	}
	return n, nil
}

// getJSON asks a registry's HTTP port.
func getJSON(ctx context.Context, url string, into any) error {
	_, err := getChanged(ctx, url, "", into)
	return err
}

// getChanged reads what has changed since it had a tag, and returns the tag that it has now.
func getChanged(ctx context.Context, url, had string, into any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if had != "" {
		req.Header.Set("If-None-Match", had)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch {
	case had != "" && resp.StatusCode == http.StatusNotModified:
		return had, nil
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("reading %s: status %d", url, resp.StatusCode)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return "", fmt.Errorf("reading %s: %w", url, err)
	}
	return resp.Header.Get("ETag"), nil
}
