package offline

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eiderhq/eider/server/internal/harmless"
	"github.com/eiderhq/eider/server/internal/outlook"
)

// The measures of a picture, in pixels.
const (
	pictureWidth = 960
	margin       = 24
	barsFrom     = 112 // behind "planned" and "crash"
	barsTo       = 768 // before the figures
	barHeight    = 28
	rowHeight    = 38
	glyph        = 6.6 // how wide a letter of a bar is, about
	notesFit     = 122 // letters of a note in a line
	mostNoted    = 6   // systems in a picture that says of each what would void it
)

// style is how a picture looks, by day and by night. Letters in bars are light on dark by day, and the reverse.
const style = `text{fill:#1d2733}.bg{fill:#fbfcfe;stroke:#dfe5ee}.m{fill:#5b6878}.g{stroke:#e4e9f0}.b{font-weight:600}.w{fill:#a3480b;stroke:#fbfcfe;stroke-width:4px;paint-order:stroke}
.in{fill:#fff;font-size:12px}.al{fill:#000;fill-opacity:.3}.mean{fill:#1d2733;stroke:#fbfcfe;stroke-width:1.5}.v{fill:url(#void)}.vl{stroke:#fbfcfe}.open{stroke:#a3480b;stroke-width:2;fill:none}
.c0{fill:#2463a8}.c1{fill:#b4540a}.c2{fill:#2e7d4f}.c3{fill:#7d4aa8}.c4{fill:#b3345c}.c5{fill:#0f7480}.c6{fill:#776200}.c7{fill:#5d6b7e}.c8{fill:#9c3f2c}.c9{fill:#4653b8}.c10{fill:#4f7016}.c11{fill:#96407f}
@media (prefers-color-scheme:dark){text{fill:#e3e9f2}.bg{fill:#151b24;stroke:#2a3442}.m{fill:#9aa8ba}.g{stroke:#263040}.w{fill:#f2b27a;stroke:#151b24}
.in{fill:#10151d}.al{fill:#000;fill-opacity:.35}.mean{fill:#fff;stroke:#151b24}.vl{stroke:#151b24}.open{stroke:#f2b27a}
.c0{fill:#7db4ee}.c1{fill:#f0a35e}.c2{fill:#7fd19b}.c3{fill:#c79bf0}.c4{fill:#f28bab}.c5{fill:#63cdd3}.c6{fill:#d9c255}.c7{fill:#aab6c8}.c8{fill:#e79482}.c9{fill:#a3acf5}.c10{fill:#b0d070}.c11{fill:#e79ad3}}
`

// hues is how many colours there are: those of kinds, and a few for terms by hand.
const hues = 12

// drawing is a picture that grows downwards.
type drawing struct {
	strings.Builder
	y       float64
	longest float64 // seconds that the bars stand for
	palette palette
}

