package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/eiderhq/eider/breaker"
)

// Force is an operator's word, for all callers of a key: [breaker.ForcedOpen] rejects every call, [breaker.ForcedClosed] lets
// every call through and counts none, and [breaker.Closed] takes either back, as if it had never opened. It also mends a record
// that nobody can read. It returns the record as it is then.
func Force(ctx context.Context, store Store, key string, to breaker.State) (Record, error) {
	switch to {
	case breaker.ForcedOpen, breaker.ForcedClosed, breaker.Closed:
	default:
		return Record{}, fmt.Errorf("fleet breaker %q: it can't be made %v by hand: want forced open, forced closed or closed", key, to)
	}
	s, err := store.Tell(ctx, key, "operator", nil, false)
	for range 20 { // each time somebody else was faster: that is one step of the whole fleet
		if err != nil {
			return Record{}, fmt.Errorf("fleet breaker %q: %w", key, err)
		}
		r, unreadable := Read(s)
		if unreadable != nil || s.Version == 0 {
			r = Record{Epoch: rand.Uint64() | 1}
		}
		r = r.Force(to)
		var done bool
		if s, done, err = store.Swap(ctx, key, s.Version, r.Bytes()); done && err == nil {
			return r, nil
		}
	}
	return Record{}, errors.Join(fmt.Errorf("fleet breaker %q: its callers change it faster than it can be forced: try again", key), err)
}
