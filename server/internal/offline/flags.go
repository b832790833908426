package offline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/eiderhq/eider/window"
)

// typed is a flag's value as it was typed. All are read when the command runs, so that every fault is told at once.
type typed struct{ text, kind string }

// Set keeps it.
func (t *typed) Set(text string) error { t.text = text; return nil }

// String returns it.
func (t *typed) String() string { return t.text }

// Type names it.
func (t *typed) Type() string { return t.kind }

// windowFlags are those of the window command.
type windowFlags struct {
	preset, compare, svg     string
	service                  string
	both, planned, crash     []string // terms
	set, whatIf              []string // name=value
	callers, instances, lost typed
	registry                 typed
	inFlight                 typed
	rps, latency, pool       typed
}

func (w *windowFlags) declare(flags *pflag.FlagSet) {
	w.callers, w.instances, w.lost = typed{"50", "int"}, typed{"10", "int"}, typed{"1", "int"}
	w.registry.kind, w.inFlight.kind, w.rps.kind, w.latency.kind, w.pool.kind = "int", "duration", "float", "duration", "int"
	flags.SortFlags = false
	flags.StringVar(&w.preset, "preset", "", "`NAME` of the system whose window is derived from its defaults; without it, a list of them")
	flags.StringArrayVar(&w.set, "set", nil, "`NAME=VALUE` of a setting that differs from its default, as client-cache=5s or eureka.client-cache=5s; repeatable")
	flags.StringArrayVar(&w.whatIf, "what-if", nil, "`NAME=VALUE` of a setting to change: the window before and after, and what that costs; repeatable")
	flags.StringVar(&w.compare, "compare", "", "`NAMES` of presets side by side, as eureka,kubernetes,eider")
	flags.StringArrayVar(&w.both, "term", nil, "`TERM` of your own, in both windows, as 'cache=uniform(0s,30s)'; beside a preset it is one more; repeatable")
	flags.StringArrayVar(&w.planned, "planned-term", nil, "the same as --term, in the window of a planned departure alone: `TERM`")
	flags.StringArrayVar(&w.crash, "crash-term", nil, "the same as --term, in the window of a crash alone: `TERM`")
	flags.Var(&w.callers, "callers", "`N` callers in the fleet; reads and false evictions are reckoned for them")
	flags.Var(&w.instances, "instances", "`N` instances of the service")
	flags.Var(&w.registry, "registry", "`N` instances that the registry holds, of all services: Eureka's self-preservation and sweeps go by them; without it those of --instances")
	flags.Var(&w.lost, "lost", "`N` instances of the service that are lost at once; enough of them can void a bound")
	flags.Var(&w.inFlight, "in-flight", "`TIME` that a request may take that was accepted before the instance closes; without it Spring's 30s with the preset eureka, else 20s")
	flags.Var(&w.rps, "rps", "`RATE` of requests a second to the service, from all callers alike: what is in flight, and what goes to an instance that is gone")
	flags.Var(&w.latency, "latency", "`TIME` that a request takes, for --rps")
	flags.Var(&w.pool, "pool", "`N` connections or workers in a caller's pool, for --rps: how soon a hang fills it, at one of --callers; without them or a preset one caller makes all requests")
	flags.StringVar(&w.svg, "svg", "", "`FILE` to draw the windows to, as stacked bars, light and dark; - is standard output, alone")
}

// request is what the flags ask for.
type request struct {
	presets        []window.Preset
	set, whatIf    []choice
	planned, crash window.Sum // by hand
	fleet          window.Fleet
	inFlight       time.Duration // 0: the preset's
	pool           *window.Pool
	alone          bool // nobody said how many callers there are
}

// choice is NAME=VALUE.
type choice struct{ flag, name, value string }