// picture draws systems as stacked bars, one below the other, on one scale.
func picture(all []outlook.Outlook) string {
	d := &drawing{y: 18}
	type system struct {
		o        outlook.Outlook
		name     string
		subtitle string
	}
	var systems []system
	for _, o := range all {
		systems = append(systems, system{o, o.Preset, o.Title})
		if o.WhatIf != nil {
			systems = append(systems, system{*o.WhatIf, o.Preset, "with " + changes(o, *o.WhatIf)})
		}
	}
	var paths []outlook.Path
	for _, s := range systems {
		paths = append(paths, s.o.Crash, s.o.Planned)
		d.longest = max(d.longest, time.Duration(s.o.Crash.Worst).Seconds(), time.Duration(s.o.Planned.Worst).Seconds())
	}
	d.palette = paletteOf(paths...)
	d.y += 22
	fmt.Fprintf(d, `<text x="%d" y="%.1f"><tspan class="b" font-size="17">How long a departed instance is still called</tspan><tspan class="m" dx="12">%s</tspan></text>`+"\n",
		margin, d.y, html.EscapeString(fleet(all[0].Fleet)))
	d.y += 16
	var grid strings.Builder
	for _, s := range systems {
		d.heading(s.name, s.subtitle)
		top := d.y - 5
		d.window("planned", s.o.Planned)
		d.window("crash", s.o.Crash)
		if when := s.o.Crash.VoidWhen; len(when) > 0 && s.o.Crash.Void == "" && len(systems) <= mostNoted {
			d.note("would be void if: " + when[0])
		}
		for _, x := range d.ticks() {
			fmt.Fprintf(&grid, `<path class="g" d="M%.1f %.1fV%.1f"/>`+"\n", d.at(x), top, d.y-4)
		}
		d.y += 8
	}
	d.scale()
	d.legend()
	height := d.y + 8
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" font-family="ui-sans-serif, system-ui, 'Segoe UI', Roboto, sans-serif" font-size="13" role="img" aria-label="%s">
<style>%s</style>
<defs><pattern id="void" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="vl" d="M0 0V8" stroke-width="3" stroke-opacity=".45"/></pattern></defs>
<rect class="bg" x=".5" y=".5" width="%d" height="%.0f" rx="10"/>
%s%s</svg>
`, pictureWidth, height, html.EscapeString(described(all)), style, pictureWidth-1, height-1, grid.String(), d.String())
}

// described says in words what a picture shows, for who doesn't see it.
func described(all []outlook.Outlook) string {
	var parts []string
	for _, o := range all {
		name := o.Preset
		if name == "" {
			name = o.Title
		}
		parts = append(parts, fmt.Sprintf("%s: planned at most %s, crash at most %s", name, seconds(o.Planned.Worst), seconds(o.Crash.Worst)))
	}
	return "How long a departed instance is still called. " + strings.Join(parts, "; ")
}

func (d *drawing) text(class string, x, y float64, anchor, text string) {
	fmt.Fprintf(d, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(harmless.Text(text)))
}

func (d *drawing) heading(name, subtitle string) {
	d.y += 20
	if name == "" {
		d.text("b", margin, d.y, "start", subtitle)
	} else {
		fmt.Fprintf(d, `<text x="%d" y="%.1f"><tspan class="b" font-size="15">%s</tspan><tspan class="m" dx="10">%s</tspan></text>`+"\n",
			margin, d.y, html.EscapeString(harmless.Text(name)), html.EscapeString(harmless.Text(subtitle)))
	}
	d.y += 12
}

// at is where a moment lies.
func (d *drawing) at(s float64) float64 {
	if d.longest == 0 {
		return barsFrom
	}
	return barsFrom + s/d.longest*(barsTo-barsFrom)
}

// window draws one bar, with its figures behind it.
func (d *drawing) window(kind string, w outlook.Path) {
	middle := d.y + barHeight/2 + 4.5
	d.text("m", barsFrom-10, middle, "end", kind)
	fmt.Fprintf(d, `<g>`)
	var before float64
	for _, t := range w.Terms {
		if t.Max > 0 {
			d.segment(t, before, w.Void != "")
		}
		before += time.Duration(t.Max).Seconds()
	}
	d.WriteString("</g>\n")
	end := d.at(before)
	if w.Void != "" {
		fmt.Fprintf(d, `<path class="open" d="M%.1f %.1fh14m-5 -5l5 5l-5 5"><title>%s</title></path>`+"\n", end+5, d.y+barHeight/2, html.EscapeString("no bound holds: "+w.Void))
		end += 20
	}
	if w.Mean > 0 && w.Mean < w.Worst {
		x := d.at(time.Duration(w.Mean).Seconds())
		fmt.Fprintf(d, `<path class="mean" d="M%.1f %.1fl5.5 9h-11z"><title>%s on average</title></path>`+"\n", x, d.y+barHeight-2, seconds(w.Mean))
	}
	figure, besides := seconds(w.Worst), "mean "+seconds(w.Mean)
	if w.Void != "" {
		figure, besides = "no bound", "else "+seconds(w.Worst)
	}
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f"><tspan class="b" font-size="14">%s</tspan><tspan class="m" dx="7">%s</tspan></text>`+"\n",
		end+10, middle, html.EscapeString(figure), html.EscapeString(besides))
	d.y += rowHeight
	if w.Void != "" {
		d.note("no bound holds: " + w.Void)
	}
}

