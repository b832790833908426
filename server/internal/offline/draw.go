package offline

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/eiderhq/eider/server/internal/outlook"
)

// barWidth is how many columns the longer of two windows is drawn over; half as many where they are few, and a quarter
// on 80.
const barWidth = 28

func (p *page) barWidth() int {
	switch {
	case p.width > 0 && p.width < 100:
		return barWidth / 4
	case p.narrow():
		return barWidth / 2
	}
	return barWidth
}

// narrow tells whether bars give way to text.
func (p *page) narrow() bool { return p.width > 0 && p.width < 120 }

// drawOutlook writes one system's windows: the answer first, then where it comes from, then what could be changed.
func drawOutlook(p *page, o outlook.Outlook) {
	name := o.Title
	if o.Preset != "" {
		name = o.Preset + ": " + o.Title
	}
	p.say(name, strong)
	p.say("For "+fleet(o.Fleet)+".", dim)
	p.say("", "")
	answers(p, o)
	longest, names := max(o.Planned.Worst, o.Crash.Worst), len("PLANNED DEPARTURE")-2
	for _, t := range append(o.Planned.Terms[:len(o.Planned.Terms):len(o.Planned.Terms)], o.Crash.Terms...) {
		names = max(names, utf8.RuneCountInString(t.Name))
	}
	terms(p, fmt.Sprintf("%-*s", names+2, "PLANNED DEPARTURE"), o.Planned, longest)
	terms(p, fmt.Sprintf("%-*s", names+2, "CRASH"), o.Crash, longest)
	if o.WhatIf != nil {
		whatIf(p, o)
	} else {
		trades(p, o)
	}
	keys(p, o.Settings)
}

// keys says where one has to go to set what the preset calls by a short name.
func keys(p *page, settings []outlook.Setting) {
	first := true
	for _, s := range settings {
		if s.Key == "" {
			continue
		}
		if first {
			p.say("", "")
			p.row(cell{"--set", strong}, cell{"IN THE PROGRAM; --set TAKES THIS NAME, TOO", dim})
			first = false
		}
		p.row("  "+s.Name, s.Key)
	}
	p.flush()
}

func fleet(f outlook.Fleet) string {
	text := fmt.Sprintf("%s, %s, %d lost at once", count(f.Callers, "caller"), count(f.Instances, "instance"), f.Lost)
	if f.Registry > 0 {
		text += ", " + count(f.Registry, "instance") + " in the registry"
	}
	return text
}

// answers says what the reader came for.
func answers(p *page, o outlook.Outlook) {
	p.say("An instance that says that it leaves is still called "+bound(o.Planned), "")
	p.say("One that crashes is still called "+bound(o.Crash), "")
	advise(p, o.Recommend)
}

// advise says what to set.
func advise(p *page, a outlook.Advice) {
	p.say("Set: "+toSet(a), strong)
	p.say("  "+a.Why, dim)
}

func toSet(a outlook.Advice) string {
	pause := fmt.Sprintf("serve on for %s after the registry was told (a preStop that has it told and sleeps %d)", seconds(a.Pause), whole(a.Sleep))
	switch {
	case a.Call > 0:
		pause = fmt.Sprintf("serve on for %s after the registry was told (a preStop that has it told, in up to %s, and then sleeps %d: `eider lint FILE` writes it for your manifest)",
			seconds(a.Pause), seconds(a.Call), whole(a.Sleep))
	case a.Heard:
		pause = fmt.Sprintf("serve on for %s from the moment at which the pod is deleted (a preStop that sleeps %d: callers hear of it meanwhile)", seconds(a.Pause), whole(a.Sleep))
	case a.Sleep == 0:
		pause = fmt.Sprintf("no sleep (the pause may last %s, and its end is told)", seconds(a.Pause))
	}
	return fmt.Sprintf("%s, and a grace period of %s (terminationGracePeriodSeconds: %d).", pause, seconds(a.Grace), whole(a.Grace))
}

func bound(w outlook.Path) string {
	holds := fmt.Sprintf("for at most %s, %s on average", seconds(w.Worst), seconds(w.Mean))
	if w.Void == "" {
		return holds + "."
	}
	return "nobody can say how long, by " + strings.TrimRight(w.Void, ".") + ". Without that: " + holds + "."
}

// terms draws a window as a staircase: each bar begins where the one before ends, since the worst cases add up.
func terms(p *page, heading string, w outlook.Path, longest outlook.Seconds) {
	p.say("", "")
	p.row(cell{heading, strong}, cell{"LEAST", dim}, cell{"MOST", dim}, "", cell{"SOURCE", dim})
	var before outlook.Seconds
	for _, t := range w.Terms {
		hue := plain
		if t.Name == w.Dominant && len(w.Terms) > 1 {
			hue = warn
		}
		p.row("  "+t.Name, seconds(t.Min), seconds(t.Max), cell{bar(before, t.Min, t.Max, longest, p.barWidth()), hue}, t.Source)
		before += t.Max
	}
	p.row(cell{"  sum", strong}, "", cell{seconds(w.Worst), strong})
	line := fmt.Sprintf("  On average %s; in half of all cases at most %s, in 90%% %s, in 99%% %s, in 99.9%% %s.",
		seconds(w.Mean), seconds(w.P50), seconds(w.P90), seconds(w.P99), seconds(w.P999))
	if len(w.Terms) > 1 {
		line += " The longest term: " + w.Dominant + "."
	}
	p.say(line, "")
	when := "Would be void if: "
	if w.Void != "" {
		p.say("  No bound holds: "+w.Void, warn)
		when = "It is void if: "
	}
	for _, why := range w.VoidWhen {
		p.say("  "+when+why, dim)
	}
}

