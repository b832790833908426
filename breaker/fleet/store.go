package fleet

import (
	"context"
	"iter"
	"time"

	"github.com/eiderhq/eider"
)

// Store keeps, for each key, one small record, and beside it what each caller has counted. It knows nothing of breakers:
// what a record says is reckoned here, by one machine, wherever it is kept. Its methods may be called from any goroutine, and
// return when their context ends.
//
// No clock of a caller's goes in and none of the store's comes out: a store says how old things are, so that callers whose
// clocks are an hour apart agree.
type Store interface {
	// Tell keeps what a caller has counted, in the place of what it told before; an empty count takes that away. It returns
	// what is there now, with the counts of all callers if all is set. Telling leaves the record and its version alone,
	// and never makes a record: of a key that has none the sight's Version is 0.
	Tell(ctx context.Context, key, caller string, count []byte, all bool) (Sight, error)

	// Swap puts a record in the place of the one with this version, as one step; of version 0: where there is none. False:
	// somebody else was faster. The sight is what is there afterwards, without counts.
	Swap(ctx context.Context, key string, version uint64, record []byte) (Sight, bool, error)

	// Watch yields what is there, and again with each new version: newest wins, one that was overtaken may be skipped. A record
	// that the store has lost is yielded as a zero sight. An error is the last that is yielded, and there always is one
	// unless the loop is left: the context's, when that ends.
	Watch(ctx context.Context, key string) iter.Seq2[Sight, error]
}

// Sight is what a store has of a key.
type Sight = eider.FleetSight

// Count is what a caller has told.
type Count = eider.FleetCount

const (
	// Keep is how long a store keeps a record after it was last swapped or told of: longer than any open time. Before that it
	// forgets none that isn't closed.
	Keep = time.Hour
	// KeepCounts is how long it keeps what a caller told.
	KeepCounts = 30 * time.Second
	// MostCallers is how many callers' counts it keeps of a key, or somewhat more. Who is too many isn't kept, and that is
	// no error: the others are enough for a quorum.
	MostCallers = 256
	// MostBytes is how long a key, a caller's name, a record or a count may be, each.
	MostBytes = 4096
)
