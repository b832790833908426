package roster

import (
	"time"

	"github.com/eiderhq/eider/meter"
)

// tell tells the Meter how old the list is.
func (r *Roster) tell(emit func(meter.Sample)) {
	u := r.View()
	if u.View == nil {
		return
	}
	age, fromDisk := time.Duration(0), 0.0
	if !u.Connected {
		age = max(time.Since(u.Heard), 0)
	}
	if u.FromDisk {
		fromDisk = 1
	}
	emit(meter.Sample{Metric: meter.ViewAge, Service: r.service, Value: age.Seconds()})
	emit(meter.Sample{Metric: meter.ViewFromDisk, Service: r.service, Value: fromDisk})
	emit(meter.Sample{Metric: meter.ViewInstances, Service: r.service, Value: float64(len(u.View.Instances))})
}
