package registry

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/eiderhq/eider"
)

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

	// Work is what the instance counts of its requests; it travels with the beats. nil means that it counts none:
	// then a node can't tell that it hangs, nor that callers come which nobody knows.
	Work *Work

	// Unknown is how long a leave waits for callers that don't say who they are, if Work has any. 0 means 8s,
	// negative not at all. Price: a drain takes that long as long as there are such callers.
	Unknown time.Duration
}

// Listing is one registered instance.
//
// What is wanted (a status, leaving, left) is kept beside what the node has been told on the present
// stream; whatever differs is due. So nothing is lost with a stream, and nothing is ever said twice in the wrong order:
//
//	apart ──Register──► asked ──Registered──► listed ──SetStatus, Leave, Left──► listed
//	  ▲                   │ Refused              │ Refused: not known there
//	  │ stream ended      ▼                      │
//	  └─(from any)     refused ◄─────────────────┘
//	                      └── after a pause: Register, with the next attachment
//
// Once leaving, Register says DRAINING and nothing else; once Left is acknowledged, the listing is over.
type Listing struct {
	a       *attacher
	lease   time.Duration
	given   string // the address as registered
	work    *Work
	unknown time.Duration // how long a leave waits for unknown callers

	// Guarded by a.mu.
	rec      eider.Record // id and address may be open until the first connection
	secret   []byte       // proves that it is this incarnation, shown with every attach
	status   eider.Status // wanted: Starting, Up or Down
	leaving  *Leaving     // nil until Leave
	left     bool         // wanted: Left
	claimed  bool         // the key is this listing's in this process
	uttered  bool         // a node may have heard of this incarnation
	phase    phase
	told     told
	listedAt time.Time
	answerBy time.Time // while asked
	retryAt  time.Time
	tries    int
	state    State
	changed  chan struct{} // closed at the next change of state
	over     chan struct{} // closed when nothing remains to be said
}

// phase is where a listing stands on the present stream.
type phase uint8

const (
	apart phase = iota
	asked
	listed
	refused
)

// told is what the node has been told on the present stream.
type told struct {
	status      eider.Status
	leave, left bool
	unknown     time.Duration // with the leave
	work        eider.Work
}

// Register begins to list an instance and returns at once; it never gives up. The error is for what
// no retry mends: a registration that breaks a bound, a closed handle.
func (r *Registry) Register(reg Registration) (*Listing, error) {
	l, err := r.attach.draft(reg)
	if err != nil {
		return nil, err
	}
	if err = r.attach.add(l); err != nil {
		return nil, err
	}
	return l, nil
}

// draft makes a listing of a registration that keeps to all bounds.
func (a *attacher) draft(reg Registration) (*Listing, error) {
	status := reg.Status
	if status == eider.StatusUnknown {
		status = eider.Up
	}
	rec := eider.Record{
		Key: eider.Key{Service: eider.FoldService(reg.Service), ID: reg.ID}, Incarnation: eider.Incarnation{Nonce: nonce()},
		Address: reg.Address, Ports: reg.Ports, Zone: reg.Zone, Metadata: reg.Metadata,
	}
	if rec.Zone == "" {
		rec.Zone = a.reg.zone
	}
	checked := rec
	checked.Address = drafted(rec.Address)
	if checked.ID == "" {
		checked.ID = "open"
	}
	var statusFault, leaseFault error
	if status != eider.Starting && status != eider.Up {
		statusFault = fmt.Errorf("status: %s is none to begin with; use STARTING or UP", status)
	}
	if reg.Lease < 0 {
		leaseFault = fmt.Errorf("lease: %s is below 0; 0 means the node's default", reg.Lease)
	}
	if err := errors.Join(checked.Check(), statusFault, leaseFault); err != nil {
		return nil, &eider.Error{Op: "register " + rec.Service, Kind: eider.Invalid, Err: err}
	}
	l := &Listing{
		a: a, lease: reg.Lease, given: reg.Address, rec: rec, secret: secret(), status: status, work: reg.Work, unknown: max(reg.Unknown, 0),
		changed: make(chan struct{}), over: make(chan struct{}),
	}
	if reg.Unknown == 0 {
		l.unknown = defaultUnknown
	}
	if rec.ID == "" && checked.Address == rec.Address {
		l.rec.ID = rec.Address
	}
	l.state = State{Since: time.Now(), As: l.rec.Key, In: rec.Incarnation, Bound: defaultBound,
		Err: eider.Errorf(eider.Unavailable, "register "+rec.Service, "no registry has answered yet")}
	return l, nil
}

