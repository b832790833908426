package offline

import (
	"strings"

	"github.com/eiderhq/eider/server/internal/outlook"
)

// halfBar is how wide a bar is where two stand in a row; half as wide where there is little room.
const halfBar = 16

// drawComparison writes several systems side by side, one line each, and below them what they don't promise.
func drawComparison(p *page, all []outlook.Outlook) {
	drawSystems(p, all, false)
	for _, o := range all {
		for _, path := range []struct {
			kind string
			w    outlook.Path
		}{{"planned", o.Planned}, {"crash", o.Crash}} {
			if path.w.Void != "" {
				p.say(o.Preset+", "+path.kind+": no bound holds: "+path.w.Void, warn)
			}
		}
		if len(o.Crash.VoidWhen) > 0 && o.Crash.Void == "" {
			p.say(o.Preset+", crash: would be void if: "+strings.Join(o.Crash.VoidWhen, "; or if: "), dim)
		}
	}
}

// drawSystems writes the table, with what each system is or with what it costs.
func drawSystems(p *page, all []outlook.Outlook, titles bool) {
	var longest outlook.Seconds
	for _, o := range all {
		longest = max(longest, o.Planned.Worst, o.Crash.Worst)
	}
	p.say("How long a departed instance is still called, at the worst and on average, for "+fleet(all[0].Fleet)+":", strong)
	p.say("", "")
	heading := []any{cell{"SYSTEM", strong}, cell{"PLANNED", strong}, cell{"MEAN", dim}, "", cell{"CRASH", strong}, cell{"MEAN", dim}, ""}
	if titles {
		heading = append(heading, cell{"WHAT IT IS", dim})
	} else {
		heading = append(heading, cell{"READS/S", dim}, cell{"BEATS/S", dim})
	}
	p.row(heading...)
	width := halfBar
	if p.narrow() {
		width /= 2
	}
	for _, o := range all {
		row := []any{o.Preset, worst(o.Planned), seconds(o.Planned.Mean), cell{stripe(o.Planned.Worst, longest, width), plain},
			worst(o.Crash), seconds(o.Crash.Mean), cell{stripe(o.Crash.Worst, longest, width), warn}}
		if titles {
			row = append(row, o.Title)
		} else {
			row = append(row, reads(o.Load), beats(o.Load))
		}
		p.row(row...)
	}
	p.flush()
}

// stripe draws a length over so many columns, never as nothing.
func stripe(s, longest outlook.Seconds, width int) string {
	if s <= 0 || longest <= 0 {
		return ""
	}
	eighths := max(int(float64(s)/float64(longest)*float64(width)*8+0.5), 1)
	rest := ""
	if eighths%8 > 0 {
		rest = string([]rune("▏▎▍▌▋▊▉")[eighths%8-1])
	}
	return strings.Repeat("█", eighths/8) + rest
}

// drawPresets is what a newcomer sees first.
func drawPresets(p *page, all []outlook.Outlook) {
	drawSystems(p, all, true)
	p.say("", "")
	p.say("PLANNED: the instance says that it leaves. CRASH: it can't. All with their defaults. Go on with", "")
	p.row("  eider window --preset eureka", "what to set, and why")
	p.row("  eider window --preset eureka --what-if client-cache=5s", "before and after")
	p.row("  eider window --compare eureka,eider --svg window.svg", "a picture")
	p.row("  eider window --term 'lease=60s..90s' --term cache=30s", "your own terms")
	p.row("  eider window --help", "the rest")
}
