package registry

import (
	"cmp"
	"errors"
	"slices"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/internal/wire"
)

// maxGone bounds who is remembered as gone in a view that grows by deltas. Beyond it the older half is
// forgotten: whoever has slept through that learns of it by absence, a lease later.
const maxGone = 512

var errBase = errors.New("the change is to a view that isn't held here")

// held is the newest view of one service, and since which number each of its gone has been in it.
type held struct {
	view  *eider.View // never written to: a change makes another
	since []uint64    // parallel to view.Gone
}

// take puts a node's message on top of what is held, and returns what is held then. errBase means that the
// message is a change to something else; older news than what is held is no error and changes nothing.
//
// A message with a line that can't be read (a status that only a newer node knows) is taken without that
// line, as incomplete: whoever is missing for that reason is kept by those who know him.
//
// afresh means that the node was asked for its state as it stands: that is taken whatever its number.
func (h held) take(m *wire.View, afresh bool) (held, error) {
	at := m.Cursor
	if h.view != nil && !afresh && at.Run == h.view.Cursor.Run && at.Number <= h.view.Cursor.Number {
		return h, nil
	}
	next := &eider.View{Service: m.Service, Cursor: at, Complete: m.Complete && m.Unread == 0}
	if m.Base == 0 {
		next.Instances, next.Gone = m.Instances, m.Gone
		m.Instances, m.Gone = nil, nil // the reader uses them for its next message else
		return held{view: next, since: slices.Repeat([]uint64{at.Number}, len(next.Gone))}, nil
	}
	if h.view == nil || at.Run != h.view.Cursor.Run || m.Base != h.view.Cursor.Number {
		return h, errBase
	}
	next.Instances = splice(h.view.Instances, m.Instances, m.Gone)
	next.Gone = h.view.Gone
	since := h.since
	if len(m.Gone) > 0 {
		next.Gone, since = addGone(h.view.Gone, since, m.Gone, at.Number)
	}
	return held{view: next, since: since}, nil
}

// splice returns old with the changed put in and the gone taken out; all are ordered by id. An old one is gone
// only if it is the same incarnation: its successor may be there already.
func splice(old, changed []eider.Instance, gone []eider.Gone) []eider.Instance {
	out := make([]eider.Instance, 0, len(old)+len(changed))
	from := 0
	// upTo copies what comes before id, and returns whether id itself was next.
	upTo := func(id string) bool {
		at, found := slices.BinarySearchFunc(old[from:], id, byID)
		out = append(out, old[from:from+at]...)
		from += at
		return found
	}
	for len(changed) > 0 || len(gone) > 0 {
		if len(gone) == 0 || len(changed) > 0 && changed[0].ID <= gone[0].ID {
			if upTo(changed[0].ID) {
				from++
			}
			if len(gone) > 0 && gone[0].ID == changed[0].ID {
				gone = gone[1:] // the one before it
			}
			out = append(out, changed[0])
			changed = changed[1:]
			continue
		}
		if upTo(gone[0].ID) && old[from].Incarnation.Is(gone[0].Incarnation) {
			from++
		}
		gone = gone[1:]
	}
	return append(out, old[from:]...)
}

func byID(in eider.Instance, id string) int { return cmp.Compare(in.ID, id) }

// addGone returns old with more in it, and since when each has been: more replaces what old says of an id.
func addGone(old []eider.Gone, since []uint64, more []eider.Gone, now uint64) ([]eider.Gone, []uint64) {
	gone := make([]eider.Gone, 0, len(old)+len(more))
	ages := make([]uint64, 0, len(old)+len(more))
	for len(old) > 0 || len(more) > 0 {
		if len(more) == 0 || len(old) > 0 && old[0].ID < more[0].ID {
			gone, ages = append(gone, old[0]), append(ages, since[0])
			old, since = old[1:], since[1:]
			continue
		}
		if len(old) > 0 && old[0].ID == more[0].ID {
			old, since = old[1:], since[1:]
		}
		gone, ages = append(gone, more[0]), append(ages, now)
		more = more[1:]
	}
	if len(gone) <= maxGone {
		return gone, ages
	}
	return forget(gone, ages)
}

// forget keeps the younger half.
func forget(gone []eider.Gone, since []uint64) ([]eider.Gone, []uint64) {
	order := slices.Clone(since)
	slices.Sort(order)
	oldest := order[len(order)-maxGone/2]
	kept, ages := gone[:0], since[:0]
	for i, g := range gone {
		if since[i] >= oldest {
			kept, ages = append(kept, g), append(ages, since[i])
		}
	}
	return kept, ages
}
