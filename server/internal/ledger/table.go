package ledger

import (
	"time"

	"github.com/eiderhq/eider"
)

// Table is one node's knowledge. It isn't safe for use by several goroutines: its replica has a lock.
type Table struct{}

// New returns an empty table of a node that starts now.
func New(cfg Config, now time.Time) *Table { panic("under construction") }

// Instances and their processes.

// Attach opens a process' stream for its instances.
func (t *Table) Attach(now time.Time, s Session, p Peer) Effects { panic("under construction") }

// Register lists an instance on a session, or attaches a known one again.
func (t *Table) Register(now time.Time, s Session, rec eider.Record, lease time.Duration) (Grant, Effects, error) {
	panic("under construction")
}

// Beat renews the leases of a session.
func (t *Table) Beat(now time.Time, s Session) Effects { panic("under construction") }

// SetStatus tells STARTING, UP or DOWN.
func (t *Table) SetStatus(now time.Time, s Session, key eider.Key, status eider.Status) (Effects, error) {
	panic("under construction")
}

// Leave begins a planned departure.
func (t *Table) Leave(now time.Time, s Session, key eider.Key) (Effects, error) {
	panic("under construction")
}

// Left ends one.
func (t *Table) Left(now time.Time, s Session, key eider.Key) (Effects, error) {
	panic("under construction")
}

// Detach ends a session.
func (t *Table) Detach(now time.Time, s Session, how Ending) Effects { panic("under construction") }

// Dialed tells what a dial met.
func (t *Table) Dialed(now time.Time, d Dial, a Answer) Effects { panic("under construction") }

// Callers.

// Follow opens a caller's watch stream; observers never get here.
func (t *Table) Follow(now time.Time, f Follower, p Peer) Effects { panic("under construction") }

// Subscribe makes the follower's caller a caller of the service.
func (t *Table) Subscribe(now time.Time, f Follower, service string, letGo []eider.Departure) (Effects, error) {
	panic("under construction")
}

// Unsubscribe undoes Subscribe.
func (t *Table) Unsubscribe(now time.Time, f Follower, service string) Effects {
	panic("under construction")
}

// Ack tells what the caller has applied and let go of.
func (t *Table) Ack(now time.Time, f Follower, service string, at uint64, letGo, noAlternative []eider.Departure) Effects {
	panic("under construction")
}

// Doubt tells that a caller without a recent success there had its dial refused.
func (t *Table) Doubt(now time.Time, f Follower, d eider.Departure) Effects {
	panic("under construction")
}

// Goodbye tells that the caller has stopped calling, and ends its stream.
func (t *Table) Goodbye(now time.Time, f Follower) Effects { panic("under construction") }

// Unfollow tells that a caller's stream has ended without a goodbye.
func (t *Table) Unfollow(now time.Time, f Follower, how Ending) Effects {
	panic("under construction")
}

// Time.

// Look does everything that is due.
func (t *Table) Look(now time.Time) Effects { panic("under construction") }

// Next tells when to look again at the latest.
func (t *Table) Next() time.Time { panic("under construction") }

// Extend adds a retry-after that was handed out for an instance to its lease, and to its reattaching.
func (t *Table) Extend(now time.Time, key eider.Key, d time.Duration) Effects {
	panic("under construction")
}

// ExtendCaller adds a retry-after that was handed out to a caller to its cap in every running drain.
func (t *Table) ExtendCaller(now time.Time, caller string, d time.Duration) Effects {
	panic("under construction")
}

// Several nodes.

// Apply merges a record that another node wrote.
func (t *Table) Apply(now time.Time, rec eider.Record, from string) Effects {
	panic("under construction")
}

// Peers tells which other nodes there are: a drain waits for the report of each.
func (t *Table) Peers(now time.Time, nodes []string) Effects { panic("under construction") }

// Report is what one node tells the owner of a drain of the callers that it has.
type Report struct {
	Departure eider.Departure
	Members   []eider.Member
}

// Report joins another node's callers into a drain owned here.
func (t *Table) Report(now time.Time, from string, r Report) Effects { panic("under construction") }

// Members returns this node's report for the drain of another node; false until it has applied the leave.
func (t *Table) Members(now time.Time, d eider.Departure) (Report, bool) {
	panic("under construction")
}

// Reads. All are cheap; what they return is the caller's own, but for the maps inside records, which
// nobody ever writes to.

// Instance returns a live instance: STARTING, UP, DOWN or DRAINING.
func (t *Table) Instance(key eider.Key) (eider.Instance, bool) { panic("under construction") }

// GoneOf returns how an instance has ended, if it has.
func (t *Table) GoneOf(key eider.Key) (eider.Gone, bool) { panic("under construction") }

// View returns the live instances of a service and who ended lately, both ordered by id.
func (t *Table) View(service string) ([]eider.Instance, []eider.Gone) { panic("under construction") }

// Complete tells whether this node has heard of everybody: it isn't cold.
func (t *Table) Complete(now time.Time) bool { panic("under construction") }

// Services returns every service with an instance or a caller, ordered by name, without cursors.
func (t *Table) Services() []eider.Summary { panic("under construction") }

// Callers returns who follows a service ("" means any), ordered by service and id. The replica fills in
// Cursor.Run and Behind.
func (t *Table) Callers(service string) []eider.Caller { panic("under construction") }

// Drain returns the state of a departure; the last 256 finished ones are kept.
func (t *Table) Drain(d eider.Departure) (eider.Drain, bool) { panic("under construction") }

// Drains returns the departures of a service ("" means any), the newest first.
func (t *Table) Drains(service string) []eider.Drain { panic("under construction") }

// Bound returns how long a drain of the service begun now pauses at most.
func (t *Table) Bound(service string) time.Duration { panic("under construction") }

// Void says in sentences what voids this node's bounds now; nil if nothing does.
func (t *Table) Void() []string { panic("under construction") }

// Counts tells the table's sizes.
func (t *Table) Counts() Counts { panic("under construction") }

// Counts are the sizes of a table.
type Counts struct {
	Services   int // with an instance or a caller
	Instances  int // live
	Callers    int // distinct callers, connected or remembered
	Tombstones int
	Sessions   int
	Suspects   int // live and doubted
	Draining   int // running drains
}
