package eider

import "time"

// Timing is what the windows of one service are derived from: how long each step takes at most before its callers
// know, by the settings of its node and as things stand. Whoever was told when to come back has that much longer before
// he counts as silent: Lease, SuspectAfter, Reattach and Cap include it. The zero of a field that isn't a step of its own
// is none.
type Timing struct {
	Service      string        `json:"service"`
	Beat         time.Duration `json:"beat_ns"`             // between two heartbeats of an instance
	Lease        time.Duration `json:"lease_ns"`            // the longest of its instances; without any, what one gets that asks for none
	SuspectAfter time.Duration `json:"suspect_after_ns"`    // of silence
	Evidence     time.Duration `json:"evidence_ns"`         // from the end of an instance's stream to the last dial of its port
	Reattach     time.Duration `json:"reattach_ns"`         // from there to suspect, for whom nothing refused
	Batch        time.Duration `json:"batch_ns"`            // changes this close together travel together; a leave doesn't wait
	Cap          time.Duration `json:"cap_ns"`              // of callers that acknowledge
	Unknown      time.Duration `json:"unknown_ns,omitzero"` // the pause for unknown callers, if it has any
	Before       time.Duration `json:"before_ns,omitzero"`  // for how long callers from before are still waited for
	Bound        time.Duration `json:"bound_ns"`            // a drain begun now pauses no longer, whoever its callers are
	Void         []string      `json:"void,omitempty"`      // why a lease that runs out may end nobody of it now, in sentences
	Refused      []string      `json:"refused,omitempty"`   // why a refused dial may end nobody now, in sentences: then only its lease does
}