// read reads all flags, and reports everything that is wrong with them.
func (w *windowFlags) read(flags *pflag.FlagSet) (request, error) {
	var f faults
	r := request{
		fleet: window.Fleet{Callers: f.whole("--callers", w.callers.text, 1), Instances: f.whole("--instances", w.instances.text, 1), Lost: f.whole("--lost", w.lost.text, 1)},
		set:   f.choices("--set", w.set), whatIf: f.choices("--what-if", w.whatIf),
	}
	if flags.Changed("in-flight") {
		r.inFlight = f.duration("--in-flight", w.inFlight.text)
	}
	if flags.Changed("registry") {
		wrong := len(f)
		if r.fleet.Registry = f.whole("--registry", w.registry.text, 1); r.fleet.Registry < r.fleet.Instances && len(f) == wrong {
			f.add("--registry %d with --instances %d: the registry holds those of the service, too", r.fleet.Registry, r.fleet.Instances)
		}
	}
	r.alone = !flags.Changed("callers")
	if r.fleet.Lost > r.fleet.Instances && r.fleet.Instances > 0 {
		f.add("--lost %d of --instances %d: no more can be lost than there are", r.fleet.Lost, r.fleet.Instances)
	}
	both := f.terms("--term", w.both)
	r.planned = append(both[:len(both):len(both)], f.terms("--planned-term", w.planned)...)
	r.crash = append(both[:len(both):len(both)], f.terms("--crash-term", w.crash)...)
	named := f.named(flags, w)
	if r.presets = f.presets(named); len(r.presets) == len(named) && len(named) > 0 {
		r.addressed(&f)
	}
	if len(named) == 0 {
		f.needs(flags, "--preset NAME or --compare NAMES, whose setting it is", "set")
	}
	if len(named) == 0 && len(w.both)+len(w.planned)+len(w.crash) == 0 {
		f.needs(flags, "--preset NAME or --term TERM, which it would change", "what-if")
	}
	if littled(flags) {
		r.pool = f.littles(flags, w)
	}
	return r, misuse(f...)
}

// named returns the names of presets that are asked for.
func (f *faults) named(flags *pflag.FlagSet, w *windowFlags) (names []string) {
	if w.preset != "" {
		names = []string{w.preset}
	}
	if strings.Contains(w.preset, ",") {
		f.add("--preset takes one name; several stand side by side with --compare %s", w.preset)
		names = strings.Split(w.preset, ",")
	}
	if w.compare == "" {
		return names
	}
	f.alone(flags, "compare", "preset", "term", "planned-term", "crash-term", "what-if")
	for name := range strings.SplitSeq(w.compare, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

func (f *faults) presets(names []string) (all []window.Preset) {
	for i, name := range names {
		p, err := window.Lookup(name)
		switch {
		case err == nil && slices.Contains(names[:i], name):
			f.add("--compare names %s again: a system has one column", name)
		case name == "":
			f.add("--compare must be names of presets, parted by commas, as eureka,kubernetes,eider: one is empty")
		case err != nil:
			*f = append(*f, err)
		default:
			all = append(all, p)
		}
	}
	return all
}

// faults is everything that is wrong so far.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f *faults) whole(name, text string, least int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > 1e9 {
		f.add("%s %q must be a whole number from %d to 1000000000", name, text, least)
		return least
	}
	return n
}

func (f *faults) duration(name, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		f.add("%s %q must be a time above 0, as 50ms or 20s", name, text)
		return 0
	}
	return d
}

func (f *faults) choices(flag string, texts []string) (all []choice) {
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			f.add("%s %q must be NAME=VALUE, as client-cache=5s", flag, text)
			continue
		}
		all = append(all, choice{flag, strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	return all
}

func (f *faults) terms(flag string, texts []string) (all window.Sum) {
	for _, text := range texts {
		t, err := window.Parse(text)
		if err != nil {
			f.add("%s: %w", flag, err)
			continue
		}
		t.Source = flag
		all = append(all, t)
	}
	return all
}

// alone says which flags can't stand beside one.
func (f *faults) alone(flags *pflag.FlagSet, one string, others ...string) {
	for _, other := range others {
		if flags.Changed(other) {
			f.add("--%s and --%s don't go together: ask for one of them", one, other)
		}
	}
}

// needs says which flags mean nothing without others.
func (f *faults) needs(flags *pflag.FlagSet, what string, names ...string) {
	for _, name := range names {
		if flags.Changed(name) {
			f.add("--%s needs %s", name, what)
		}
	}
}

// littled tells whether Little's law is asked.
func littled(flags *pflag.FlagSet) bool {
	return flags.Changed("rps") || flags.Changed("latency") || flags.Changed("pool")
}

// littles reads what Little's law is asked about.
func (f *faults) littles(flags *pflag.FlagSet, w *windowFlags) *window.Pool {
	var p window.Pool
	for _, name := range []string{"rps", "latency"} {
		if !flags.Changed(name) {
			f.add("--rps and --latency go together: --%s is missing", name)
		}
	}
	if flags.Changed("rps") {
		var err error
		if p.PerSecond, err = strconv.ParseFloat(w.rps.text, 64); err != nil || !(p.PerSecond > 0 && p.PerSecond <= 1e9) {
			f.add("--rps %q must be a number above 0, as 500", w.rps.text)
		}
	}
	if flags.Changed("latency") {
		p.Latency = f.duration("--latency", w.latency.text)
	}
	if flags.Changed("pool") {
		p.Size = f.whole("--pool", w.pool.text, 1)
	}
	return &p
}
