package supervise

import (
	"time"

	"github.com/eiderhq/eider/retry"
)

const (
	restartFirst = time.Second
	restartMost  = 30 * time.Second
	healthyAfter = 10 * time.Second // a run that lasted so long hasn't failed at its start: the pauses begin anew
)

// restarts counts failures in a row.
type restarts struct{ tries int }

// next is how long to wait until the next start, after a run of that length.
func (r *restarts) next(lasted time.Duration, rnd float64) time.Duration {
	if lasted >= healthyAfter {
		r.tries = 0
	}
	r.tries++
	return retry.Backoff{Base: restartFirst, Max: restartMost}.Delay(r.tries-1, rnd)
}
