package eider

import (
	"fmt"
	"slices"
	"strings"
)

// Cursor is a place in one node's history of one service. Cursors of different node runs can't be
// compared: another run means a snapshot.
type Cursor struct {
	Run    uint64 `json:"run"`    // the node run's random id; 0 is no place at all
	Number uint64 `json:"number"` // counts the published changes of the service, from 1
}

// String writes run:number, the run in hexadecimal.
func (c Cursor) String() string { return fmt.Sprintf("%x:%d", c.Run, c.Number) }

// Instance is one instance as a view shows it: the record, the doubts about it, and the hold on it.
type Instance struct {
	Record
	Suspicion Suspicion `json:"suspicion,omitzero"`
	Hold      *Hold     `json:"hold,omitempty"` // nil: it isn't held. Immutable, as the view is
}

// Equal tells whether both say the same in every field.
func (in *Instance) Equal(other *Instance) bool {
	return in.Suspicion == other.Suspicion && in.Hold.Equal(other.Hold) && in.Record.Equal(&other.Record)
}

// Gone tells how an instance ended: the word that lets a caller forget it.
type Gone struct {
	ID          string      `json:"id"`
	Incarnation Incarnation `json:"incarnation"`
	Attachment  uint64      `json:"attachment"`
	Version     uint64      `json:"version"`
	Status      Status      `json:"status"` // LEFT, DEAD or LAPSED
}

// View is the state of one service at a cursor. It is immutable: whoever holds one may keep it, and
// nobody may write to it.
//
// Absence from a view is not deletion. An instance that a caller knew and that is in neither list is
// suspect for a lease and then dropped if the view is complete, and kept if it isn't.
type View struct {
	Service   string     `json:"service"`
	Cursor    Cursor     `json:"cursor"`
	Complete  bool       `json:"complete"`       // the node has heard of everybody: it isn't cold
	Instances []Instance `json:"instances"`      // STARTING, UP, DOWN and DRAINING, ordered by id
	Gone      []Gone     `json:"gone,omitempty"` // who ended lately, ordered by id
}

// Find returns the instance with this id.
func (v *View) Find(id string) (*Instance, bool) {
	i, ok := slices.BinarySearchFunc(v.Instances, id, func(in Instance, id string) int {
		return strings.Compare(in.ID, id)
	})
	if !ok {
		return nil, false
	}
	return &v.Instances[i], true
}
