// Package registry is the handle on a registry: Open, Register, Watch, Follow, Close. It is lazy like
// sql.DB: Open does no I/O, and a registry that is away costs nobody anything but news.
package registry

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"time"

	"github.com/eiderhq/eider"
)

// Config sets a handle up. The zero value works.
type Config struct {
	Addr   string       // host:port of the registry, several by commas; "" means EIDER_ADDR, else 127.0.0.1:8762
	Caller string       // this process' name for people; "" means the program's name. A random suffix makes it unique
	Zone   string       // where this process runs; preferred when picking; "" means EIDER_ZONE
	Logger *slog.Logger // nil means slog.Default()

	// Dial replaces the network; nil means TCP. For tests and tunnels.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Registry is the handle. Its methods may be called from any goroutine.
type Registry struct{}

// Open returns a handle. It does no I/O: the first Register, Watch or Follow connects.
func Open(Config) *Registry { panic("under construction") }

// Close says goodbye (drains no longer wait for this process), ends what the handle started, and
// returns when all of it has ended. Instances that haven't left are left to their lease.
func (r *Registry) Close() error { panic("under construction") }

// Caller returns this process' name, as drains and pages show it: checkout@b2f19c.
func (r *Registry) Caller() string { panic("under construction") }

// Zone returns the configured zone.
func (r *Registry) Zone() string { panic("under construction") }

// Registration is what a process says of one instance that it serves.
type Registration struct {
	Service  string
	ID       string            // "" means host:port of the address, as advertised
	Address  string            // host:port to advertise; host "" or unspecified means the local address of the registry connection
	Ports    map[string]uint16 // further named ports
	Zone     string            // "" means the handle's
	Metadata map[string]string
	Lease    time.Duration // 0 means the node's default, 20s
	Status   eider.Status  // to begin with: Starting or Up; 0 means Up
}

// Register begins to list an instance and returns at once; it never gives up. The error is for what
// no retry mends: a registration that breaks a bound, a closed handle.
func (r *Registry) Register(Registration) (*Listing, error) { panic("under construction") }

// Listing is one registered instance.
type Listing struct{}

// State tells whether the registry has the instance listed.
type State struct {
	Listed bool
	Since  time.Time // listed, or not listed, since
	As     eider.Key
	In     eider.Incarnation // number 0 until the first attach
	Bound  time.Duration     // a drain begun now pauses no longer; 8s until a node has said otherwise
	Err    error             // why it isn't listed, as far as is known
}

// String says "listed as orders/1 since 15:04:05" or "not listed since 15:04:05: …".
func (s State) String() string { panic("under construction") }

// State returns where the listing stands.
func (l *Listing) State() State { panic("under construction") }

// Watch yields the state now and after each change; a slow reader skips.
func (l *Listing) Watch(ctx context.Context) iter.Seq[State] { panic("under construction") }

// SetStatus tells the registry STARTING, UP or DOWN.
func (l *Listing) SetStatus(eider.Status) error { panic("under construction") }

// Leave begins the planned departure; it is final and idempotent. The registry is told as soon as it
// can be, again and again until it has heard.
func (l *Listing) Leave() *Leaving { panic("under construction") }

// Left tells the registry that the process no longer serves, and returns once it has heard or ctx
// ends. Without a Leave before it, it begins and ends the departure at once.
func (l *Listing) Left(ctx context.Context) error { panic("under construction") }

// Leaving is one planned departure under way.
type Leaving struct{}

// Barrier is closed when every caller has let go or is covered by a named cap, as the registry says.
// It stays open while the registry is away: wait beside it for Bound.
func (l *Leaving) Barrier() <-chan struct{} { panic("under construction") }

// Drain returns where the departure stands, as last heard; Heard tells whether the registry has heard of it.
func (l *Leaving) Drain() (drain eider.Drain, heard bool) { panic("under construction") }

// Changed returns a channel that is closed at the next change of Drain.
func (l *Leaving) Changed() <-chan struct{} { panic("under construction") }

// Bound is the longest pause, counted from Leave: the last one pushed, 8s if none ever was.
func (l *Leaving) Bound() time.Duration { panic("under construction") }

// Watch yields views of a service, newest wins: a slow reader skips. It observes: it never
// acknowledges and never delays a drain. While the registry is away it yields the error once and goes on.
func (r *Registry) Watch(ctx context.Context, service string) iter.Seq2[*eider.View, error] {
	panic("under construction")
}

// Follow subscribes as a caller: this process now owes acknowledgements. It is for what picks
// instances; package roster is built on it.
func (r *Registry) Follow(service string) (*Subscription, error) { panic("under construction") }

// Subscription is one follower of a service. Several in one process share one stream; a departure is
// acknowledged once all of them have let go.
type Subscription struct{}

// Update is the newest view and what is known of its freshness.
type Update struct {
	View      *eider.View   // nil until the first has come
	Connected bool          // the view is being kept current
	Heard     time.Time     // when the registry was last heard
	Lease     time.Duration // the node's default lease: how long an absent instance stays suspect
}

// Next blocks until there is something newer than what it returned before.
func (s *Subscription) Next(ctx context.Context) (Update, error) { panic("under construction") }

// Ack says that this follower has switched to the view at the cursor, what it has let go of, and what
// it can't for want of an alternative. Departures stay named until a later Ack leaves them out.
func (s *Subscription) Ack(at eider.Cursor, letGo, noAlternative []eider.Departure) {
	panic("under construction")
}

// Doubt reports that a dial of the instance was refused, by a caller without a recent success there.
func (s *Subscription) Doubt(eider.Departure) { panic("under construction") }

// Close ends the following; when it is the last of its service in this process, drains of the service no
// longer wait for it.
func (s *Subscription) Close() { panic("under construction") }