// segment draws a term: a strip at its foot for what it always takes, its name in it where there is room.
func (d *drawing) segment(t outlook.Term, before float64, void bool) {
	least, most := time.Duration(t.Min).Seconds(), time.Duration(t.Max).Seconds()
	x, to := d.at(before), d.at(before+most)
	width := max(to-x-1, 1.5) // a gap between two; never nothing
	fmt.Fprintf(d, `<g><title>%s</title><rect class="c%d" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="3"/>`,
		html.EscapeString(harmless.Text(t.Name+", "+span(t)+": "+t.Source)), d.palette.of(t.Name), x, d.y, width, barHeight)
	if least > 0 && width > 4 {
		fmt.Fprintf(d, `<rect class="al" x="%.1f" y="%.1f" width="%.1f" height="3"/>`, x, d.y+barHeight-3, max(width*least/most, 1.5))
	}
	if void {
		fmt.Fprintf(d, `<rect class="v" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="3"/>`, x, d.y, width, barHeight)
	}
	for _, label := range []string{t.Name + " " + seconds(t.Max), t.Name, seconds(t.Max)} {
		if !void && float64(utf8.RuneCountInString(label))*glyph+10 < width {
			fmt.Fprintf(d, `<text class="in" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x+width/2, d.y+barHeight/2+4, html.EscapeString(harmless.Text(label)))
			break
		}
	}
	d.WriteString("</g>")
}

// note writes a sentence below a bar, over as many lines as it needs.
func (d *drawing) note(text string) {
	line := ""
	flush := func() {
		d.text("w", barsFrom, d.y+10, "start", line)
		d.y += 17
	}
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > notesFit {
			flush()
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	flush()
	d.y += 10
}

// ticks are the moments that the scale names.
func (d *drawing) ticks() (all []float64) {
	step := tick(d.longest)
	for s := 0.0; s <= d.longest*1.0001 && step > 0; s += step {
		all = append(all, s)
	}
	return all
}

// scale writes them below all bars.
func (d *drawing) scale() {
	for _, s := range d.ticks() {
		d.text("m", d.at(s), d.y+6, "middle", seconds(outlook.Seconds(s*float64(time.Second))))
	}
	d.y += 26
}

// tick is a round time of which a scale holds four to eight.
func tick(longest float64) float64 {
	if longest <= 0 {
		return 0
	}
	for _, s := range []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400} {
		if longest/s <= 8 {
			return s
		}
	}
	return math.Ceil(longest/86400/8) * 86400
}

// legend names the colours.
func (d *drawing) legend() {
	x := float64(margin)
	next := func(width float64) {
		if x+width > pictureWidth-margin {
			x, d.y = margin, d.y+22
		}
	}
	for _, e := range d.palette.entries {
		lines := wrap(e.String(), notesFit)
		width := 34 + float64(utf8.RuneCountInString(lines[0]))*6.7
		next(width)
		fmt.Fprintf(d, `<rect class="c%d" x="%.1f" y="%.1f" width="12" height="12" rx="3"/>`, e.hue, x, d.y)
		for i, line := range lines {
			if i > 0 {
				d.y += 18
			}
			d.text("", x+18, d.y+11, "start", line)
		}
		if x += width; len(lines) > 1 {
			x = pictureWidth
		}
	}
	next(100)
	fmt.Fprintf(d, `<path class="mean" d="M%.1f %.1fl5.5 9h-11z"/>`, x+6, d.y+1)
	d.text("m", x+18, d.y+11, "start", "mean")
	x += 66
	next(150)
	fmt.Fprintf(d, `<rect class="m" x="%.1f" y="%.1f" width="12" height="12" rx="3"/><rect class="al" x="%.1f" y="%.1f" width="12" height="3"/>`, x, d.y, x, d.y+9)
	d.text("m", x+18, d.y+11, "start", "at least that long")
	d.y += 22
}
