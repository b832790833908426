// Package ledger is the registry's arithmetic: leases, records, evidence, preservation, barriers.
//
// Every method takes the time and returns what happened; nothing here waits, dials, locks, logs or
// reads a clock. A replica owns a [Table], feeds it what streams and dials say, asks [Table.Next] when
// to look again, and carries out the [Effects].
package ledger

import (
	"net/netip"
	"time"

	"github.com/eiderhq/eider"
)

// Session is one attach stream, Follower one watch stream. The replica numbers them, from 1, and
// never uses a number twice in a run.
type (
	Session  uint64
	Follower uint64
)

// Config sets a table up. The zero value of every field works. Whatever a fleet's size or an operator's patience asks
// to be otherwise has a flag of `eider server`: Lease, Beat, Cap, Networks and four of the bounds. The other times have
// none: what the documents promise, and callers compute, rests on them. Nor have two bounds: the oldest of MaxTombstones
// are forgotten earlier, and nobody is refused; the pollers' shares go with MaxCallers.
type Config struct {
	Node  string // this node's name, the owner of what attaches here
	Run   uint64 // this node run's random id
	Fresh bool   // nobody came before: barriers and views are complete from the start

	Memory bool // Effects.Memory tells what is to be kept for the next run; it costs an allocation a change

	Lease        time.Duration // 0 means 20s; the crash window by silence is at most Lease + push
	Beat         time.Duration // 0 means 2s; what processes are told to beat at
	SuspectAfter time.Duration // 0 means min(2 beats + a quarter, 5s) without a beat
	Reattach     time.Duration // 0 means 1s from the end of a stream to suspicion
	Cap          time.Duration // 0 means 8s; a drain waits no longer than this for one caller, counted from the leave
	Unknown      time.Duration // 0 means 8s; the pause for unknown callers that is expected before a leave says its own
	Remember     time.Duration // 0 means 60s; a caller whose stream ended less than this before a leave is a member
	Retention    time.Duration // 0 means 24h; how long tombstones are kept
	Gap          time.Duration // 0 means 1s; a longer gap between two looks is time that this node didn't run

	Networks []netip.Prefix // what may be dialled besides a peer's own source address

	MaxInstances, MaxServices, MaxCallers, MaxTombstones int // 0 means 200,000, 20,000, 50,000 and 200,000

	MaxHolds int // 0 means 10,000; keys that are held, and as many releases kept in mind
}

// Peer is who is at the other end of a stream.
type Peer struct {
	Caller   string     // the process' name, which joins its two streams; chosen by itself
	Identity string     // who it has shown to be; "" where nobody is asked
	Addr     netip.Addr // where the stream comes from; not valid when that isn't IP
}

// Ending tells how a stream ended.
type Ending uint8

// The endings.
const (
	Lost     Ending = iota // without a word: look for evidence
	Moving                 // its process goes to another node: nobody is suspected
	Stopping               // this node is stopping: nobody is suspected
)

// Grant answers a registration.
type Grant struct {
	Record eider.Record
	Lease  time.Duration
	Bound  time.Duration // a drain begun now pauses no longer, counted from the leave
	Secret Secret        // to be shown with every later attach of the incarnation
}

// Dial asks the replica to dial an address, once the delay has passed, and to tell [Table.Dialed].
type Dial struct {
	Departure  eider.Departure
	Attachment uint64
	Address    string
	After      time.Duration
	Try        int // 0 checks that the address is reachable at all; from 1 on it is evidence after the end of a stream
}

// Answer is what a dial met.
type Answer uint8

// The answers. Accepted proves nothing.
const (
	NoAnswer Answer = iota
	Accepted
	Refused
)

// Trial asks one caller to send its next request to an instance that is suspect for hanging and is idle.
type Trial struct {
	Follower  Follower
	Departure eider.Departure // names the instance; it isn't leaving
}

// Effects are what a method has brought about, for the replica to carry out in order. The zero value
// is nothing, and costs nothing.
type Effects struct {
	Changed []eider.Key       // instances whose line in a view changed, or who ended
	Flush   bool              // publish the changes now, not with the next batch
	Events  []eider.Event     // in order, without Seq and Time
	Dials   []Dial            // to be dialled
	Drains  []eider.Departure // drains whose progress changed
	End     []Session         // streams whose process must attach anew
	Trials  []Trial           // callers to be asked
	Memory  []Trace           // what is to be kept for the next run has changed of these, see [Table.Kept]
}
