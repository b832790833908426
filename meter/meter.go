package meter

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Metric describes what a Meter counts.
type Metric struct {
	Name    string
	Counter bool   // it only grows; else it is a state
	Label   string // what tells its samples apart, beside the service; "" for nothing
	Help    string
}

// The names of the metrics.
const (
	Picks          = "eider_client_picks_total"
	SuspectPicks   = "eider_client_picks_suspect_total"
	Nobody         = "eider_client_picks_nobody_total"
	Tries          = "eider_client_tries_total"
	Retries        = "eider_client_retries_total"
	LetGo          = "eider_client_let_go_total"
	LetGoSeconds   = "eider_client_let_go_seconds_total"
	ViewAge        = "eider_client_view_age_seconds"
	ViewFromDisk   = "eider_client_view_from_disk"
	ViewInstances  = "eider_client_view_instances"
	StreamUp       = "eider_client_stream_up"
	StreamsOpened  = "eider_client_streams_opened_total"
	ListedSeconds  = "eider_client_listed_seconds"
	UnlistedCounts = "eider_client_unlisted"
	FleetState     = "eider_client_fleet_state"
	FleetParted    = "eider_client_fleet_parted"
	FleetPartings  = "eider_client_fleet_partings_total"
	FleetRejected  = "eider_client_fleet_rejected_total"
)

// Metrics returns what a Meter counts, ordered as the documentation is.
func Metrics() []Metric {
	return []Metric{
		{Picks, true, "", "instances picked"},
		{SuspectPicks, true, "", "of those, suspect ones: most of the service was, or it was a trial"},
		{Nobody, true, "", "picks that found nobody"},
		{Tries, true, "", "requests and calls sent to an instance by eiderhttp and eidergrpc"},
		{Retries, true, "reason", "of those, sent again elsewhere, by what the try before failed of"},
		{LetGo, true, "", "leaving instances let go of"},
		{LetGoSeconds, true, "", "how long that took in sum, from hearing of the leave to the acknowledgement"},
		{ViewAge, false, "", "how long ago the list was last known to be current; 0 while it is kept current"},
		{ViewFromDisk, false, "", "1 while the list is the one that was read from disk"},
		{ViewInstances, false, "", "instances in the list, in any status"},
		{StreamUp, false, "stream", "1 while the stream to the registry stands"},
		{StreamsOpened, true, "stream", "streams that a registry has welcomed"},
		{ListedSeconds, false, "instance", "how long this process' instance has been listed; 0 while it isn't"},
		{UnlistedCounts, false, "", "this process' instances that aren't listed now"},
		{FleetState, false, "state", "1 for the state of the fleet's breaker that this process goes by"},
		{FleetParted, false, "", "1 while this process goes by a breaker of its own: it hasn't joined its fleet's yet, or that one's store is away"},
		{FleetPartings, true, "", "times that this process has gone on alone because the store of its fleet's breaker failed"},
		{FleetRejected, true, "by", "requests and calls turned away before any instance was picked"},
	}
}

// Sample is one value.
type Sample struct {
	Metric  string  `json:"metric"`
	Service string  `json:"service,omitempty"`
	Label   string  `json:"label,omitempty"` // of the kind that the metric names
	Value   float64 `json:"value"`
}

// Meter counts. The zero value works; its methods may be called from any goroutine, also on a nil one, which counts
// nothing. Counting takes no lock and doesn't allocate. It must not be copied after its first use.
type Meter struct {
	mu       sync.Mutex
	services map[string]*Service
	states   map[*func(func(Sample))]struct{}
	streams  map[string]uint64
}

// Service returns the counters of a service, nil for a nil Meter. They are kept: services are as many as the
// program calls.
func (m *Meter) Service(name string) *Service {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.services[name]
	if s == nil {
		s = &Service{}
		if m.services == nil {
			m.services = make(map[string]*Service)
		}
		m.services[name] = s
	}
	return s
}

// Opened counts a stream.
func (m *Meter) Opened(stream string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams == nil {
		m.streams = make(map[string]uint64)
	}
	m.streams[stream]++
}

// State has a function called for the present values of what isn't counted, with each reading, until the function
// that it returns is called. It must not call the Meter.
func (m *Meter) State(tell func(emit func(Sample))) (forget func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.states == nil {
		m.states = make(map[*func(func(Sample))]struct{})
	}
	key := &tell
	m.states[key] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.states, key)
	}
}