// nonce draws what tells one run of a process from every other.
func nonce() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}

// secret draws what proves an incarnation: nonces stand in every view. It is shown from the first attach on, so that
// an answer that is lost costs nothing.
func secret() []byte {
	s := make([]byte, 16)
	_, _ = crand.Read(s) // it never fails
	return s
}

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
func (s State) String() string {
	since := s.Since.Format(time.TimeOnly)
	if s.Listed {
		return fmt.Sprintf("listed as %s since %s", s.As, since)
	}
	if s.Err == nil {
		return "not listed since " + since
	}
	return fmt.Sprintf("not listed since %s: %v", since, s.Err)
}

// State returns where the listing stands.
func (l *Listing) State() State {
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	return l.state
}

// Watch yields the state now and after each change; a slow reader skips. It ends with ctx, and when the handle is
// closed or the instance has left, after it has yielded that.
func (l *Listing) Watch(ctx context.Context) iter.Seq[State] {
	return func(yield func(State) bool) {
		for {
			l.a.mu.Lock()
			state, changed := l.state, l.changed
			l.a.mu.Unlock()
			if !yield(state) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-l.over:
				if l.State() == state {
					return
				}
			case <-l.a.reg.closing.Done():
				return
			}
		}
	}
}

// SetStatus tells the registry STARTING, UP or DOWN.
func (l *Listing) SetStatus(status eider.Status) error {
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	op := "set status of " + l.rec.Key.String()
	if status != eider.Starting && status != eider.Up && status != eider.Down {
		return eider.Errorf(eider.Invalid, op, "%s can't be set; STARTING, UP and DOWN can, and Leave begins a departure", status)
	}
	if l.leaving != nil || l.left {
		return eider.Errorf(eider.Closed, op, "it is leaving, which is final")
	}
	if l.a.reg.isClosed() {
		return errClosed
	}
	if l.status != status {
		l.status = status
		l.a.ring()
	}
	return nil
}

// Left tells the registry that the process no longer serves, and returns once it has heard or ctx
// ends. Without a Leave before it, it begins and ends the departure at once.
func (l *Listing) Left(ctx context.Context) error {
	l.Leave()
	l.a.mu.Lock()
	l.left = true
	if !l.uttered {
		l.finish()
	}
	l.a.ring()
	l.a.mu.Unlock()
	select {
	case <-l.over:
		return nil
	default:
	}
	var cause error
	select {
	case <-l.over:
		return nil
	case <-ctx.Done():
		cause = ctx.Err()
	case <-l.a.reg.closing.Done():
		cause = errClosed
	}
	state := l.State()
	if state.Err != nil {
		cause = fmt.Errorf("%w; %w", cause, state.Err)
	}
	return &eider.Error{Op: "end " + state.As.String(), Kind: eider.Unavailable,
		Err: fmt.Errorf("the registry hasn't heard of it and will notice by itself: %w", cause)}
}

// prepare fills in what only the connection tells. Called with a.mu held.
func (l *Listing) prepare(ends *connEnd) error {
	address, err := advertise(l.given, ends)
	if err != nil {
		return err
	}
	rec := l.rec
	rec.Address = address
	if rec.ID == "" {
		rec.ID = address
	}
	if err = rec.Check(); err != nil {
		return &eider.Error{Kind: eider.Invalid, Err: err}
	}
	if !l.claimed {
		if err = l.a.claim(rec.Key, l); err != nil {
			return err
		}
	}
	l.rec = rec
	l.state.As = rec.Key
	return nil
}

// set changes the state. Called with a.mu held.
func (l *Listing) set(listed bool, why error) {
	if listed == l.state.Listed && text(why) == text(l.state.Err) {
		return
	}
	if listed != l.state.Listed {
		l.state.Since = time.Now()
	}
	l.state.Listed, l.state.Err = listed, why
	l.announce()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// announce wakes who watches the state.
func (l *Listing) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// finish ends the listing: nothing remains to be said. Called with a.mu held.
func (l *Listing) finish() {
	select {
	case <-l.over:
		return
	default:
	}
	l.phase = apart
	l.set(false, eider.Errorf(eider.Closed, "", "it has left"))
	l.a.remove(l)
	l.leaving.ended()
	close(l.over)
}
