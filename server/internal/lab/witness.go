package lab

import (
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

// witness tells what a caller's own roster holds: a second one on the same handle as the transport's, which gets the
// same views from the same goroutine. Times are the caller's, so that nothing rests on what the registry says of itself.
type witness struct {
	ros  *roster.Roster
	tell *teller

	mu    sync.Mutex
	known map[string]sighting
	empty bool // nobody of it could be called
}

// sighting is one instance as one caller's roster has it. Status is "" if it isn't there.
type sighting struct {
	ID     string `json:"id"`
	Status string `json:"status,omitempty"`
	Doubt  string `json:"doubt,omitempty"`
	At     int64  `json:"at"` // Unix ns
}

// watchRoster starts to tell; close the roster to end it.
func watchRoster(reg *registry.Registry, service string, tell *teller) *witness {
	w := &witness{tell: tell, known: map[string]sighting{}}
	w.ros = roster.Config{Applied: func(*eider.View) { w.look() }}.Follow(reg, service)
	w.ros.View()
	return w
}

// look tells what has changed. It is called with every view, and now and then: a roster drops by its clock too.
func (w *witness) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	view := w.ros.View().View // under the lock, or an older view could be told after a newer one
	if view == nil {
		return
	}
	now, callable, seen := time.Now().UnixNano(), 0, map[string]bool{}
	for _, in := range view.Instances {
		seen[in.ID] = true
		if in.Status == eider.Up {
			callable++
		}
		w.note(sighting{ID: in.ID, Status: in.Status.String(), Doubt: in.Suspicion.String(), At: now})
	}
	for id, was := range w.known {
		if !seen[id] && was.Status != "" {
			w.note(sighting{ID: id, At: now})
		}
	}
	if empty := callable == 0; empty != w.empty {
		w.empty = empty
		if empty {
			w.tell.tell(line{Kind: "empty"})
		}
	}
}

func (w *witness) note(s sighting) {
	was := w.known[s.ID]
	if was.Status == s.Status && was.Doubt == s.Doubt {
		return
	}
	w.known[s.ID] = s
	w.tell.tell(line{Kind: "saw", Saw: &s})
}

// audience is what the witnesses of a fleet have told.
type audience struct {
	mu      sync.Mutex
	size    int
	saw     map[int]map[string]sighting // by caller, by instance
	emptied map[int]bool                // callers whose roster had nobody to call
	missed  map[string]bool             // instances that a roster had and then hadn't
}

func newAudience(size int) *audience {
	return &audience{size: size, saw: map[int]map[string]sighting{}, emptied: map[int]bool{}, missed: map[string]bool{}}
}

func (a *audience) hear(caller int, l line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case l.Kind == "empty":
		a.emptied[caller] = true
	case l.Kind == "saw" && l.Saw != nil:
		if a.saw[caller] == nil {
			a.saw[caller] = map[string]sighting{}
		}
		a.saw[caller][l.Saw.ID] = *l.Saw
		if l.Saw.Status == "" {
			a.missed[l.Saw.ID] = true
		}
	}
}

// all tells whether every caller's roster has the instance as it should be, and since when the last one and the first
// one have.
func (a *audience) all(id string, ok func(sighting) bool) (first, last time.Time, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.saw) < a.size {
		return first, last, false
	}
	for _, saw := range a.saw {
		s, known := saw[id]
		if !known || !ok(s) {
			return first, last, false
		}
		at := time.Unix(0, s.At)
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last, true
}

func (a *audience) counts() (emptied, missed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.emptied), len(a.missed)
}

func doubted(s sighting) bool   { return s.Doubt != "" }
func undoubted(s sighting) bool { return s.Status == eider.Up.String() && s.Doubt == "" }
