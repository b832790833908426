package window_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eiderhq/eider/window"
)

func TestGoldens(t *testing.T) {
	for _, p := range window.Presets() {
		golden(t, filepath.Join("testdata", "presets", p.Name+".txt"), text(t, p))
	}
}

// text is all that a preset says with its defaults.
func text(t *testing.T, p window.Preset) string {
	t.Helper()
	var b strings.Builder
	f := derive(t, p.Name, window.Fleet{})
	fmt.Fprintf(&b, "%s: %s\n%s\n\n", p.Name, p.Title, p.About)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tDEFAULT\tWHAT\tSOURCE")
	for _, s := range p.Settings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, s.Default, s.What, s.Source)
	}
	w.Flush() // a Builder takes everything
	for _, path := range []struct {
		name string
		window.Window
	}{{"PLANNED", f.Planned}, {"CRASH", f.Crash}} {
		fmt.Fprintf(&b, "\n%s: %s\n%s", path.name, figures(path.Terms), path.Terms.Table())
		for _, when := range path.VoidWhen {
			fmt.Fprintf(&b, "void when: %s\n", when)
		}
	}
	fmt.Fprintf(&b, "\nLOAD: %s\n\n", load(f.Load))
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TRADE\tFROM\tTO\tPLANNED\tCRASH\tNOTE")
	for _, trade := range trades(t, p.Name, window.Fleet{}) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", trade.Setting, trade.From, trade.To, -trade.Planned, -trade.Crash, trade.Note)
	}
	w.Flush()
	return b.String()
}

// figures are rounded to what a bin of the convolution leaves certain.
func figures(terms window.Sum) string {
	spread := spread(terms)
	q := func(p float64) string { return about(spread.Quantile(p)) }
	return fmt.Sprintf("worst %s, mean %s, p50 %s, p90 %s, p99 %s", terms.Worst(), terms.Mean().Round(time.Millisecond), q(0.5), q(0.9), q(0.99))
}

// spread is fine enough for what is over in milliseconds.
func spread(terms window.Sum) window.Spread {
	return terms.Spread(max(min(10*time.Millisecond, terms.Worst()/1000), time.Microsecond))
}

func load(l window.Load) string {
	return fmt.Sprintf("%.3g reads/s, %.3g beats/s, %.3g healthy evicted/day (%s)", l.ReadsPerSecond, l.BeatsPerSecond, l.FalseEvictionsPerDay, l.Assumed)
}

func trades(t *testing.T, name string, fleet window.Fleet, set ...string) []window.Trade {
	t.Helper()
	out, err := lookup(t, name).Trades(pairs(set...), fleet)
	if err != nil {
		t.Fatalf("%s with %v: %v", name, set, err)
	}
	return out
}
