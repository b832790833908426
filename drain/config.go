package drain

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/window"
)

// The defaults. Grace, in-flight deadline, margin and pause fit together: 8 + 20 + 2 = 30 seconds.
const (
	defaultGrace    = 30 * time.Second
	defaultInFlight = 20 * time.Second
	defaultStreams  = 5 * time.Second
	defaultPause    = 8 * time.Second
	defaultUnknown  = 8 * time.Second
	defaultSilent   = 500 * time.Millisecond
	defaultRound    = 500 * time.Millisecond
	margin          = 2 * time.Second // of the grace: for LEFT, the report and the way out
)

// Config sets a drain up. The zero value works: it serves without a registry.
type Config struct {
	// Registry is where the instance is listed. nil means nowhere: callers that know of it otherwise
	// have Pause to turn away, and Eider-To isn't checked, since there is no identity to check.
	Registry *registry.Registry

	Service  string            // the service's name; required with a Registry
	ID       string            // the instance's id; "" means host:port, as advertised
	Address  string            // host:port to advertise; a missing host or port is filled in: the registry connection's local host, the listener's port
	Ports    map[string]uint16 // further named ports on the same host; nil means none
	Zone     string            // "" means the registry handle's
	Metadata map[string]string // nil means none
	Listener net.Listener      // plain TCP or Unix, never TLS: set the server's TLSConfig for that; nil means listen on the server's Addr

	// Ready keeps the instance STARTING until it is closed: callers don't pick it before. nil means UP
	// at once. An instance that leaves before it was UP doesn't pause: nobody ever picked it.
	Ready <-chan struct{}

	// Health is how the process says of itself whether it can serve: an error sent makes it DOWN, which callers
	// don't pick, nil makes it UP again. It is read until the leave: send beside the end of the context. nil
	// means that it can always serve. Price: a DOWN of all instances at once is an outage that they declare.
	Health <-chan error

	// Grace is the time from the end of the context to the process' death, as the platform grants it
	// (terminationGracePeriodSeconds). 0 means EIDER_GRACE (as in "45s"), else 30s. The pause never
	// exceeds Grace − InFlight − 2s: whoever needs longer to let go is cut, warned about at start and
	// named in the report.
	Grace time.Duration

	// InFlight is how long requests in flight may still run once the pause has ended. 0 means 20s, or
	// five sevenths of Grace − 2s if that is less. Price: the pause has that much less of the grace.
	InFlight time.Duration

	// Streams is how long a stream or an upgraded connection may still run once the pause has ended; its
	// handler is told at the leave, by Started, and then again, by Ending. 0 means 5s, negative not at all,
	// and never longer than InFlight. Price: what doesn't end when told delays the exit by as much.
	Streams time.Duration

	// Silent is how long a connection that has never carried a request is kept once the pause has
	// ended, since a request may be on its way. 0 means 500ms, negative not at all. Price: the exit
	// waits that long if somebody keeps such a connection.
	Silent time.Duration

	// Round is how long, from the leave or its last answer, an idle HTTP/1 connection is kept whose
	// last answer couldn't say Connection: close (its headers had gone out before the leave): one
	// request more, and it is told. 0 means 500ms, negative not at all. Price: the exit waits that
	// long if somebody keeps such a connection.
	Round time.Duration

	// Pause is how long it serves on after the leave when there is no Registry. 0 means 8s, negative
	// not at all. With a Registry the pause is what the callers need, so that it isn't used.
	Pause time.Duration

	// Unknown is how long it serves on after the leave if there are callers that can't be told: requests of
	// the last five minutes that don't say in Eider-Caller who sends them, as Eider's callers do, or requests
	// since the leave of somebody who isn't counted, or that don't mean this process by Eider-To. 0 means 8s, negative not at all. Price: with such callers every
	// leave takes that long, as far as the grace allows.
	Unknown time.Duration

	// Control is the name of an abstract Unix socket over which a process of the same user, or root, has this one
	// leave, as the end of the context does, and waits for the end of the pause: see eider leave. It is one of the network
	// namespace, as a pod has it, and needs no file system. Each Serve of a process needs a name of its own. "" means
	// none. Price: who may do it could send a signal as well.
	Control string

	// Hook is the address of GET /leave, as ":8764", for hooks that speak HTTP: it has this process leave, and answers
	// when the pause is over, or at once with ?wait=0. "" means none. Price: whoever reaches the address can have
	// this process leave; kubelet calls the pod's, so it isn't loopback.
	Hook string

	// Probes are paths, each with all below it, whose requests only look: they make no unknown caller, and
	// don't count as work. nil means /healthz, /readyz, /livez, /health, /ready, /live and /metrics. What
	// IsProbe knows by its User-Agent is a probe on any path.
	Probes []string

	// Logger hears of the leave, of who is waited for, and of what is lost. nil means slog.Default().
	Logger *slog.Logger

	// Listed is called with the listing's state at first and with each change, newest wins, until the
	// leave: turn a readiness probe red with it, or say so. It runs in a goroutine of its own, and delays
	// nothing but its next call, and Serve's return, by a second at most. nil means nobody wants to know.
	Listed func(registry.State)

	// Progress is called with each change of the drain, newest wins: while it runs, changes in between
	// are skipped. It runs in a goroutine of its own, and delays nothing but Serve's return, by a
	// second at most. nil means nobody wants to know.
	Progress func(eider.Drain)
}

