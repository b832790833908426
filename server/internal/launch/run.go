package launch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/server/internal/supervise"
	"github.com/eiderhq/eider/server/internal/supervise/check"
)

// Ended is the end of a command that has told all: only the exit code is left to say.
type Ended struct{ Code int }

func (e *Ended) Error() string { return "ended with " + strconv.Itoa(e.Code) }

// running is one `run`, as its flags say.
type running struct {
	services, ready, live []string
	fronts                []string
	id, zone              string
	meta, ports           map[string]string
	registry              string
	check                 check.Config
	grace, inFlight       time.Duration
	unknown               string
	signal                string
	alone                 bool
	restart               string
	leaveURL, leaveFile   string
	control, hook         string
	report                string
	logFormat             string
}

// Run is the command that runs a program; name is how it is called, for its examples.
func Run(name string) *cobra.Command {
	r := &running{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARGUMENT…]",
		Short: "Run a program that knows nothing of Eider, and have it leave as one that does",
		Long:  longRun,
		Example: strings.ReplaceAll(`  eider run --service orders=:8080 -- ./orders
  eider run --service orders=:8080 --ready http://:8080/healthz -- node server.js
  eider run --service api=:8080 --service admin=:9000 --ready admin=tcp://:9000 -- /app/server
  eider run --service pay=:50051 --ready grpc://:50051 --restart on-failure -- ./pay`, "eider run", name),
		Args: cobra.ArbitraryArgs,
		RunE: r.run,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the program is the program's
	flags.StringArrayVar(&r.services, "service", nil, "`NAME=[HOST]:PORT` of a service that the program serves, and where; may be given again")
	flags.StringVar(&r.id, "id", "", "`ID` of the instance in its services (default host:port, as advertised)")
	flags.StringVar(&r.zone, "zone", "", "`ZONE` that it runs in (default $EIDER_ZONE)")
	flags.StringToStringVar(&r.meta, "meta", nil, "`KEY=VALUE` of its metadata; may be given again")
	flags.StringToStringVar(&r.ports, "port", nil, "`NAME=PORT` of a further port; may be given again")
	flags.StringVar(&r.registry, "registry", "", "`ADDRESS` of the registry, host:port, several by commas (default $EIDER_ADDR, else 127.0.0.1:8762)")
	flags.StringArrayVar(&r.ready, "ready", nil, "`[NAME=]CHECK` that the program, or its service NAME, is ready: http://:PORT/PATH, grpc://:PORT, tcp://:PORT, exec:PROGRAM (default its port accepts)")
	flags.StringArrayVar(&r.live, "live", nil, "`[NAME=]CHECK` that it goes on serving (default as --ready)")
	flags.StringArrayVar(&r.fronts, "front", nil, "`[NAME=][HOST]:PORT` where a proxy for the program, or its service NAME, listens, which callers are sent to: for a program that can't say that it leaves")
	flags.DurationVar(&r.check.Every, "check-every", 2*time.Second, "`TIME` from one check to the next")
	flags.DurationVar(&r.check.Timeout, "check-timeout", time.Second, "`TIME` that a check may take")
	flags.DurationVar(&r.check.Start, "start", time.Minute, "`TIME` that the program may take until it is ready")
	flags.DurationVar(&r.grace, "grace", 0, "`TIME` from SIGTERM to the platform's SIGKILL (default $EIDER_GRACE, else 30s)")
	flags.DurationVar(&r.inFlight, "in-flight", 0, "`TIME` that the program may take to end, once the pause is over (default 20s, or five sevenths of what the grace leaves)")
	flags.StringVar(&r.unknown, "unknown", "8s", "`TIME` that a leave waits for callers that can't be told; none says that all callers are Eider's")
	flags.StringVar(&r.signal, "signal", "TERM", "`SIGNAL` that has the program end")
	flags.BoolVar(&r.alone, "alone", false, "send the signal to the program alone at first, not to its whole process group")
	flags.StringVar(&r.restart, "restart", "none", "`WHEN` the program is started anew: none, or on-failure with a pause that grows")
	flags.StringVar(&r.control, "control", "", "`NAME` of an abstract socket at which eider leave has it leave (default $EIDER_CONTROL, else none)")
	flags.StringVar(&r.hook, "hook", "", "`ADDRESS` at which GET /leave has it leave, as in :8764 (default none)")
	flags.StringVar(&r.leaveURL, "on-leave-url", "", "`URL` that is sent a POST when the leave begins")
	flags.StringVar(&r.leaveFile, "leave-file", "", "`FILE` that is there once the leave has begun; the program finds its name in EIDER_LEAVING_FILE")
	flags.StringVar(&r.report, "report", "", "`FILE` for a report of the departure in JSON; - is standard output")
	flags.StringVar(&r.logFormat, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
	_ = cmd.RegisterFlagCompletionFunc("restart", cobra.FixedCompletions([]string{"none", "on-failure"}, cobra.ShellCompDirectiveNoFileComp)) // they fail for an unknown flag only
	_ = cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

const longRun = `Run a program, register what it serves once it is ready, and take it out of service on SIGTERM
or SIGINT so that no request is lost: the registry tells its callers, the program serves on
until they have let go of it, then it gets the signal, and has its time to finish.

It does what PID 1 has to: reaps, passes other signals on, waits for all that the program has
started. It needs no shell, no libc, no home and no disk that can be written. The registry
may be away for as long as it likes. docs/run.md tells it all.

It exits with the program's own code, or 128 and the signal that ended it. Its own codes are
2 the command line is wrong, 124 the program had to be killed at its deadline, 125 a fault of
Eider's, 126 the program can't be executed, 127 there is no such program, 130 a second Ctrl-C
ended it, 143 SIGTERM came before the program was started: it never was.`

func (r *running) run(cmd *cobra.Command, args []string) error {
	cfg, err := r.config(args, cmd.Flags())
	if err != nil {
		return &eider.Error{Kind: eider.Invalid, Err: err}
	}
	said := newOutlet(cmd.ErrOrStderr())
	defer said.close()
	cfg.Logger = r.logger(said)
	report, err := supervise.Run(cmd.Context(), cfg)
	if e, ok := errors.AsType[*eider.Error](err); ok && e.Kind == eider.Invalid {
		return err
	}
	if err != nil {
		cfg.Logger.Error(err.Error())
	}
	atMost(lastLine, func() {
		if err := r.tell(cmd.OutOrStdout(), report); err != nil {
			cfg.Logger.Error("the report can't be written", "err", err)
		}
	})
	if report.Exit == 0 {
		return nil
	}
	return &Ended{report.Exit}
}

func (r *running) logger(to io.Writer) *slog.Logger {
	if r.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, nil))
	}
	return slog.New(slog.NewTextHandler(to, nil))
}

