package eider

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Bounds on a hold. They are part of the protocol: every node holds to them.
const (
	MaxHoldText = 256                  // bytes of a reason, and of who held it
	MaxHoldFor  = 366 * 24 * time.Hour // the longest that ends by itself
)

// Hold is an operator's reversible decision that the instance of a key isn't picked, while its process is
// untouched: it keeps its status, its beats and whatever it is doing. It belongs to the key, beside the record
// and outside its order, so it outlives re-registration, a new incarnation and the end of the instance.
type Hold struct {
	Count  uint64    `json:"count"`            // orders holds and releases of a key: the higher counts, a tie holds; never 0
	Reason string    `json:"reason,omitempty"` // for people
	By     string    `json:"by,omitempty"`     // who held it, as the node knows him
	Since  time.Time `json:"since,omitzero"`   // by the node's clock, to the millisecond
	Until  time.Time `json:"until,omitzero"`   // ends by itself then; zero: when it is released
}

// Equal tells whether both say the same in every field.
func (h *Hold) Equal(other *Hold) bool {
	if h == nil || other == nil {
		return h == other
	}
	return h.Count == other.Count && h.Reason == other.Reason && h.By == other.By &&
		h.Since.Equal(other.Since) && h.Until.Equal(other.Until)
}

// Check reports every text of the hold that breaks a bound, as one error; nil if none does.
func (h *Hold) Check() error {
	var errs []error
	for field, text := range map[string]string{"reason": h.Reason, "by": h.By} {
		if len(text) > MaxHoldText || !utf8.ValidString(text) {
			errs = append(errs, fmt.Errorf("%s: %.40q must be at most %d bytes of UTF-8, it has %d", field, text, MaxHoldText, len(text)))
		}
	}
	return errors.Join(errs...)
}

// Held is one key that is held.
type Held struct {
	Key
	Hold
	Status Status    `json:"status,omitzero"` // of its instance; none if nobody of that key is known any more
	Gone   time.Time `json:"gone,omitzero"`   // since when nobody of that key is listed, by the node's clock; zero: somebody is
}
