package registry

import (
	"time"

	"github.com/eiderhq/eider/meter"
)

// Meter returns what counts for this process, nil for none.
func (r *Registry) Meter() *meter.Meter { return r.meter }

// tell tells the Meter of streams and listings.
func (r *Registry) tell(emit func(meter.Sample)) {
	r.attach.tell(emit)
	r.follow.tell(emit)
}

func (w *watcher) tell(emit func(meter.Sample)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		emit(meter.Sample{Metric: meter.StreamUp, Label: "watch", Value: oneIf(w.run != 0)})
	}
}

func (a *attacher) tell(emit func(meter.Sample)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started {
		return
	}
	emit(meter.Sample{Metric: meter.StreamUp, Label: "attach", Value: oneIf(a.up)})
	unlisted := 0
	for _, l := range a.listings {
		if l.leaving != nil {
			continue
		}
		listed := time.Duration(0)
		if l.state.Listed {
			listed = max(time.Since(l.state.Since), time.Nanosecond)
		} else {
			unlisted++
		}
		if l.rec.ID != "" {
			emit(meter.Sample{Metric: meter.ListedSeconds, Service: l.rec.Service, Label: l.rec.ID, Value: listed.Seconds()})
		}
	}
	emit(meter.Sample{Metric: meter.UnlistedCounts, Value: float64(unlisted)})
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