func (r *running) tell(out io.Writer, report supervise.Report) error {
	if r.report == "" {
		return nil
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if r.report == "-" {
		_, err = out.Write(text)
		return err
	}
	return os.WriteFile(r.report, text, 0o600)
}

// config reads the flags, and reports every fault at once.
func (r *running) config(args []string, flags *pflag.FlagSet) (supervise.Config, error) {
	cfg := supervise.Config{Command: args, ID: r.id, Zone: r.zone, Metadata: r.meta, Check: r.check, Grace: r.grace, InFlight: r.inFlight, Alone: r.alone,
		LeaveURL: r.leaveURL, LeaveFile: r.leaveFile, Control: cmp.Or(r.control, os.Getenv("EIDER_CONTROL")), Hook: r.hook}
	cfg.Registry.Addr = r.registry
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	var err error
	cfg.Services, err = r.serves()
	note(err)
	cfg.Ports, err = ports(r.ports)
	note(err)
	cfg.Unknown, err = pause("unknown", r.unknown)
	note(err)
	cfg.Signal, err = signalOf(r.signal)
	note(err)
	switch r.restart {
	case "none":
	case "on-failure":
		cfg.Restart = supervise.OnFailure
	default:
		note(fmt.Errorf("--restart %q is neither none nor on-failure", r.restart))
	}
	if r.logFormat != "text" && r.logFormat != "json" {
		note(fmt.Errorf("--log-format %q is neither text nor json", r.logFormat))
	}
	for _, name := range []string{"check-every", "check-timeout", "start", "grace", "in-flight"} {
		if d, _ := flags.GetDuration(name); flags.Changed(name) && d <= 0 {
			note(fmt.Errorf("--%s %s is no time above 0", name, d))
		}
	}
	return cfg, errors.Join(errs...)
}

// serves reads the services and their checks.
func (r *running) serves() ([]supervise.Service, error) {
	var services []supervise.Service
	var errs []error
	for _, text := range r.services {
		name, at, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("--service %q: write NAME=[HOST]:PORT, as in orders=:8080", text))
			continue
		}
		services = append(services, supervise.Service{Name: name, Address: at})
	}
	set := func(flag string, texts []string, to func(*supervise.Service) *check.Check) {
		for _, text := range texts {
			errs = append(errs, assign(services, flag, text, to))
		}
	}
	set("ready", r.ready, func(s *supervise.Service) *check.Check { return &s.Ready })
	set("live", r.live, func(s *supervise.Service) *check.Check { return &s.Live })
	for _, text := range r.fronts {
		errs = append(errs, stands(services, text))
	}
	return services, errors.Join(errs...)
}

