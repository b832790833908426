package window

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiderhq/eider/internal/near"
)

// Preset is a registry whose terms are known: its settings with their defaults, and how a window follows from them.
type Preset struct {
	Name, Title string
	About       string // what is modelled, what is chosen where the facts give a range, and what is left out
	Settings    []Setting

	pushed bool // a planned removal is pushed to the callers: no setting shortens it
	derive func(*chosen) (Forecast, error)
}

// Setting is one number that a window follows from.
type Setting struct {
	Name    string // "client-cache", the key of Derive's set
	What    string
	Source  string // where the default is documented
	Key     string // what it is called where it is set, as in an application.yml; "" where no preset knows
	Default Value

	least, most int64  // as in Value.raw; most 0: the kind's own limit
	cost        string // what a shorter one costs beside the load
	given       bool   // see Given: there is no trade of it
}

// Given tells whether the setting is a fact about the fleet or the moment, or a constant: it can be set, to see what
// would be, but isn't tuned.
func (s Setting) Given() bool { return s.given }

// Kind is what a setting takes.
type Kind int

const (
	KindDuration Kind = iota // 30s, 1m30s
	KindCount                // 3
	KindSwitch               // on, off
)

// Value is a setting's value; the field that its Kind names counts.
type Value struct {
	Kind     Kind
	Duration time.Duration
	Count    int
	On       bool
}

// String writes the value as Derive takes it: "90s", "3", "on".
func (v Value) String() string {
	switch v.Kind {
	case KindCount:
		return strconv.Itoa(v.Count)
	case KindSwitch:
		if v.On {
			return "on"
		}
		return "off"
	default:
		return exact(v.Duration)
	}
}

func (v Value) raw() int64 {
	if v.Kind == KindCount {
		return int64(v.Count)
	}
	return int64(v.Duration)
}

func lasts(d time.Duration) Value { return Value{Kind: KindDuration, Duration: d} }
func count(n int) Value           { return Value{Kind: KindCount, Count: n} }
func turned(on bool) Value        { return Value{Kind: KindSwitch, On: on} }

// What a setting may be set to at most: beyond it is a slip, and sums stay far from a Duration's end.
const (
	longest = 365 * 24 * time.Hour
	most    = 1_000_000
	largest = 1_000_000_000 // of a fleet
)

// Presets returns all presets, in the order of the docs.
func Presets() []Preset {
	return []Preset{
		eurekaTextbook(), eurekaSpring(), eurekaNetflix(),
		consulTTL(), consulGossip(), etcd(), zookeeper(),
		nacos1(), nacos2(), polaris(),
		kubernetes(), dns(), envoyEDS(), serf(), eider(),
	}
}

// Lookup finds a preset by its name.
func Lookup(name string) (Preset, error) {
	all := Presets()
	names := make([]string, len(all))
	for i, p := range all {
		if p.Name == name {
			return p, nil
		}
		names[i] = p.Name
	}
	return Preset{}, fmt.Errorf("no preset %q%s There are: %s", name, asking(meant(name, names)), strings.Join(names, ", "))
}

// meant is the preset that somebody means who calls it otherwise.
func meant(name string, names []string) string {
	switch strings.ToLower(name) {
	case "k8s", "kube-proxy", "endpointslice":
		return "kubernetes"
	case "istio", "xds", "mesh":
		return "envoy-eds"
	case "spring", "spring-cloud":
		return "eureka"
	case "curator":
		return "zookeeper"
	}
	var family []string
	for _, known := range names {
		if strings.HasPrefix(known, strings.ToLower(name)+"-") {
			family = append(family, known)
		}
	}
	if len(family) > 1 {
		return strings.Join(family, " or ")
	}
	return nearest(name, names)
}

// settingMeant is the setting that somebody means who calls it otherwise: a beat is called a renewal or a sign of life, too.
func settingMeant(name string, names []string) string {
	if strings.Contains(strings.ToLower(name), "beat") {
		for _, beat := range []string{"beat", "renew", "keep-alive"} {
			if slices.Contains(names, beat) {
				return beat
			}
		}
	}
	return nearest(name, names)
}

