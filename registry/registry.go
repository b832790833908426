// Package registry is the handle on a registry: Open, Register, Watch, Follow, Close. It is lazy like
// sql.DB: Open does no I/O, and a registry that is away costs nobody anything but news.
package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/meter"
)

// Config sets a handle up. The zero value works.
type Config struct {
	Addr   string       // host:port of the registry, several by commas; "" means EIDER_ADDR, else 127.0.0.1:8762
	Caller string       // this process' name for people; "" means the program's name. A random suffix makes it unique
	Zone   string       // where this process runs; preferred when picking; "" means EIDER_ZONE
	Logger *slog.Logger // nil means slog.Default()

	// Rosters is a folder, of this user alone, in which the last good list of each service that this process
	// calls is kept, so that the process can start while the registry is away. A registry has one of its own;
	// processes may share it. Written by a goroutine of its own, at most once a second for each service. ""
	// means EIDER_ROSTERS, else none: a process that starts during an outage waits for the registry.
	Rosters string

	// TLS encrypts connections and proves whom this process talks to; nil means by EIDER_CA (the file of an
	// authority, or "system"), and EIDER_CERT with EIDER_KEY (this process' own certificate), each read anew for
	// every connection; none of them set means clear text. Sessions are resumed.
	TLS *tls.Config
	// TokenFile holds the token that this process shows; "" means EIDER_TOKEN_FILE, else none. Token returns it instead.
	// Either is asked for every stream, and a token is never sent in clear text to another machine.
	TokenFile string
	Token     func() (string, error)

	// Meter counts what this process does as a caller and as an instance: picks, tries, retries, lets go, how old its
	// lists are, whether it is listed. nil means nothing is counted.
	Meter *meter.Meter

	// Dial replaces the network; nil means TCP. For tests and tunnels. It must return when ctx ends:
	// Close waits for it.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// What the protocol with a node is timed by.
const (
	askEvery      = 5 * time.Second        // how often an answer is asked for, jittered down by a quarter
	answerWithin  = 10 * time.Second       // without it the stream is cut and opened anew; more behind a herd, see links.give
	steadyAfter   = 2 * time.Second        // a stream that lasted this long has not failed at once: its backoff begins anew
	farewell      = 2 * time.Second        // Close waits no longer for a registry to take its goodbye
	lastWords     = 100 * time.Millisecond // a connection that is closed waits no longer for its bytes to be taken
	defaultBeat   = 2 * time.Second
	defaultLease  = 20 * time.Second
	defaultBound  = 8 * time.Second
	longestWait   = time.Minute // no retry-after of a node keeps a process away for longer
	clientVersion = "0.1"
)

// Registry is the handle. Its methods may be called from any goroutine.
type Registry struct {
	caller  string
	zone    string
	rosters string
	meter   *meter.Meter
	unmeter func() // the Meter forgets the handle
	log     *slog.Logger
	links   *links
	fault   error // in the configuration: no retry mends it

	closing context.Context // ends when Close begins
	close   context.CancelFunc
	ctx     context.Context // of every stream; ends when Close has said its goodbyes
	cancel  context.CancelFunc

	mu      sync.Mutex // nothing is started once Close has begun
	running sync.WaitGroup

	attach  *attacher
	follow  *watcher // as a caller
	observe *watcher // as an observer
	fleet   *Fleet
}

// Open returns a handle. It does no I/O: the first Register, Watch or Follow connects.
func Open(cfg Config) *Registry {
	addrs, fault := addresses(cmp.Or(cfg.Addr, os.Getenv("EIDER_ADDR"), "127.0.0.1:8762"))
	r := &Registry{
		caller:  callerName(cfg.Caller),
		zone:    cmp.Or(cfg.Zone, os.Getenv("EIDER_ZONE")),
		rosters: cmp.Or(cfg.Rosters, os.Getenv("EIDER_ROSTERS")),
		meter:   cfg.Meter,
		log:     cfg.Logger,
	}
	secure, insecurable := newSecurity(&cfg)
	r.fault = errors.Join(fault, insecurable)
	r.links = newLinks(addrs, cfg.Dial, secure)
	if r.log == nil {
		r.log = slog.Default()
	}
	r.closing, r.close = context.WithCancel(context.Background())
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.attach = newAttacher(r)
	r.follow = newWatcher(r, false)
	r.observe = newWatcher(r, true)
	r.fleet = newFleet(r)
	r.unmeter = r.meter.State(r.tell)
	return r
}

// Close says goodbye (drains no longer wait for this process), ends what the handle started, and
// returns when all of it has ended: after 2s at the latest, also if the registry hangs. Instances that
// haven't left are left to their lease. It may be called more than once.
func (r *Registry) Close() error {
	r.mu.Lock()
	r.close()
	r.mu.Unlock()
	patience := time.AfterFunc(farewell-2*lastWords, r.cancel) // a link may end after another
	defer patience.Stop()
	r.running.Wait()
	r.cancel()
	r.links.close()
	r.unmeter()
	return nil
}

// Caller returns this process' name, as drains and pages show it: checkout@b2f19c.
func (r *Registry) Caller() string { return r.caller }

// Zone returns the configured zone.
func (r *Registry) Zone() string { return r.zone }

// Rosters returns the folder for lists on disk, "" for none.
func (r *Registry) Rosters() string { return r.rosters }

// Logger returns what the handle logs to.
func (r *Registry) Logger() *slog.Logger { return r.log }

// start runs f until Close awaits it. It returns an error once Close has begun.
func (r *Registry) start(f func()) error {
	if r.fault != nil {
		return r.fault
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isClosed() {
		return errClosed
	}
	r.running.Go(f)
	return nil
}

// isClosed tells whether Close has begun.
func (r *Registry) isClosed() bool { return r.closing.Err() != nil }

// errClosed is what every method of a closed handle answers.
var errClosed = &eider.Error{Kind: eider.Closed, Err: errors.New("the registry handle is closed; open another one")}

// addresses reads a list of host:port.
func addresses(list string) (addrs []string, err error) {
	var faults []error
	for addr := range strings.SplitSeq(list, ",") {
		addr = strings.TrimSpace(addr)
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" || port == "0" {
			faults = append(faults, fmt.Errorf("registry address %q must be host:port, as in 127.0.0.1:8762; see Config.Addr and EIDER_ADDR", addr))
			continue
		}
		addrs = append(addrs, addr)
	}
	if len(faults) > 0 {
		return nil, &eider.Error{Op: "open registry", Kind: eider.Invalid, Err: errors.Join(faults...)}
	}
	return addrs, nil
}

// callerName makes a name unique: checkout@b2f19c03d1e7. What doesn't fit into a header or a page's path
// becomes a dash. The suffix has 48 bits, since a node joins streams by this name: were two processes of a
// fleet to draw the same one, a drain would take the let-go of either for that of both.
func callerName(name string) string {
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	name = strings.Map(func(c rune) rune {
		if c <= ' ' || c >= 0x7f || strings.ContainsRune(`@/",;`, c) {
			return '-'
		}
		return c
	}, name)
	return fmt.Sprintf("%s@%012x", name[:min(len(name), 64)], rand.Uint64()>>16)
}
