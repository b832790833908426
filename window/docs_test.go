package window_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/window"
)

// docs/presets.md is what the code says, and nothing else.
func TestDocs(t *testing.T) {
	golden(t, filepath.Join("..", "docs", "presets.md"), document(t))
}

const preface = `# Presets: what a registry's window comes to

Made from the code by ` + "`go test ./window -update`" + `; a test holds it to that. What a window is, and how
to use this: [window.md](window.md). Every number follows from a setting that has its default from the named source, a file of the
product's own code or a page of its documentation; ` + "`--set eureka.client-cache=5s`" + ` replaces it. Terms run on clocks of their own, so
that worst cases add up. A setting that is marked *given* is a fact about the fleet or the moment, or a constant: it can be set, to see what
would be, but nobody tunes it.

The load is that of 50 callers and 10 instances, 1 of which is lost. *Healthy evicted a day* are instances that are given up although they live, at most:
each silence counts that outlasts a registry's patience if it begins at the worst moment. How long processes that live are silent is an assumption and no
measurement: 100 ms and more once an hour, half as often for twice as long.

`

func document(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(preface)
	table(&b, "preset", "planned, worst", "mean", "crash, worst", "mean", "reads/s", "beats/s", "healthy evicted a day")
	for _, p := range window.Presets() {
		f := derive(t, p.Name, window.Fleet{})
		row(&b, fmt.Sprintf("[%s](#%s)", p.Name, p.Name), secs(f.Planned.Terms.Worst()), secs(f.Planned.Terms.Mean()), secs(f.Crash.Terms.Worst()), secs(f.Crash.Terms.Mean()),
			digits(f.Load.ReadsPerSecond), digits(f.Load.BeatsPerSecond), digits(f.Load.FalseEvictionsPerDay))
	}
	for _, p := range window.Presets() {
		section(t, &b, p)
	}
	return b.String()
}

func section(t *testing.T, b *strings.Builder, p window.Preset) {
	t.Helper()
	f := derive(t, p.Name, window.Fleet{})
	tuned := map[string]window.Trade{}
	for _, trade := range trades(t, p.Name, window.Fleet{}) {
		tuned[trade.Setting] = trade
	}
	fmt.Fprintf(b, "\n## %s\n\n**%s.** %s\n\n", p.Name, p.Title, p.About)
	table(b, "path", "term", "best", "worst", "follows from")
	for _, path := range []struct {
		name string
		window.Window
	}{{"planned", f.Planned}, {"crash", f.Crash}} {
		for _, term := range path.Terms {
			row(b, path.name, term.Name, secs(term.Min), secs(term.Max), term.Source)
		}
		spread := spread(path.Terms)
		row(b, "**"+path.name+"**", fmt.Sprintf("mean %s, p50 %s, p99 %s", secs(path.Terms.Mean()), about(spread.Quantile(0.5)), about(spread.Quantile(0.99))),
			secs(path.Terms.Best()), "**"+secs(path.Terms.Worst())+"**", "void when: "+strings.Join(path.VoidWhen, "; or "))
	}
	b.WriteByte('\n')
	table(b, "setting", "default", "what it is", "set by", "from", "to", "planned", "crash", "that")
	for _, s := range p.Settings {
		trade, ok := tuned[s.Name]
		switch {
		case ok:
			row(b, "`"+s.Name+"`", s.Default.String(), s.What, keyed(s.Key), trade.From, trade.To, saved(trade.Planned), saved(trade.Crash), trade.Note)
		case s.Given():
			row(b, "`"+s.Name+"`", s.Default.String(), s.What, keyed(s.Key), "", "", "", "", "given")
		case s.Default.Kind == window.KindDuration && s.Default.Duration == 0:
			row(b, "`"+s.Name+"`", s.Default.String(), s.What, keyed(s.Key), "", "", "", "", "off")
		default:
			row(b, "`"+s.Name+"`", s.Default.String(), s.What, keyed(s.Key), "", "", "", "", "changes nothing as the others are")
		}
	}
}

func table(b *strings.Builder, columns ...string) {
	row(b, columns...)
	b.WriteString("|" + strings.Repeat("---|", len(columns)) + "\n")
}

func row(b *strings.Builder, cells ...string) {
	for _, cell := range cells {
		b.WriteString("| " + cell + " ")
	}
	b.WriteString("|\n")
}

// secs writes a duration as people compare them: seconds, or milliseconds below one.
func secs(d time.Duration) string {
	if d > 0 && d < time.Second {
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Round(10*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}

// about is for percentiles: they are known to a bin.
func about(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(100 * time.Millisecond)
	}
	return secs(d)
}

func saved(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return "−" + secs(d)
}

func digits(f float64) string {
	if f == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2g", f)
}

func keyed(key string) string {
	if key == "" {
		return ""
	}
	return "`" + key + "`"
}
