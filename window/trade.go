package window

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Trade is what one setting, halved or turned, buys and costs (W9): a window can't be tuned to nothing.
type Trade struct {
	Setting  string
	From, To string
	Planned  time.Duration // what the worst case of a planned departure is shorter by; below 0: longer
	Crash    time.Duration // and of a crash
	Load     Load          // after
	Note     string        // what it buys and costs beside the worst cases; or why it can't be done
}

// Trades tries each setting of the preset that somebody tunes, one at a time: durations and counts halved, switches
// turned. Facts about the fleet, such as how many nodes there are, and constants aren't for sale; a setting that would
// change nothing is left out.
func (p Preset) Trades(set map[string]string, fleet Fleet) ([]Trade, error) {
	c, err := p.choose(set, fleet)
	if err != nil {
		return nil, err
	}
	before, err := p.derive(c)
	if err != nil {
		return nil, err
	}
	var out []Trade
	for _, s := range p.Settings {
		from := c.value(s.Name)
		to, ok := s.halved(from)
		if !ok {
			continue
		}
		changed := *c
		changed.values = maps.Clone(c.values)
		changed.values[s.Name] = to
		after, err := p.derive(&changed)
		if err == nil && same(before, after) {
			continue
		}
		t := Trade{Setting: s.Name, From: from.String(), To: to.String(), Load: before.Load}
		if err != nil {
			t.Note = "can't be done: " + err.Error()
		} else {
			t.Planned = before.Planned.Terms.Worst() - after.Planned.Terms.Worst()
			t.Crash = before.Crash.Terms.Worst() - after.Crash.Terms.Worst()
			t.Load, t.Note = after.Load, p.note(before, after, s)
		}
		out = append(out, t)
	}
	return out, nil
}

// halved is the value that a trade tries, if the setting is one that is tuned and has less to give.
func (s Setting) halved(v Value) (Value, bool) {
	switch v.Kind {
	case KindSwitch:
		v.On = !v.On
		return v, !s.given
	case KindCount:
		v.Count /= 2
	default:
		v.Duration /= 2
	}
	low, _ := s.limits()
	return v, !s.given && v.raw() > 0 && v.raw() >= low.raw()
}

// same tells whether a change changes nothing that anybody sees, as one of a timer that isn't in the window now.
func same(a, b Forecast) bool {
	window := func(a, b Window) bool {
		return a.Terms.Worst() == b.Terms.Worst() && a.Terms.Mean() == b.Terms.Mean() && a.Void == b.Void && slices.Equal(a.VoidWhen, b.VoidWhen)
	}
	return a.Load == b.Load && window(a.Planned, b.Planned) && window(a.Crash, b.Crash)
}

// ledger is what a change buys, what it costs, and what it only moves, in words.
type ledger struct{ buys, costs, moves []string }

// less enters a number of which less is better.
func (l *ledger) less(what string, was, is float64) {
	l.enter(is-was, fmt.Sprintf("%s %.3g → %.3g", what, was, is))
}

func (l *ledger) enter(more float64, line string) {
	if more > 0 {
		l.costs = append(l.costs, line)
	} else if more < 0 {
		l.buys = append(l.buys, line)
	}
}

func (l *ledger) window(path string, was, is Window) {
	before, after := was.Terms.Mean(), is.Terms.Mean()
	l.enter(float64(after-before), "mean "+path+" "+written(before)+" → "+written(after))
	switch {
	case was.Void == "" && is.Void != "":
		l.costs = append(l.costs, path+" window void: "+is.Void)
	case was.Void != "" && is.Void == "" && len(is.VoidWhen) >= len(was.VoidWhen): // else what it is no longer void by says so
		l.buys = append(l.buys, path+" window no longer void")
	}
	for i, when := range was.VoidWhen {
		switch {
		case slices.Contains(is.VoidWhen, when):
		case len(is.VoidWhen) == len(was.VoidWhen):
			line := path + " window void by " + moved(when, is.VoidWhen[i])
			if l.enter(float64(was.bears-is.bears), line); was.bears == is.bears {
				l.moves = append(l.moves, line)
			}
		default:
			l.buys = append(l.buys, path+" window no longer void by "+when)
		}
	}
}

// Weigh says what a change of settings, from one set to another, buys and costs beside the worst cases; before and
// after are what follows from them, perhaps with terms of one's own.
func (p Preset) Weigh(from, to map[string]string, before, after Forecast) (string, error) {
	was, err := p.choose(from, Fleet{})
	if err != nil {
		return "", err
	}
	is, err := p.choose(to, Fleet{})
	if err != nil {
		return "", err
	}
	var shorter []Setting
	for _, s := range p.Settings {
		if now := is.value(s.Name); now != was.value(s.Name) && (now.raw() < was.value(s.Name).raw() || now.On != s.Default.On) {
			shorter = append(shorter, s)
		}
	}
	return p.note(before, after, shorter...), nil
}

// note says what a change buys and costs beside the worst cases. Its settings are those that are shorter, or off, with it.
func (p Preset) note(before, after Forecast, shorter ...Setting) string {
	var l ledger
	l.window("planned", before.Planned, after.Planned)
	l.window("crash", before.Crash, after.Crash)
	l.less("reads/s", before.Load.ReadsPerSecond, after.Load.ReadsPerSecond)
	l.less("beats/s", before.Load.BeatsPerSecond, after.Load.BeatsPerSecond)
	l.less("healthy evicted/day", before.Load.FalseEvictionsPerDay, after.Load.FalseEvictionsPerDay)
	for _, s := range shorter {
		if s.cost != "" && !slices.Contains(l.costs, s.cost) {
			l.costs = append(l.costs, s.cost)
		}
	}
	note := "buys " + list(l.buys) + "; costs " + list(l.costs)
	if len(l.moves) > 0 {
		note += "; moves " + list(l.moves)
	}
	if p.pushed && before.Planned.Terms.Worst() == after.Planned.Terms.Worst() {
		note += "; a planned departure is pushed: nothing to buy"
	}
	return note
}

// written writes what was reckoned, no more exactly than it is meant.
func written(d time.Duration) string {
	if d < time.Second {
		return exact(d.Round(time.Millisecond))
	}
	return exact(d.Round(10 * time.Millisecond))
}

// moved writes what is the same before and after once.
func moved(was, is string) string {
	what, _, ok := strings.Cut(was, ": ")
	if rest, same := strings.CutPrefix(is, what+": "); ok && same {
		is = rest
	}
	return was + " → " + is
}

func list(what []string) string {
	if len(what) == 0 {
		return "nothing"
	}
	return strings.Join(what, ", ")
}
