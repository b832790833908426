package offline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/window"
)

// outlooks derives what was asked for: a window a preset, or the one of terms by hand.
func (r request) outlooks() ([]outlook.Outlook, error) {
	if len(r.presets) == 0 {
		o, err := r.byHand()
		return []outlook.Outlook{o}, err
	}
	var f faults
	var all []outlook.Outlook
	for _, p := range r.presets {
		o, err := r.of(p)
		if err != nil {
			f = append(f, err)
		}
		all = append(all, o)
	}
	return all, misuse(f...)
}

// of derives one preset's, with what a change would do to it.
func (r request) of(p window.Preset) (outlook.Outlook, error) {
	set := r.settings(p, r.set, nil)
	o, before, err := r.with(p, set)
	if err != nil || len(r.presets) > 1 {
		return o, err
	}
	trades, err := p.Trades(set, r.fleet)
	if err != nil {
		return o, err
	}
	o.Add(trades)
	if len(r.whatIf) > 0 {
		then := r.settings(p, r.whatIf, set)
		with, after, err := r.with(p, then)
		if err != nil {
			return o, err
		}
		if with.Note, err = p.Weigh(set, then, before, after); err != nil {
			return o, err
		}
		o.WhatIf = &with
	}
	return o, nil
}

// with derives one preset's under some settings.
func (r request) with(p window.Preset, set map[string]string) (outlook.Outlook, window.Forecast, error) {
	forecast, err := p.Derive(set, r.fleet)
	if err != nil {
		return outlook.Outlook{}, forecast, err
	}
	forecast.Planned.Terms = append(slices.Clip(forecast.Planned.Terms), r.planned...)
	forecast.Crash.Terms = append(slices.Clip(forecast.Crash.Terms), r.crash...)
	o := outlook.Of(forecast, r.fleet, r.inFlight)
	o.Preset, o.Title = p.Name, p.Title
	for _, s := range p.Settings {
		value := fmt.Sprint(s.Default)
		if to, ok := set[s.Name]; ok {
			value = to
		}
		o.Settings = append(o.Settings, outlook.Setting{Name: s.Name, Value: value, Default: fmt.Sprint(s.Default), What: s.What, Source: s.Source, Key: s.Key})
	}
	return o, forecast, nil
}

// byHand adds up what was typed; --what-if replaces a term by its name.
func (r request) byHand() (outlook.Outlook, error) {
	of := func(planned, crash window.Sum) outlook.Outlook {
		o := outlook.Of(window.Forecast{Planned: window.Window{Terms: planned}, Crash: window.Window{Terms: crash}}, r.fleet, r.inFlight)
		o.Title = "terms given by hand"
		return o
	}
	o := of(r.planned, r.crash)
	var f faults
	if len(r.whatIf) > 0 {
		planned, crash := slices.Clone(r.planned), slices.Clone(r.crash)
		for _, c := range r.whatIf {
			t, err := window.Parse(c.name + "=" + c.value)
			if err != nil {
				f.add("--what-if: %w", err)
				continue
			}
			t.Source = c.flag
			if !replace(planned, t) && !replace(crash, t) {
				f.add("--what-if %s=%s: no --term has the name %q", c.name, c.value, c.name)
			}
			replace(crash, t)
		}
		after := of(planned, crash)
		o.WhatIf = &after
	}
	return o, misuse(f...)
}

// replace puts a term where one of its name is.
func replace(s window.Sum, with window.Term) (done bool) {
	for i := range s {
		if s[i].Name == with.Name {
			s[i], done = with, true
		}
	}
	return done
}

// settings returns those that are meant for a preset, on top of others.
func (r request) settings(p window.Preset, choices []choice, on map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, on)
	for _, c := range choices {
		if name, value, ok := p.Keyed(c.name, c.value); ok {
			all[name] = value
		} else if name, ok := r.meant(p, c.name); ok {
			all[name] = c.value
		}
	}
	return all
}

// meant strips a preset's name, or its family's, off a setting's: eureka.client-cache is meant for eureka-textbook too.
// A bare name is meant for the only preset, which says so if it has no such setting, and among several for those that have it.
func (r request) meant(p window.Preset, name string) (setting string, ok bool) {
	if setting, _, ok = p.Keyed(name, ""); ok {
		return setting, true
	}
	family, setting, ok := strings.Cut(name, ".")
	if !ok {
		setting = name
	} else if family != p.Name && !strings.HasPrefix(p.Name, family+"-") {
		return "", false
	}
	return setting, len(r.presets) == 1 || slices.ContainsFunc(p.Settings, func(s window.Setting) bool { return s.Name == setting })
}

// addressed adds a fault for each setting that is meant for none of the presets.
func (r request) addressed(f *faults) {
	var names []string
	for _, p := range r.presets {
		names = append(names, p.Name)
	}
	for _, c := range slices.Concat(r.set, r.whatIf) {
		if !slices.ContainsFunc(r.presets, func(p window.Preset) bool { _, ok := r.meant(p, c.name); return ok }) {
			f.add("%s %s=%s is a setting of none of %s", c.flag, c.name, c.value, strings.Join(names, ", "))
		}
	}
}
