package solo

import (
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/ledger"
)

// Hold holds the instance of a key.
func (r *Registry) Hold(key eider.Key, h eider.Hold) (eider.Hold, error) {
	defer r.mu.Unlock()
	now, err := r.enter("hold " + key.String())
	if err != nil {
		return h, err
	}
	h, effects, err := r.table.Hold(now, key, h)
	r.apply(now, effects)
	return h, err
}

// Release ends a hold.
func (r *Registry) Release(key eider.Key, by string) error {
	defer r.mu.Unlock()
	now, err := r.enter("release " + key.String())
	if err != nil {
		return err
	}
	effects, err := r.table.Release(now, key, by)
	r.apply(now, effects)
	return err
}

// Holds returns the keys that are held.
func (r *Registry) Holds() (out []eider.Held) {
	r.look(func(_ time.Time, t *ledger.Table) { out = t.Holds() })
	return out
}