// bar draws a term behind those before it: full for what it always takes, half for what it may take.
func bar(before, least, most, longest outlook.Seconds, width int) string {
	if longest <= 0 {
		return ""
	}
	at := func(s outlook.Seconds) int { return int(float64(s)/float64(longest)*float64(width) + 0.5) }
	from, to := at(before), at(before+most)
	if most > 0 && to == from {
		if from == width {
			from--
		}
		return strings.Repeat(" ", from) + "▏"
	}
	always := at(before+least) - from
	return strings.Repeat(" ", from) + strings.Repeat("█", always) + strings.Repeat("▒", to-from-always)
}

// whole is a time in whole seconds, as Kubernetes takes it.
func whole(s outlook.Seconds) int64 {
	const second = outlook.Seconds(1e9)
	return int64((s + second - 1) / second)
}

// whatIf draws the window before and after a change.
func whatIf(p *page, o outlook.Outlook) {
	p.say("", "")
	after := *o.WhatIf
	p.say("WHAT IF "+changes(o, after), strong)
	p.row("", cell{"PLANNED", dim}, cell{"MEAN", dim}, cell{"CRASH", dim}, cell{"MEAN", dim}, cell{"READS/S", dim}, cell{"BEATS/S", dim}, cell{"FALSE EVICTIONS/DAY", dim})
	for _, side := range []struct {
		name string
		o    outlook.Outlook
	}{{"  as it is", o}, {"  then", after}} {
		s := side.o
		p.row(side.name, worst(s.Planned), seconds(s.Planned.Mean), worst(s.Crash), seconds(s.Crash.Mean), reads(s.Load), beats(s.Load), evictions(s.Load))
	}
	p.row("  change", saved(o.Planned.Worst-after.Planned.Worst), saved(o.Planned.Mean-after.Planned.Mean), saved(o.Crash.Worst-after.Crash.Worst), saved(o.Crash.Mean-after.Crash.Mean), "", "", "")
	p.flush()
	for _, w := range []outlook.Path{after.Planned, after.Crash} {
		if w.Void != "" {
			p.say("  With it no bound holds: "+w.Void, warn)
		}
	}
	if after.Note != "" {
		p.say("  It "+after.Note+".", "")
	}
	if after.Recommend == o.Recommend {
		p.say("  What to set stays as it is.", "")
	} else {
		p.say("  Then set: "+toSet(after.Recommend), strong)
	}
}

// changes names what differs between two outlooks.
func changes(before, after outlook.Outlook) string {
	var all []string
	for i, s := range after.Settings {
		if s.Value != before.Settings[i].Value {
			all = append(all, s.Name+"="+s.Value)
		}
	}
	for _, pair := range [][2][]outlook.Term{{before.Planned.Terms, after.Planned.Terms}, {before.Crash.Terms, after.Crash.Terms}} {
		for i, t := range pair[1] {
			if before.Settings == nil && t != pair[0][i] && !strings.Contains(strings.Join(all, ", ")+", ", t.Name+" ") {
				all = append(all, t.Name+" "+span(t))
			}
		}
	}
	if len(all) == 0 {
		return "the same"
	}
	return strings.Join(all, ", ")
}

// trades draws what each change would buy and cost. Those that buy no shorter worst case come last.
func trades(p *page, o outlook.Outlook) {
	if len(o.Trades) == 0 {
		return
	}
	p.say("", "")
	p.row(cell{"WHAT EACH CHANGE BUYS", strong}, cell{"PLANNED", dim}, cell{"CRASH", dim}, cell{"AND WHAT IT COSTS", strong})
	for _, gains := range []bool{true, false} {
		for _, t := range o.Trades {
			hue := ""
			if !gains {
				hue = dim
			}
			if (t.Planned > 0 || t.Crash > 0) == gains {
				p.row(cell{"  " + t.Setting + " " + t.From + " → " + t.To, hue}, cell{saved(t.Planned), hue}, cell{saved(t.Crash), hue}, cell{t.Note, hue})
			}
		}
	}
	p.flush()
	if l := o.Load; l != nil {
		p.say(fmt.Sprintf("  As it is: %s reads/s, %s beats/s, %s healthy instances evicted a day (%s).", rate(l.Reads), rate(l.Beats), rate(l.FalseEvictions), l.Assumed), dim)
	}
}

// worst marks a bound that doesn't hold.
func worst(w outlook.Path) string {
	if w.Void != "" {
		return seconds(w.Worst) + " void"
	}
	return seconds(w.Worst)
}

func reads(l *outlook.Load) string {
	if l == nil {
		return "–"
	}
	return rate(l.Reads)
}

func beats(l *outlook.Load) string {
	if l == nil {
		return "–"
	}
	return rate(l.Beats)
}

func evictions(l *outlook.Load) string {
	if l == nil {
		return "–"
	}
	return rate(l.FalseEvictions)
}
