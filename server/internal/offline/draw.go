package offline

import (
	"fmt"
	"strings"

	"github.com/eiderhq/eider/server/internal/outlook"
)

// barWidth is how many columns the longer of two windows is drawn over.
const barWidth = 28

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
	longest := max(o.Planned.Worst, o.Crash.Worst)
	terms(p, "PLANNED DEPARTURE", o.Planned, longest)
	terms(p, "CRASH", o.Crash, longest)
	if o.WhatIf != nil {
		whatIf(p, o)
	}
	trades(p, o)
}

func fleet(f outlook.Fleet) string {
	return fmt.Sprintf("%s, %s, %d lost at once", count(f.Callers, "caller"), count(f.Instances, "instance"), f.Lost)
}

// answers says what the reader came for.
func answers(p *page, o outlook.Outlook) {
	p.say("An instance that says that it leaves is still called for "+bound(o.Planned), "")
	p.say("One that crashes is still called for "+bound(o.Crash), "")
	p.say(fmt.Sprintf("Set: keep serving for %s after the leave (a preStop sleep of %d), and a grace period of %d (terminationGracePeriodSeconds).",
		seconds(o.Recommend.Pause), whole(o.Recommend.Pause), whole(o.Recommend.Grace)), strong)
	p.say("  "+o.Recommend.Why, dim)
}

func bound(w outlook.Path) string {
	if w.Void != "" {
		return fmt.Sprintf("nobody can say how long: %s. Were it not for that: at most %s, %s on average.", strings.TrimRight(w.Void, "."), seconds(w.Worst), seconds(w.Mean))
	}
	return fmt.Sprintf("at most %s, %s on average.", seconds(w.Worst), seconds(w.Mean))
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
		p.row("  "+t.Name, seconds(t.Min), seconds(t.Max), cell{bar(before, t.Min, t.Max, longest), hue}, t.Source)
		before += t.Max
	}
	p.row(cell{"  sum", strong}, "", cell{seconds(w.Worst), strong}, "",
		cell{fmt.Sprintf("mean %s · half %s · 90%% %s · 99%% %s · 99.9%% %s", seconds(w.Mean), seconds(w.P50), seconds(w.P90), seconds(w.P99), seconds(w.P999)), strong})
	p.flush()
	if w.Dominant != "" && len(w.Terms) > 1 {
		p.say("  Longest: "+w.Dominant+".", "")
	}
	if w.Void != "" {
		p.say("  No bound holds: "+w.Void, warn)
	}
	for _, why := range w.VoidWhen {
		p.say("  Void by "+why, warn)
	}
}

// bar draws a term behind those before it: full for what it always takes, half for what it may take.
func bar(before, least, most, longest outlook.Seconds) string {
	if longest <= 0 {
		return ""
	}
	at := func(s outlook.Seconds) int { return int(float64(s)/float64(longest)*barWidth + 0.5) }
	from, to := at(before), at(before+most)
	if most > 0 && to == from {
		if from == barWidth {
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
	p.row(cell{"WHAT IF", strong}, cell{"PLANNED", dim}, cell{"MEAN", dim}, cell{"CRASH", dim}, cell{"MEAN", dim}, cell{"READS/S", dim}, cell{"BEATS/S", dim}, cell{"FALSE EVICTIONS/DAY", dim})
	for _, side := range []struct {
		name string
		o    outlook.Outlook
	}{{"  as it is", o}, {"  " + changes(o, after), after}} {
		s := side.o
		p.row(side.name, worst(s.Planned), seconds(s.Planned.Mean), worst(s.Crash), seconds(s.Crash.Mean), reads(s.Load), beats(s.Load), evictions(s.Load))
	}
	p.row("  gain", saved(o.Planned.Worst-after.Planned.Worst), saved(o.Planned.Mean-after.Planned.Mean), saved(o.Crash.Worst-after.Crash.Worst), saved(o.Crash.Mean-after.Crash.Mean), "", "", "")
	p.flush()
	for _, w := range []outlook.Path{after.Planned, after.Crash} {
		if w.Void != "" {
			p.say("  With it no bound holds: "+w.Void, warn)
		}
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
				all = append(all, t.Name+" "+seconds(t.Min)+".."+seconds(t.Max))
			}
		}
	}
	if len(all) == 0 {
		return "the same"
	}
	return strings.Join(all, ", ")
}

// trades draws what each change would buy and cost.
func trades(p *page, o outlook.Outlook) {
	if len(o.Trades) == 0 {
		return
	}
	p.say("", "")
	p.row(cell{"WHAT EACH CHANGE BUYS", strong}, cell{"PLANNED", dim}, cell{"CRASH", dim}, cell{"AND COSTS: READS/S", dim}, cell{"BEATS/S", dim}, cell{"FALSE EVICTIONS/DAY", dim}, "")
	p.row("  as it is", worst(o.Planned), worst(o.Crash), reads(o.Load), beats(o.Load), evictions(o.Load), "")
	for _, t := range o.Trades {
		p.row("  "+t.Setting+" "+t.From+" → "+t.To, saved(t.Planned), saved(t.Crash), reads(&t.Load), beats(&t.Load), evictions(&t.Load), t.Note)
	}
	p.flush()
	if o.Load != nil && o.Load.Assumed != "" {
		p.say("  "+o.Load.Assumed, dim)
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
