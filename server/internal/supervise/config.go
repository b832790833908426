package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/server/internal/supervise/check"
)

const defaultInFlight = 20 * time.Second

// Service is one that the program serves.
type Service struct {
	Name    string // as the registry lists it
	Address string // [HOST]:PORT where the program serves; without a host it is advertised as the local one of the registry connection

	// Ready and Live are what is asked whether the program serves it, see check.Config. Both nil means that its port
	// accepts connections.
	Ready, Live check.Check

	// Front is [HOST]:PORT where a proxy for it listens, HTTP/1 and HTTP/2 without TLS, which callers are sent to instead:
	// it says that it leaves, and counts what is in flight. "" means none. Price: a hop, and the program sees all
	// connections come from this machine.
	Front string
}

// Restart says when a program that has ended by itself is started anew.
type Restart string

// The restarts.
const (
	Never     Restart = ""           // its end is this process' end
	OnFailure Restart = "on-failure" // unless its exit code was 0; after a pause that grows
)

// Config is what to run and how. Command and Services are required; zero of the rest works.
type Config struct {
	Command  []string // the program and its arguments; a name without a slash is looked for in PATH
	Services []Service

	ID       string            // of the instance, in all of its services; "" means host:port, as advertised
	Zone     string            // "" means EIDER_ZONE
	Ports    map[string]uint16 // further named ports on the same host; nil means none
	Metadata map[string]string // nil means none
	Registry registry.Config   // where it is listed; its Zone and Logger are set here

	Check check.Config // how often is asked, and what a program may take to start; Ready, Live and Exec are set here

	Grace    time.Duration // from SIGTERM to the end, as the platform grants it. 0 means EIDER_GRACE, else 30s
	InFlight time.Duration // how long the program may take to end once the pause is over. 0 means 20s, or what the grace leaves; see drain.Config
	Unknown  time.Duration // how long callers that can't be told are waited for. 0 means 8s at each leave, negative that all callers are Eider's

	// Signal is what has the program end. 0 means SIGTERM.
	Signal syscall.Signal

	// Alone has the signal go to the program alone, and to those that it has started once it has ended. false means to its
	// whole process group at once, as systemd does: a wrapper that passes nothing on doesn't matter. Price: a program that
	// leads its workers down itself, and whose workers end at once by the signal, wants true.
	Alone bool

	Restart Restart

	// LeaveURL is sent a POST when the leave begins, once, and has 2s to answer, which changes nothing. "" means none.
	LeaveURL string
	// LeaveFile is there once the leave has begun; the program is told its name in EIDER_LEAVING_FILE. "" means none.
	// Price: its folder must be one that can be written.
	LeaveFile string

	Control string // name of an abstract Unix socket at which a hook of the same user has it leave; "" means none. The program finds it in EIDER_CONTROL
	Hook    string // address of GET /leave, as ":8764"; "" means none. Price: whoever reaches it can have the program leave

	Logger *slog.Logger // nil means slog.Default()
}

// settings are a Config with its defaults.
type settings struct {
	Config
	log *slog.Logger
}

// resolve reports every fault at once, before anything is started.
func (c Config) resolve() (settings, error) {
	s := settings{Config: c, log: cmp.Or(c.Logger, slog.Default())}
	s.Signal = cmp.Or(c.Signal, syscall.SIGTERM)
	s.Registry.Zone, s.Registry.Logger = cmp.Or(c.Zone, c.Registry.Zone), s.log
	var errs []error
	if len(c.Command) == 0 || c.Command[0] == "" {
		errs = append(errs, errors.New("no program to run; write it after the flags, as in -- ./app --port 8080"))
	}
	if len(c.Services) == 0 {
		errs = append(errs, errors.New("no service; name what the program serves and where, as in --service orders=:8080"))
	}
	seen := make(map[string]bool)
	for _, service := range c.Services {
		if seen[service.Name] {
			errs = append(errs, fmt.Errorf("service %s: it is given twice; one process serves a service at one address", service.Name))
		}
		seen[service.Name] = true
		errs = append(errs, c.fits(service))
	}
	if c.Restart != Never && c.Restart != OnFailure {
		errs = append(errs, fmt.Errorf("restart: %q is neither none nor on-failure", c.Restart))
	}
	errs = append(errs, c.Check.Check(), checkURL(c.LeaveURL), c.reaches())
	if err := errors.Join(errs...); err != nil {
		return settings{}, &eider.Error{Op: "run", Kind: eider.Invalid, Err: err}
	}
	return s, nil
}

// fits asks those who would find the fault later, when the program runs already.
func (c Config) fits(service Service) error {
	record := eider.Record{Key: eider.Key{Service: eider.FoldService(service.Name), ID: cmp.Or(c.ID, "open")}, Incarnation: eider.Incarnation{Nonce: 1},
		Address: "127.0.0.1:1", Ports: c.Ports, Zone: c.Zone, Metadata: c.Metadata}
	if err := record.Check(); err != nil {
		return fmt.Errorf("service %s: %w", service.Name, err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	cfg := c.drain(service)
	cfg.Logger = slog.New(slog.DiscardHandler)
	if service.Front != "" {
		if _, err := service.frontAddress(); err != nil {
			return fmt.Errorf("service %s: %w", service.Name, err)
		}
	}
	_, err := drain.Beside(ended, cfg, drain.Program{Finish: func(context.Context) {}})
	return err
}

// reaches asks for what no retry mends in how the registry is to be found. A closed handle dials nobody, and a question
// about a breaker is answered with that first.
func (c Config) reaches() error {
	reg := registry.Open(c.Registry)
	reg.Close()
	if _, err := reg.Fleet().Tell(context.Background(), "open", "", nil, false); eider.KindOf(err) == eider.Invalid {
		return err
	}
	return nil
}

// drain is the part of a Config that is the drain's.
func (c Config) drain(service Service) drain.Config {
	return drain.Config{Service: service.Name, ID: c.ID, Address: service.Address, Ports: c.Ports, Zone: c.Zone, Metadata: c.Metadata,
		Grace: c.Grace, InFlight: c.InFlight, Unknown: c.Unknown, Logger: c.Logger}
}

// ask is what is asked of a service, the program's port if nothing else is set.
func (c Config) ask(service Service, exec func(context.Context, []string) error) (check.Config, error) {
	cfg := c.Check
	cfg.Ready, cfg.Live, cfg.Exec = service.Ready, service.Live, exec
	if cfg.Ready != nil || cfg.Live != nil {
		return cfg, nil
	}
	host, port, err := net.SplitHostPort(service.Address)
	if err != nil {
		return cfg, err
	}
	if n, err := strconv.Atoi(port); err != nil || n == 0 {
		return cfg, fmt.Errorf("port %q is none", port)
	}
	cfg.Ready, err = check.Parse("tcp://" + net.JoinHostPort(host, port))
	return cfg, err
}