// stands gives a front to the service that it names, or to the only one.
func stands(services []supervise.Service, text string) error {
	name, at, named := strings.Cut(text, "=")
	if !named {
		if at = text; len(services) != 1 {
			return fmt.Errorf("--front %s: there are %d services; write for which one, as in NAME=%s", text, len(services), text)
		}
		name = services[0].Name
	}
	for i := range services {
		if services[i].Name == name {
			services[i].Front = at
			return nil
		}
	}
	return fmt.Errorf("--front %s: there is no --service %s", text, name)
}

// assign gives a check to the service that it names, or to all.
func assign(services []supervise.Service, flag, text string, to func(*supervise.Service) *check.Check) error {
	name, rest, named := strings.Cut(text, "=")
	if named = named && !strings.Contains(name, ":"); named { // else the = is the check's own
		text = rest
	}
	c, err := check.Parse(text)
	if err != nil {
		return fmt.Errorf("--%s %w", flag, err)
	}
	found := false
	for i := range services {
		if !named || services[i].Name == name {
			*to(&services[i]) = c
			found = true
		}
	}
	if named && !found {
		return fmt.Errorf("--%s %s=…: there is no --service %s", flag, name, name)
	}
	return nil
}

func ports(texts map[string]string) (map[string]uint16, error) {
	var out map[string]uint16
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		n, err := strconv.ParseUint(texts[name], 10, 16)
		if err != nil || n == 0 {
			errs = append(errs, fmt.Errorf("--port %s=%s: it is no port; write NAME=PORT, as in grpc=9090", name, texts[name]))
			continue
		}
		if out == nil {
			out = make(map[string]uint16)
		}
		out[name] = uint16(n)
	}
	return out, errors.Join(errs...)
}

// pause reads a time of which none is one.
func pause(flag, text string) (time.Duration, error) {
	if text == "none" {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--%s %q is no time above 0; write it as in 8s, or none", flag, text)
	}
	return d, nil
}

// signals are those that have a program end.
var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "HUP": syscall.SIGHUP,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH}

func signalOf(text string) (syscall.Signal, error) {
	if sig, ok := signals[strings.TrimPrefix(strings.ToUpper(text), "SIG")]; ok {
		return sig, nil
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= 64 && syscall.Signal(n) != syscall.SIGKILL && syscall.Signal(n) != syscall.SIGSTOP {
		return syscall.Signal(n), nil
	}
	return 0, fmt.Errorf("--signal %q: it is none that a program can end by; write %s, or a number", text, strings.Join(slices.Sorted(maps.Keys(signals)), ", "))
}
