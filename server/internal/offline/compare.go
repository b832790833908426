package offline

import (
	"strings"

	"github.com/eiderhq/eider/server/internal/outlook"
)

// halfBar is how wide a bar is where two stand in a row.
const halfBar = 16

// drawComparison writes several systems side by side, one line each.
func drawComparison(p *page, all []outlook.Outlook) {
	var longest outlook.Seconds
	for _, o := range all {
		longest = max(longest, o.Planned.Worst, o.Crash.Worst)
	}
	p.say("How long a departed instance is still called, at the worst and on average, for "+fleet(all[0].Fleet)+":", strong)
	p.say("", "")
	p.row(cell{"SYSTEM", strong}, cell{"PLANNED", strong}, cell{"MEAN", dim}, "", cell{"CRASH", strong}, cell{"MEAN", dim}, "", cell{"READS/S", dim}, cell{"BEATS/S", dim}, cell{"HOLDS", dim})
	for _, o := range all {
		p.row(o.Preset, worst(o.Planned), seconds(o.Planned.Mean), cell{stripe(o.Planned.Worst, longest), plain},
			worst(o.Crash), seconds(o.Crash.Mean), cell{stripe(o.Crash.Worst, longest), warn}, reads(o.Load), beats(o.Load), holds(o))
	}
	p.flush()
}

// stripe draws a length, never as nothing.
func stripe(s, longest outlook.Seconds) string {
	eighths := 0
	if longest > 0 {
		eighths = max(int(float64(s)/float64(longest)*halfBar*8+0.5), 1)
	}
	if s <= 0 {
		return ""
	}
	rest := ""
	if eighths%8 > 0 {
		rest = string([]rune("▏▎▍▌▋▊▉")[eighths%8-1])
	}
	return strings.Repeat("█", eighths/8) + rest
}

// holds says whether the bounds do, in a few words.
func holds(o outlook.Outlook) string {
	switch {
	case o.Planned.Void != "":
		return "no: " + o.Planned.Void
	case o.Crash.Void != "":
		return "planned; a crash's doesn't: " + o.Crash.Void
	case len(o.Crash.VoidWhen) > 0:
		return "yes; void by " + o.Crash.VoidWhen[0]
	case len(o.Planned.VoidWhen) > 0:
		return "yes; void by " + o.Planned.VoidWhen[0]
	}
	return "yes"
}

// drawPresets is what a newcomer sees first.
func drawPresets(p *page, all []outlook.Outlook) {
	drawComparison(p, all)
	p.say("", "")
	p.say("Each is reckoned with its defaults; void: no bound holds. Go on with", "")
	p.row("  eider window --preset eureka", "term by term, what to set, and what each change buys and costs")
	p.row("  eider window --preset eureka --what-if client-cache=5s", "before and after")
	p.row("  eider window --compare eureka,kubernetes,eider --svg window.svg", "a picture")
	p.row("  eider window --term 'lease=uniform(60s,90s)' --term 'cache=30s'", "your own terms")
	p.row("  eider window --help", "everything else")
}
