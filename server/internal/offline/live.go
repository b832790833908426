package offline

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/window"
)

// Live asks a registry for the windows of one of its services, as they are now.
type Live func(ctx context.Context, service string) (outlook.Live, error)

// ofService are the flags that mean nothing beside --service: what they say, the registry knows.
func ofService() []string {
	return []string{"preset", "compare", "set", "what-if", "term", "planned-term", "crash-term", "callers", "instances", "registry", "lost", "in-flight"}
}

// service answers with what a registry knows.
func (d Desk) service(ctx context.Context, ask Live, w *windowFlags, flags *pflag.FlagSet) error {
	var f faults
	f.alone(flags, "service", ofService()...)
	var pool *window.Pool
	if littled(flags) {
		pool = f.littles(flags, w)
	}
	if err := misuse(f...); err != nil {
		return err
	}
	l, err := ask(ctx, w.service)
	if err != nil {
		return err
	}
	if w.svg != "" {
		if err := d.picture(w.svg, []outlook.Outlook{l.Outlook}); err != nil || w.svg == "-" {
			return err
		}
	}
	answer := struct {
		outlook.Live
		Little *little `json:"little,omitempty"`
	}{Live: l}
	if pool != nil && l.Fleet.Instances > 0 {
		of := littleOf(*pool, l.Fleet.Callers, &l.Outlook)
		answer.Little = &of
	} else if pool != nil {
		of := littleOf(*pool, l.Fleet.Callers, nil)
		answer.Little = &of
	}
	if d.JSON() {
		return d.printJSON(answer)
	}
	p := d.page()
	drawLive(p, l)
	if answer.Little != nil {
		p.say("", "")
		drawLittle(p, *answer.Little, &l.Outlook)
	}
	return d.print(p.String())
}

// drawLive writes what a registry knows of one service: derived beside bound and measured, and whom a departure waits for.
func drawLive(p *page, l outlook.Live) {
	p.say(fmt.Sprintf("%s, as %s has it now: %s, %s", l.Service, l.Node, count(l.Fleet.Instances, "instance"), count(l.Fleet.Callers, "caller")), strong)
	if !l.Complete {
		p.say("The node started a moment ago: who hasn't attached to it yet is missing here.", warn)
	}
	for _, why := range l.Void {
		p.say("Bounds don't hold now: "+why, warn)
	}
	p.say("", "")
	if len(l.Callers) == 0 {
		p.say("Nobody calls it now: an instance that says that it leaves is let go at once.", "")
	} else {
		p.say("An instance that says that it leaves is still called "+bound(l.Planned), "")
	}
	if l.Bound > 0 {
		p.say("  Whoever calls it by then, its pause is over after "+seconds(l.Bound)+": its bound.", "")
	}
	p.say("  "+measured(l.Measured), good)
	p.say("One whose process ends is still called "+bound(l.Killed), "")
	p.say("One that falls silent is called until it is suspect: "+bound(l.Suspect), "")
	p.say("One whose host is lost stays listed "+bound(l.Crash), "")
	advise(p, l.Recommend)
	whom(p, l.Callers)
	longest := max(l.Planned.Worst, l.Killed.Worst, l.Suspect.Worst, l.Crash.Worst)
	for _, path := range []struct {
		heading string
		w       outlook.Path
	}{{"PLANNED DEPARTURE", l.Planned}, {"PROCESS ENDS", l.Killed}, {"SILENCE", l.Suspect}, {"HOST LOST", l.Crash}} {
		if len(path.w.Terms) == 0 { // nobody calls: there is nothing to derive a planned departure from
			continue
		}
		terms(p, fmt.Sprintf("%-*s", liveNames, path.heading), path.w, longest)
	}
	past(p, l.Measured)
	if load := l.Load; load != nil {
		p.say("", "")
		p.say(fmt.Sprintf("It costs %s reads/s, %s beats/s, %s healthy instances evicted a day (%s).", rate(load.Reads), rate(load.Beats), rate(load.FalseEvictions), load.Assumed), dim)
	}
}

// liveNames is how wide the names of a registry's own terms are set, in all its windows alike.
const liveNames = 25

// measured says what departures took, beside their bounds.
func measured(m outlook.Measured) string {
	if m.Drains == 0 {
		return "No departure has been measured yet."
	}
	text := fmt.Sprintf("Measured in %s: half within %s, 99%% within %s, the longest %s", count(m.Drains, "departure"), seconds(m.P50), seconds(m.P99), seconds(m.Max))
	if m.Capped > 0 {
		text += fmt.Sprintf("; a cap ended %d of them", m.Capped)
	}
	if m.Exceeded > 0 {
		return text + fmt.Sprintf("; %d took longer than their bound.", m.Exceeded)
	}
	return text + "; none took longer than its bound."
}

// whom says who a departure waits for, by how they let go.
func whom(p *page, callers []outlook.Callers) {
	if len(callers) == 0 {
		return
	}
	p.say("", "")
	p.row(cell{"CALLERS", strong}, cell{"HOW MANY", dim}, cell{"AT MOST", dim}, cell{"BY", dim})
	for _, c := range callers {
		many := "nobody knows"
		if c.Count > 0 {
			many = fmt.Sprint(c.Count)
		}
		var by []string
		for _, t := range c.Terms {
			by = append(by, t.Name+" "+span(t))
		}
		p.row("  "+c.Kind, many, seconds(c.Worst), strings.Join(by, " + "))
	}
	p.flush()
}

// past lists the last departures, the newest first.
func past(p *page, m outlook.Measured) {
	if len(m.Pauses) == 0 {
		return
	}
	p.say("", "")
	p.row(cell{"LAST DEPARTURES", strong}, cell{"TOOK", dim}, cell{"BOUND", dim}, cell{"ENDED BY", dim})
	for _, one := range m.Pauses {
		took := cell{text: seconds(one.Took)}
		switch {
		case one.Took > one.Bound:
			took.hue = warn
		case one.Took == 0:
			took.text = "at once"
		}
		p.row("  "+one.ID, took, seconds(one.Bound), one.Ended)
	}
	p.flush()
}