// settings are a Config with every default filled in, and the environment read.
type settings struct {
	Config
	room window.Room // what the pause may take of the grace
	tls  bool
}

// resolve fills defaults in and reports every fault at once.
func (c Config) resolve(srv *http.Server) (settings, error) {
	s := settings{Config: c}
	var errs []error
	if srv == nil {
		errs = append(errs, errors.New("srv: it is nil; pass the *http.Server to serve"))
	} else if srv.TLSConfig != nil {
		t := srv.TLSConfig
		s.tls = len(t.Certificates) > 0 || t.GetCertificate != nil || t.GetConfigForClient != nil
		if !s.tls {
			errs = append(errs, errors.New("srv.TLSConfig: it has no certificate; set Certificates or GetCertificate, or leave it nil to serve without TLS"))
		}
	}
	if c.Registry != nil && c.Service == "" {
		errs = append(errs, errors.New(`service: it is empty; name the service that the registry shall list, as in "orders"`))
	}
	if c.Service != "" {
		s.Service = eider.FoldService(c.Service)
		errs = append(errs, eider.CheckService(s.Service))
	}
	errs = append(errs, s.budget())
	s.Streams = min(orElse(c.Streams, defaultStreams), s.InFlight)
	s.Silent = orElse(c.Silent, defaultSilent)
	s.Round = orElse(c.Round, defaultRound)
	s.Pause = orElse(c.Pause, defaultPause)
	s.Unknown = orElse(c.Unknown, defaultUnknown)
	if c.Probes == nil {
		s.Probes = probePaths[:]
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	if err := errors.Join(errs...); err != nil {
		return settings{}, &eider.Error{Op: "drain " + c.Service, Kind: eider.Invalid, Err: err}
	}
	return s, nil
}

// budget divides the grace.
func (s *settings) budget() error {
	var errs []error
	graceFrom, flightFrom := "Config.Grace", "Config.InFlight"
	if s.Grace == 0 {
		s.Grace, graceFrom = defaultGrace, "default"
		if text := os.Getenv("EIDER_GRACE"); text != "" {
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 {
				errs = append(errs, fmt.Errorf("EIDER_GRACE: %.40q is no time above 0; write it as in 45s", text))
			} else {
				s.Grace, graceFrom = d, "EIDER_GRACE"
			}
		}
	}
	if s.Grace <= margin {
		errs = append(errs, fmt.Errorf("grace: %s (%s) leaves nothing beside the margin of %s; grant more", s.Grace, graceFrom, margin))
		return errors.Join(errs...)
	}
	if s.InFlight < 0 {
		errs = append(errs, fmt.Errorf("InFlight: %s is below 0; 0 means the default of %s", s.InFlight, defaultInFlight))
	}
	if s.InFlight == 0 {
		s.InFlight, flightFrom = defaultInFlight, "default"
		if share := (s.Grace - margin) * 5 / 7; share < s.InFlight {
			s.InFlight, flightFrom = share, "five sevenths of grace − margin"
		}
	}
	s.room = window.Room{Whole: window.Fixed("grace", s.Grace, graceFrom), Parts: window.Sum{
		window.Fixed("in-flight deadline", s.InFlight, flightFrom), window.Fixed("margin", margin, "fixed")}}
	if short := s.room.Short(); short > 0 {
		errs = append(errs, fmt.Errorf("InFlight: %s and the margin of %s exceed the grace of %s (%s) by %s, so that a slow request would be killed; lower InFlight or grant more grace",
			s.InFlight, margin, s.Grace, graceFrom, short))
	}
	return errors.Join(errs...)
}

// orElse reads a duration of which 0 means a default, and below 0 none.
func orElse(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}