// Keyed returns the setting that has a key, however that is written: as in application.yml, in a camel's hump or as an
// environment variable. A value without a unit has the key's: seconds where it ends with them, else milliseconds.
func (p Preset) Keyed(key, value string) (name, with string, ok bool) {
	bare := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(s))
	}
	for _, s := range p.Settings {
		if s.Key == "" || bare(s.Key) != bare(key) {
			continue
		}
		if _, err := strconv.ParseInt(value, 10, 64); err == nil && s.Default.Kind == KindDuration {
			unit := "ms"
			if strings.HasSuffix(s.Key, "seconds") {
				unit = "s"
			}
			value += unit
		}
		return s.Name, value, true
	}
	return "", value, false
}

// nearest is the name that was meant, "" if more than two thirds of the letters would have to be others.
func nearest(name string, names []string) string {
	return near.Name(name, names, max(len(name)*2/3, 1))
}

// asking asks whether a name was meant, if there is one.
func asking(name string) string {
	if name == "" {
		return "."
	}
	return "; did you mean " + name + "?"
}

// Derive says what follows from the preset's settings, those in set replaced, for a fleet. The error names everything
// that is wrong with set and fleet.
func (p Preset) Derive(set map[string]string, fleet Fleet) (Forecast, error) {
	c, err := p.choose(set, fleet)
	if err != nil {
		return Forecast{}, err
	}
	return p.derive(c)
}

// choose reads the settings.
func (p Preset) choose(set map[string]string, fleet Fleet) (*chosen, error) {
	fleet = fleet.Known()
	var errs []error
	if max(fleet.Callers, fleet.Instances, fleet.Lost, fleet.Registry) > largest {
		errs = append(errs, fmt.Errorf("a fleet of %s: no more than %d of anything", fleet, largest))
	}
	if fleet.Lost > fleet.Instances {
		errs = append(errs, fmt.Errorf("%d lost of %d instances: say how many instances there are", fleet.Lost, fleet.Instances))
	}
	if fleet.Registry > 0 && fleet.Registry < fleet.Instances {
		errs = append(errs, fmt.Errorf("%d instances in the registry and %d of the service: the registry holds those, too", fleet.Registry, fleet.Instances))
	}
	c := &chosen{preset: p, values: make(map[string]Value, len(p.Settings)), fleet: fleet}
	names := make([]string, len(p.Settings))
	for i, s := range p.Settings {
		names[i] = s.Name
		c.values[s.Name] = s.Default
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		s, ok := p.setting(name)
		if !ok {
			errs = append(errs, fmt.Errorf("%s has no setting %q%s There are: %s", p.Name, name, asking(settingMeant(name, names)), strings.Join(names, ", ")))
			continue
		}
		v, err := s.parse(set[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", p.Name, err))
			continue
		}
		c.values[name] = v
	}
	return c, errors.Join(errs...)
}

func (p Preset) setting(name string) (Setting, bool) {
	i := slices.IndexFunc(p.Settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return p.Settings[i], true
}

func (s Setting) parse(text string) (Value, error) {
	bad := func(form string) (Value, error) {
		return Value{}, fmt.Errorf("%s = %q: %s; the default is %s", s.Name, text, form, s.Default)
	}
	v := Value{Kind: s.Default.Kind}
	var err error
	switch v.Kind {
	case KindSwitch:
		switch text {
		case "on", "true":
			v.On = true
		case "off", "false":
		default:
			return bad("say on or off")
		}
		return v, nil
	case KindCount:
		if v.Count, err = strconv.Atoi(text); err != nil {
			return bad("say a whole number")
		}
	default:
		if v.Duration, err = time.ParseDuration(text); err != nil {
			return bad("say a duration with its unit, such as 5s or 1m30s")
		}
	}
	low, high := s.limits()
	if v.raw() < low.raw() || v.raw() > high.raw() {
		return bad(fmt.Sprintf("it takes %s to %s", low, high))
	}
	return v, nil
}

// limits are the shortest and the longest value that a setting takes.
func (s Setting) limits() (low, high Value) {
	if s.Default.Kind == KindCount {
		high = count(most)
		if s.most > 0 {
			high = count(int(s.most))
		}
		return count(int(s.least)), high
	}
	high = lasts(longest)
	if s.most > 0 {
		high = lasts(time.Duration(s.most))
	}
	return lasts(time.Duration(s.least)), high
}
