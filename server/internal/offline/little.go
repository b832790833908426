package offline

import (
	"fmt"

	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/window"
)

// little is what a rate of requests means, by Little's law, and for a window.
type little struct {
	PerSecond outlook.Rate    `json:"requests_per_second"`
	Latency   outlook.Seconds `json:"latency_s"`
	InFlight  outlook.Rate    `json:"in_flight"`
	Failing   outlook.Rate    `json:"in_flight_when_failing_fast"` // in a tenth of the latency
	Callers   int             `json:"callers"`                     // who make these requests, all alike
	Pool      int             `json:"pool,omitempty"`              // of each of them
	FillsIn   outlook.Seconds `json:"fills_in_s,omitempty"`        // when all requests hang
	Gone      *toTheGone      `json:"to_the_departed,omitempty"`
}

// toTheGone is how many requests go to departed instances until the last caller knows, if they are spread evenly.
type toTheGone struct {
	PlannedMean outlook.Rate `json:"planned_mean"`
	PlannedMost outlook.Rate `json:"planned_worst"`
	CrashMean   outlook.Rate `json:"crash_mean"`
	CrashMost   outlook.Rate `json:"crash_worst"`
}

// littleOf reckons for a rate that so many callers make together.
func littleOf(p window.Pool, callers int, o *outlook.Outlook) little {
	callers = max(callers, 1)
	l := little{Callers: callers, PerSecond: outlook.Rate(p.PerSecond), Latency: outlook.Seconds(p.Latency), InFlight: outlook.Rate(p.InFlight()), Failing: outlook.Rate(p.At(p.Latency / 10).InFlight()), Pool: p.Size}
	if p.Size > 0 {
		l.FillsIn = outlook.Seconds(window.Pool{PerSecond: p.PerSecond / float64(callers), Size: p.Size}.FillsIn())
	}
	if o == nil {
		return l
	}
	one := outlook.Rate(p.PerSecond) / outlook.Rate(o.Fleet.Instances) / 1e9
	lost := one * outlook.Rate(o.Fleet.Lost)
	l.Gone = &toTheGone{one * outlook.Rate(o.Planned.Mean), one * outlook.Rate(o.Planned.Worst), lost * outlook.Rate(o.Crash.Mean), lost * outlook.Rate(o.Crash.Worst)}
	return l
}

func drawLittle(pg *page, l little, o *outlook.Outlook) {
	pg.say(fmt.Sprintf("%s requests/s of %s each mean %s in flight.", rate(l.PerSecond), seconds(l.Latency), rate(l.InFlight)), strong)
	pg.say(fmt.Sprintf("A failure in a tenth of that time holds %s; a hang holds whatever there is: slow is worse than down.", rate(l.Failing)), "")
	if l.Pool > 0 {
		share := "if one caller makes all of these requests"
		if l.Callers > 1 {
			share = fmt.Sprintf("at one of %s who make as many each", count(l.Callers, "caller"))
		}
		pg.say(fmt.Sprintf("A hang fills a pool of %d in %s, %s.", l.Pool, seconds(l.FillsIn), share), strong)
	}
	if l.Gone != nil {
		pg.say(fmt.Sprintf("Spread evenly, %s requests on average and %s at the worst go to an instance after it said that it leaves%s: that many it must still answer.", rate(l.Gone.PlannedMean), rate(l.Gone.PlannedMost), unlessVoid(o.Planned)), "")
		pg.say(fmt.Sprintf("To %s that crashed go %s on average and %s at the worst%s: those fail, or are tried elsewhere.", count(o.Fleet.Lost, "instance"), rate(l.Gone.CrashMean), rate(l.Gone.CrashMost), unlessVoid(o.Crash)), "")
	}
}

// unlessVoid takes back what doesn't hold now.
func unlessVoid(w outlook.Path) string {
	if w.Void == "" {
		return ""
	}
	return " if the bound held, and as it doesn't nobody can say how many"
}
