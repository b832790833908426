package eider

import "time"

// FleetSight is what a store of fleet breakers has of one key, as it answers one of the callers. To the store a record
// and a count are bytes: package breaker/fleet knows what they say.
type FleetSight struct {
	Version uint64 // of the record; another one with each write. 0: the store has none
	Record  []byte
	Age     time.Duration // since it was written, by the store's clock. From a store that has none: since this client first saw it, which may be less, never more
	Counts  []FleetCount  // what the callers have told, if it was asked for
}

// FleetCount is what one caller of a key has told of its calls.
type FleetCount struct {
	Caller string
	From   string        // where it was told from, if the store can say: callers that share it count as one. "" is nobody's
	Age    time.Duration // since it was told; as [FleetSight.Age]
	Count  []byte
}

// FleetBreaker is what a node knows of a breaker that many processes share.
type FleetBreaker struct {
	Key string `json:"key"`
	Breaker
	Seers     int    `json:"seers,omitempty"`     // how many callers saw it as it opened
	Holder    string `json:"holder,omitempty"`    // who has the permit for a trial
	Abandoned uint64 `json:"abandoned,omitempty"` // trials whose holder was never heard of again

	Watching int    `json:"watching"` // processes that watch it
	Telling  int    `json:"telling"`  // callers that have told of calls lately
	Tripped  int    `json:"tripped"`  // of these, whose own breaker is open
	Calls    uint64 `json:"calls"`    // that they have told of, all together
	Failures uint64 `json:"failures"`
	Slow     uint64 `json:"slow"`

	Fault string `json:"fault,omitempty"` // why its record can't be read; then nothing is known of its state
}
