// Package replica is the contract that every kind of node keeps: one node alone, several that gossip,
// several over etcd. A front asks a [Registry] and knows none of them.
//
// One suite holds all of them to it: server/internal/registrytest.
package replica

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"github.com/eiderhq/eider"
)

// Registry is one node, as its fronts see it. Its methods may be called at any time from any
// goroutine; before Run has started and after it has ended they answer eider.Unavailable.
type Registry interface {
	// Attach opens the stream of one process for its instances.
	Attach(Peer) (Attachment, error)
	// Watch opens the stream of one process for the services that it follows.
	Watch(Peer) (Watcher, error)
	Reader
	// Run keeps the time, dials and publishes until ctx ends; it returns when all that it started has ended.
	Run(ctx context.Context) error
}

// Reader is what pages, the CLI and metrics ask. What it returns is the asker's own, or immutable.
//
// A read holds every change whose call had returned when it began, and is of no earlier state than a read that had
// ended by then. The number in a cursor, and who is behind it, follow once the change is published, which nobody waits
// for: of two reads the later may bear a higher number though nothing was called between them, never a lower one.
type Reader interface {
	Node() eider.Node
	Services() []eider.Summary                          // ordered by name; what changes meanwhile is in some of them
	Glances() iter.Seq[Glance]                          // the same for who only counts: none is kept, and the asker may take his time
	Summary(service string) (eider.Summary, bool)       // of Services; false as with View
	Running() Running                                   // the drains that run
	View(service string) (*eider.View, bool)            // false if the node has never heard of the service
	Timing(service string) (eider.Timing, bool)         // what its windows are derived from; false as with View
	Callers(service string) []eider.Caller              // ordered by service and id; "" means of every service
	Breakers(service string) ([]eider.Breakers, int)    // of whom some caller's breaker isn't closed, ordered by service and id; and how many callers have a stream to tell by; "" means of every service
	Drains(service string) []eider.Drain                // newest first, the running ones and the last 256; "" means all
	Events(after uint64) ([]eider.Event, bool)          // what is kept after that number; false if some before it were lost
	EventsWait(ctx context.Context, after uint64) error // returns once there is an event after that number
}

// Glance is one service as a scrape needs it.
type Glance struct {
	eider.Summary
	Timing eider.Timing // without Void
	Away   int          // callers that acknowledge and have no stream, remembered since drains wait for them

	Tripped Tripped
}

// Tripped is what callers' breakers say of the instances of one service, in numbers.
type Tripped struct {
	States    [eider.BreakerStates]int // breakers by their state; how many are closed isn't known
	Instances int                      // of which some caller's breaker turns calls away
	Opened    uint64                   // times that a caller has told that one has opened
}

// Running are the drains that run, in numbers.
type Running struct {
	Waiting   int // for callers
	Finishing int // what is in flight: their barrier is reached
	Open      int // callers that both wait for
	Holding   int // callers that haven't let go of who is held
}

// Postponer is a Registry that hears of the retry-afters that a front hands out: whoever was told to
// come back later has that much longer before his lease lapses or his cap passes. A front asks for it
// by a type assertion, before it answers.
type Postponer interface {
	Postpone(key eider.Key, secret [16]byte, by time.Duration) // the lease of a known instance, if that is its secret
	PostponeCaller(caller Peer, by time.Duration)              // the cap of a known caller, if it is he
}

// Auditor is a Registry that takes events of its fronts among its own: who wasn't let in, what an operator did. A
// front asks for it by a type assertion.
type Auditor interface {
	Audit(eider.Event)
}

// Poller is a Registry that counts who fetches a view now and then as a caller, by his timers. A front asks for it by
// a type assertion.
type Poller interface {
	// Poll counts a poll and answers it. Errors: NotFound for a service that the node has never heard of, Conflict when
	// a process of that name has a stream.
	Poll(Poll) (Answer, error)
}

// Poll is one question of a caller that polls.
type Poll struct {
	Caller  string // one name for each process
	Service string
	Every   time.Duration // the longest time from one answer to the next, at most MaxPoll
	Cache   time.Duration // for how long it may use an older view than its last, at most MaxPoll
	Has     uint64        // the answer that it shows to have, by its number; 0: none
	Run     uint64        // of the node, when it gave that answer

	Identity string     // who it has shown to be, as in Peer; who comes under the name of another one is a caller of his own
	Addr     netip.Addr // where it comes from; not valid when that isn't IP
}