// Samples reads everything, ordered by metric, service and label. What several tell of the same is told once, the
// greater value: two lists of one service are as old as the older one.
func (m *Meter) Samples() []Sample {
	if m == nil {
		return nil
	}
	var out []Sample
	emit := func(s Sample) { out = append(out, s) }
	m.mu.Lock()
	for name, s := range m.services {
		s.tell(name, emit)
	}
	for stream, n := range m.streams {
		emit(Sample{StreamsOpened, "", stream, float64(n)})
	}
	states := make([]func(func(Sample)), 0, len(m.states))
	for tell := range m.states {
		states = append(states, *tell)
	}
	m.mu.Unlock()
	for _, tell := range states { // a stranger, hence without the lock
		tell(emit)
	}
	slices.SortFunc(out, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Label, b.Label), cmp.Compare(b.Value, a.Value))
	})
	return slices.CompactFunc(out, func(a, b Sample) bool {
		return a.Metric == b.Metric && a.Service == b.Service && a.Label == b.Label
	})
}

// String writes the samples as JSON, as expvar.Var does.
func (m *Meter) String() string {
	text, err := json.Marshal(m.Samples())
	if err != nil {
		return "null" // a value that is no number; none is
	}
	return string(text)
}

// Service counts what is done with one service. A nil one counts nothing.
type Service struct {
	picks, suspects, tries counter
	nobody                 atomic.Uint64
	letGo, letGoNanos      atomic.Uint64
	partings               atomic.Uint64
	byFleet, byOwn         counter     // turned away
	fleet                  atomic.Bool // it has a breaker with its fleet

	mu      sync.Mutex
	retries map[string]uint64 // by reason, of which there are few
}

// Picked counts a pick.
func (s *Service) Picked(suspect bool) {
	if s == nil {
		return
	}
	s.picks.add()
	if suspect {
		s.suspects.add()
	}
}

// Nobody counts a pick that found nobody.
func (s *Service) Nobody() {
	if s != nil {
		s.nobody.Add(1)
	}
}

// Tried counts a request or call sent to an instance; reason says of what the one before failed, "" for the first.
func (s *Service) Tried(reason string) {
	if s == nil {
		return
	}
	s.tries.add()
	if reason == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retries == nil {
		s.retries = make(map[string]uint64)
	}
	s.retries[reason]++
}

// LetGo counts an instance that was let go of, and how long that took.
func (s *Service) LetGo(took time.Duration) {
	if s == nil {
		return
	}
	s.letGo.Add(1)
	s.letGoNanos.Add(uint64(max(took, 0)))
}

// Fleet says that the service has a breaker with its fleet, so that nothing is told of it where there is none.
func (s *Service) Fleet() {
	if s != nil {
		s.fleet.Store(true)
	}
}

// Parted counts that the store of the fleet's breaker has failed.
func (s *Service) Parted() {
	if s != nil {
		s.partings.Add(1)
	}
}

// FleetRejected counts a request that the breaker of the service has turned away: the fleet's, or, while that is closed or away,
// this process' own.
func (s *Service) FleetRejected(fleet bool) {
	switch {
	case s == nil:
	case fleet:
		s.byFleet.add()
	default:
		s.byOwn.add()
	}
}

func (s *Service) tell(name string, emit func(Sample)) {
	emit(Sample{Picks, name, "", s.picks.sum()})
	emit(Sample{SuspectPicks, name, "", s.suspects.sum()})
	emit(Sample{Nobody, name, "", float64(s.nobody.Load())})
	emit(Sample{Tries, name, "", s.tries.sum()})
	emit(Sample{LetGo, name, "", float64(s.letGo.Load())})
	emit(Sample{LetGoSeconds, name, "", time.Duration(s.letGoNanos.Load()).Seconds()})
	if s.fleet.Load() {
		emit(Sample{FleetPartings, name, "", float64(s.partings.Load())})
		emit(Sample{FleetRejected, name, "fleet", s.byFleet.sum()})
		emit(Sample{FleetRejected, name, "own", s.byOwn.sum()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for reason, n := range s.retries {
		emit(Sample{Retries, name, reason, float64(n)})
	}
}

// counter is spread over cache lines, so that processors that count at once don't wait for each other.
type counter [8]struct {
	n atomic.Uint64
	_ [56]byte
}

func (c *counter) add() { c[rand.Uint32()%uint32(len(c))].n.Add(1) }

func (c *counter) sum() (sum float64) {
	for i := range c {
		sum += float64(c[i].n.Load())
	}
	return sum
}
