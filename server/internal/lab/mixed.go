package lab

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiderhq/eider"
)

// Mixed is the scene mixed.
type Mixed struct {
	Requests      int      `json:"requests"`
	Failed        int      `json:"failed"`         // of native callers and pollers
	UnknownFailed int      `json:"unknown_failed"` // of callers that know nothing
	Restarts      int      `json:"restarts"`
	Pause         float64  `json:"pause_ms"`          // the longest
	WaitedFor     []string `json:"waited_for"`        // by the last restart's report: who, and what settled it
	Unnamed       []string `json:"unnamed,omitempty"` // who should have been waited for, and wasn't
	Details       []string `json:"details,omitempty"`
	Setup         string   `json:"setup"`
}

const (
	mixedNative  = 10
	mixedPollers = 5
	mixedUnknown = 5
)

// playMixed restarts instances one after the other under callers of three kinds.
func playMixed(ctx context.Context, o *Options, show *display) (*Mixed, error) {
	p := plan{way: wayEider, instances: 3, callers: mixedNative + mixedPollers + mixedUnknown, pollers: mixedPollers, unknown: mixedUnknown,
		work: 30 * time.Millisecond, think: 10 * time.Millisecond, seed: o.Seed}
	show.say("mixed: starting a registry, 3 instances and 20 callers of three kinds, each a process …")
	f, err := p.open(ctx, o.Binary)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := watchLoad(ctx, show, "mixed", f, 2*o.times().before); err != nil {
		return nil, err
	}
	restarts := p.instances
	if o.Short {
		restarts = 2
	}
	r := &Mixed{Setup: p.sentence()}
	for i := range restarts {
		done := make(chan error, 1)
		go func() { done <- f.restart(ctx, i) }()
		if err := watchUntil(ctx, show, "mixed", f, done); err != nil {
			return nil, err
		}
		left := f.audit.lastLeft()
		if left == nil {
			return nil, fmt.Errorf("the instance of place %d didn't say how it left", i)
		}
		r.name(left)
		if err := watchLoad(ctx, show, "mixed", f, o.times().after); err != nil {
			return nil, err
		}
	}
	row := f.way2row()
	r.Requests, r.Restarts, r.Details = row.Requests, row.Restarts, row.Details
	if row.Pause != nil {
		r.Pause = row.Pause.Max
	}
	for _, failed := range f.tally.allFailures() {
		if failed.Way == wayUnknown {
			r.UnknownFailed++
		} else {
			r.Failed++
		}
	}
	return r, nil
}

// watchUntil shows the load until something is done.
func watchUntil(ctx context.Context, show *display, scene string, f *fleet, done <-chan error) error {
	for start := time.Now(); ; {
		show.frame(scene, time.Since(start), []*fleet{f})
		select {
		case err := <-done:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// name tells whom a departure waited for. Who should have been and isn't named is a broken promise, whatever luck the
// callers had.
func (r *Mixed) name(left *departure) {
	r.WaitedFor = nil
	count := map[eider.CallerKind]int{}
	last := time.Duration(0)
	for _, m := range left.Members {
		switch count[m.Kind]++; {
		case m.Kind == eider.Native && m.State == eider.LetGo:
			last = max(last, m.Settled)
		case m.Kind == eider.UnknownCallers:
			r.WaitedFor = append(r.WaitedFor, fmt.Sprintf("%s: says neither who it is nor that it has let go, so its pause of %s is waited for", m.Caller, m.Cap))
		case m.Kind == eider.Poller:
			r.WaitedFor = append(r.WaitedFor, fmt.Sprintf("%s: fetches the list each %s; %s after %s", m.Caller, m.Every, m.State, m.Settled.Round(time.Millisecond)))
		default:
			r.WaitedFor = append(r.WaitedFor, m.String())
		}
	}
	if n := count[eider.Native]; n > 0 {
		r.WaitedFor = append(r.WaitedFor, fmt.Sprintf("%d native callers: said that they had let go, the last after %s", n, last.Round(time.Microsecond*10)))
	}
	want := map[eider.CallerKind]int{eider.Native: mixedNative, eider.Poller: mixedPollers, eider.UnknownCallers: 1}
	for _, kind := range slices.Sorted(maps.Keys(want)) {
		if count[kind] < want[kind] {
			r.Unnamed = append(r.Unnamed, fmt.Sprintf("%s waited for %d callers of kind %s, of %d", left.To, count[kind], kind, want[kind]))
		}
	}
}

func (r *Mixed) broken() (out []string) {
	if r.Failed > 0 || r.UnknownFailed > 0 {
		out = append(out, fmt.Sprintf("mixed: %d calls of native callers and pollers failed, and %d of callers that know nothing (%s)", r.Failed, r.UnknownFailed, joined(r.Details)))
	}
	if len(r.Unnamed) > 0 {
		out = append(out, "mixed: "+joined(r.Unnamed))
	}
	if r.Restarts == 0 || r.Requests == 0 {
		out = append(out, "mixed showed nothing: no restart or no request")
	}
	return out
}

func (r *Mixed) print(w io.Writer) {
	fmt.Fprintf(w, "\nmixed: a rolling restart under callers of three kinds\n  %s\n"+
		"  %d native, %d pollers, %d that re-read addresses each %s and say nothing\n\n", r.Setup, mixedNative, mixedPollers, mixedUnknown, unknownRefresh)
	row := rows(w)
	row(r.Requests, "requests")
	row(r.Failed, "failed, of native callers and pollers (promise: 0)")
	row(r.UnknownFailed, "failed, of callers that know nothing (promise: 0)")
	row(r.Restarts, "restarts; the longest pause took "+duration(r.Pause))
	fmt.Fprintf(w, "\n  whom the last one waited for:\n")
	for _, who := range r.WaitedFor {
		fmt.Fprintf(w, "    %s\n", strings.Join(wrap(who, 74), "\n      "))
	}
}

// wrap breaks a text between words into lines of so many bytes at most, longer only where one word is.
func wrap(text string, width int) (lines []string) {
	for len(text) > width {
		at := strings.LastIndexByte(text[:width+1], ' ')
		if at < 0 {
			break
		}
		lines, text = append(lines, text[:at]), text[at+1:]
	}
	return append(lines, text)
}