// Answer is what a poll gets.
type Answer struct {
	Number uint64 // from 1; who shows it with a later poll has had this answer
	View   *eider.View
	Exact  bool // the view's cursor names it: else it holds changes that have yet to get a number, and who has a view of that cursor hasn't seen them
}

// MaxPoll bounds the timers of a caller that polls.
const MaxPoll = 10 * time.Minute

// Holder is a Registry that lets operators hold instances: a held one isn't picked, and its process is untouched.
// A front asks for it by a type assertion.
type Holder interface {
	// Hold holds the instance of a key, or holds it anew. Count and Since are the registry's to give; what is in
	// force then is returned. Errors: Invalid, NotFound, Limited, Unavailable.
	Hold(key eider.Key, h eider.Hold) (eider.Hold, error)
	// Release ends a hold; by is who did, "" if that isn't known. NotFound if the key isn't held.
	Release(key eider.Key, by string) error
	// Holds returns the keys that are held, ordered by service and id, whether or not somebody of them is listed.
	Holds() []eider.Held
}

// Peer is who is at the other end of a stream.
type Peer struct {
	Caller   string     // the process' name, which joins its two streams; chosen by itself
	Identity string     // who it has shown to be: "token orders"; "" where nobody is asked
	Observer bool       // never acknowledges, never delays a drain
	Addr     netip.Addr // where it comes from; not valid when that isn't IP
}

// Ending tells how a stream ended.
type Ending uint8

// The endings.
const (
	Lost     Ending = iota // without a word
	Moving                 // its process goes to another node
	Bye                    // said goodbye (Watch only)
	Stopping               // this node stops: nobody is suspected
)

// Attachment is one process' stream for its instances. Its methods other than Next are called by one
// goroutine, Next by one other.
type Attachment interface {
	// Register lists an instance, or attaches a known one again, for which it must show its incarnation's secret:
	// what an earlier Grant gave, or what it showed first; zero is none.
	Register(rec eider.Record, lease time.Duration, secret [16]byte) (Grant, error)
	// Beat renews the leases of the stream's instances, and tells what those have done that count it.
	Beat(work ...Work)
	SetStatus(key eider.Key, status eider.Status) error
	// Leave begins a departure. unknown is how long to wait for callers that the instance has and can't name; 0: none.
	Leave(key eider.Key, unknown time.Duration) error
	Left(key eider.Key) error
	// Next blocks until there is news. An error ends the stream; eider.Stale means attach anew.
	Next(ctx context.Context) (Notice, error)
	End(Ending)
}

// Work is what one instance has done.
type Work struct {
	Key  eider.Key
	Done eider.Work
}

// Grant answers a registration.
type Grant struct {
	Record eider.Record
	Lease  time.Duration
	Bound  time.Duration
	Secret [16]byte // of the incarnation
}

// Notice is news for an attached process. Newest wins: one that wasn't fetched in time is replaced.
type Notice struct {
	Drain eider.Drain   // where the drain of one of its instances stands; zero if this isn't about a drain
	Key   eider.Key     // else: the instance whose bound changed
	Bound time.Duration // its new bound
}

// Watcher is one process' stream for the services that it follows. Its methods other than Next are
// called by one goroutine, Next by one other.
type Watcher interface {
	Subscribe(service string, from eider.Cursor, letGo []eider.Departure) error
	Unsubscribe(service string)
	Ack(service string, at eider.Cursor, letGo, noAlternative []eider.Departure)
	Doubt(eider.Departure)
	// Verdicts tells what the process' breakers say of instances of a service that it follows; at most
	// eider.MaxVerdicts that aren't closed are kept of one process, as long as the stream lasts.
	Verdicts(service string, said []eider.Verdict)
	// Next blocks until there are views or trials to send and returns them encoded (a WatchReply each), in order.
	// The bytes are shared with other streams: send them, don't write to them. The slice of them is valid
	// until the next call. Every Subscribe is answered by at least one view: who is current gets a delta
	// without a change. A snapshot may hold what the next delta says again: lines are repeated whole, so
	// that changes nothing.
	Next(ctx context.Context) ([][]byte, error)
	End(Ending)
}
