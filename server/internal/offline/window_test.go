package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/window"
)

var update = flag.Bool("update", false, "write the golden files, docs/window.md's examples and its pictures anew")

// place is what a command runs in.
type place struct {
	colour bool
	width  int
	live   Live
}

// run runs the window command as a person types it: words are parted by blanks, but within quotes.
func (at place) run(line string) (out string, err error) {
	args, asJSON := []string{}, false
	for i, part := range strings.Split(line, "'") {
		switch {
		case i%2 == 1:
			args = append(args, part)
		default:
			args = append(args, strings.Fields(part)...)
		}
	}
	var text bytes.Buffer
	root := &cobra.Command{Use: "eider", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().BoolVar(&asJSON, "json", false, "")
	root.SetOut(io.Discard)
	root.AddCommand(Window(Desk{Out: &text, JSON: func() bool { return asJSON }, Colour: func() bool { return at.colour }, Width: func() int { return at.width }}, at.live))
	root.SetArgs(append([]string{"window"}, args...))
	err = root.Execute()
	return text.String(), err
}

// story runs commands and returns what they say: "!" is an error.
func (at place) story(lines ...string) []byte {
	var all bytes.Buffer
	for _, line := range lines {
		out, err := at.run(line)
		all.WriteString(strings.TrimSpace("$ eider window "+line) + "\n" + out)
		if err != nil {
			for fault := range strings.Lines(err.Error()) {
				all.WriteString("! " + fault)
			}
			all.WriteByte('\n')
		}
		all.WriteByte('\n')
	}
	return all.Bytes()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, diff)
	}
}

// answer is what the command says as JSON.
func answer(t *testing.T, line string) (o outlook.Outlook) {
	t.Helper()
	out, err := place{}.run(line + " --json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &o)
	}
	if err != nil {
		t.Fatalf("eider window %s: %v\n%s", line, err, out)
	}
	return o
}

// TestKnowTheNumber: what everybody can check with a pencil, term by term and with where each number is from.
func TestKnowTheNumber(t *testing.T) {
	for _, row := range []struct {
		preset                      string
		planned, crash, plannedMean float64
		crashMean                   float64
		terms                       int // of a crash
	}{
		{"eureka-textbook", 30, 180, 15, 120, 3},
		{"eureka", 95.5, 335, 47.75, 242.5, 5},
		{"eureka-netflix", 60.5, 300, 30.25, 225, 4},
	} {
		var raw struct {
			Planned, Crash struct {
				Worst float64 `json:"worst_s"`
				Mean  float64 `json:"mean_s"`
				Terms []struct {
					Name, Source string
					Min          float64 `json:"min_s"`
					Max          float64 `json:"max_s"`
				}
			}
		}
		out, err := place{}.run("--preset " + row.preset + " --json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		p, c := raw.Planned, raw.Crash
		if p.Worst != row.planned || c.Worst != row.crash || p.Mean != row.plannedMean || c.Mean != row.crashMean || len(c.Terms) != row.terms {
			t.Errorf("%s: planned %v, mean %v; crash %v, mean %v, of %d terms; want %+v", row.preset, p.Worst, p.Mean, c.Worst, c.Mean, len(c.Terms), row)
		}
		for _, terms := range [][]struct {
			Name, Source string
			Min          float64 `json:"min_s"`
			Max          float64 `json:"max_s"`
		}{p.Terms, c.Terms} {
			for _, term := range terms {
				if term.Name == "" || !strings.Contains(term.Source, row.preset+".") || term.Max < term.Min {
					t.Errorf("%s: the term %+v has no name, or doesn't say which setting it is", row.preset, term)
				}
			}
		}
	}
}

// TestEveryPreset has each of its terms and numbers shown; a few are shown as a person sees them. What the numbers are
// is held in docs/presets.md.
func TestEveryPreset(t *testing.T) {
	for _, name := range []string{"eureka", "kubernetes"} {
		golden(t, filepath.Join("testdata", "window", name+".txt"), place{}.story("--preset "+name))
	}
	list, err := place{}.run("")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range window.Presets() {
		out, err := place{}.run("--preset " + p.Name)
		if err != nil {
			t.Fatal(err)
		}
		o := answer(t, "--preset "+p.Name)
		says := []string{p.Name + ": " + p.Title, seconds(o.Planned.Worst), seconds(o.Crash.Worst), seconds(o.Crash.P999), "Set: serve on for " + seconds(o.Recommend.Pause)}
		if o.Recommend.Sleep == 0 {
			says[4] = "Set: no sleep (the pause may last " + seconds(o.Recommend.Pause) + ", and its end is told)"
		}
		if told := p.Name == "eider"; (o.Recommend.Sleep == 0) != told {
			t.Errorf("%s has its end told: %v; want %v", p.Name, !told, told)
		}
		for _, term := range append(o.Planned.Terms, o.Crash.Terms...) {
			says = append(says, "  "+term.Name, term.Source)
		}
		for _, trade := range o.Trades {
			says = append(says, trade.Setting+" "+trade.From+" → "+trade.To, trade.Note)
		}
		for _, part := range append(says, append(o.Planned.VoidWhen, o.Crash.VoidWhen...)...) {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(part), " ")) {
				t.Errorf("eider window --preset %s doesn't say %q", p.Name, part)
			}
		}
		if !strings.Contains(list, "\n"+p.Name+" ") || !strings.Contains(list, p.Title) {
			t.Errorf("the list of presets doesn't say %q", p.Title)
		}
	}
}

func TestQuestions(t *testing.T) {
	golden(t, filepath.Join("testdata", "window", "questions.txt"), place{}.story(
		"--preset eureka --set client-cache=5s --what-if eureka.lease=30s --what-if renew=10s",
		"--preset eureka --instances 5",
		"--preset eureka --callers 2000 --rps 500 --latency 50ms --pool 200",
		"--preset kubernetes --term 'open connections=uniform(0s,60s)' --in-flight 5s",
		"--term 'lease=uniform(60s,90s)' --planned-term poll=0s..10s --crash-term 'reconnect=backoff(50ms,2s,2,1,5)' --what-if lease=20s",
		"--rps 500 --latency 50ms --pool 200",
		"--rps 500 --latency 50ms --pool 50 --callers 20",
		"--preset eureka --instances 5 --rps 500 --latency 50ms",
		"--preset eureka --instances 5 --registry 400 --lost 2",
		"--rps 0.5 --latency 2s",
		"--preset consul-ttl --instances 20 --lost 3 --rps 1000 --latency 20ms",
		"--compare eureka,kubernetes,eider",
		"--compare eureka,eureka-netflix,etcd --set client-cache=5s --set etcd.ttl=10s --instances 4",
	))
	golden(t, filepath.Join("testdata", "window", "questions.json"), place{}.story(
		"--preset eureka-textbook --what-if sweep=5s --json", "--rps 500 --latency 50ms --pool 200 --json"))
	golden(t, filepath.Join("testdata", "window", "colours.txt"), place{colour: true, width: 80}.story("--compare eureka,kubernetes", "--preset kubernetes", "--preset eureka --instances 5"))
}

// TestFaultsAreToldAtOnce, as misuse, and nothing is answered beside them.
func TestFaultsAreToldAtOnce(t *testing.T) {
	lines := []string{
		"--callers none --instances 0 --lost 2.5 --in-flight soon --rps many --pool -1 --term lease --crash-term 'x=ufo(1s)' --set a --what-if =b",
		"--preset eureka --compare etcd --term a=1s --what-if b=2s",
		"--set a=1s --what-if b=2s",
		"--preset eurika",
		"--preset nosuch",
		"--preset consul",
		"--preset eureka,kubernetes --set eureka.client-cache=5s",
		"--compare eureka,etcd,eureka,eureka",
		"--preset eureka --set client-cashe=5s --set lease=long --set sweep=-1s",
		"--preset eureka --what-if client-cashe=5s",
		"--preset eureka --set etcd.lease=5s",
		"--compare eureka,ectd,,eider --set eureka.client-cache=5s",
		"--compare eureka,etcd --set nothing-like-it=5s",
		"--lost 11",
		"--lost 3 --instances 2 --preset eider",
		"--term a=1s --what-if b=2s --what-if a=soon",
		"--rps 500",
		"--preset eureka --registry 5",
		"--registry some --preset eureka",
		"--rps 0 --latency 0s",
		"--rps NaN --latency 1s",
		"--rps 500 --latency 50ms --svg x.svg",
		"--preset etcd --svg - --json",
		"--compare eureka,foo",
		"eureka",
	}
	for _, line := range lines {
		out, err := place{}.run(line)
		if _, ok := errors.AsType[*Misuse](err); !ok || out != "" {
			t.Errorf("eider window %s: %v, and it answers %q; want a misuse alone", line, err, out)
		}
	}
	golden(t, filepath.Join("testdata", "window", "faults.txt"), place{}.story(lines...))
}

// TestSettingsFindTheirPreset: one may write the preset's name before, or its family's, and among several a bare name is
// meant for those that have it.
func TestSettingsFindTheirPreset(t *testing.T) {
	for line, want := range map[string]string{"--preset eureka --set client-cache=5s": "310s", "--preset eureka --set eureka.client-cache=5s": "310s",
		"--preset eureka-netflix --set eureka.client-cache=5s": "275s", "--preset eureka-netflix --set eureka-netflix.client-cache=5s": "275s",
		"--preset eureka --set eureka.client.registry-fetch-interval-seconds=5": "310s", "--preset eureka --set EUREKA_CLIENT_REGISTRYFETCHINTERVALSECONDS=5": "310s"} {
		if o := answer(t, line); seconds(o.Crash.Worst) != want {
			t.Errorf("eider window %s: a crash of %s, want %s", line, seconds(o.Crash.Worst), want)
		}
	}
	out, err := place{}.run("--compare eureka,etcd --set client-cache=5s --json")
	if err != nil || !strings.Contains(out, `"worst_s": 310`) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNothingSteersATerminalOrAPage: a term's name comes from whoever pasted it.
func TestNothingSteersATerminalOrAPage(t *testing.T) {
	o := outlook.Of(window.Forecast{Planned: window.Window{Terms: window.Sum{window.Fixed("<b>&\x1b[2J", 1e9, `"src"<script>`)}}}, window.Fleet{}, 0)
	o.Preset, o.Title = "</svg><script>", "\x1b]0;x\a"
	p := &page{}
	drawOutlook(p, o)
	for _, text := range []string{p.String(), picture([]outlook.Outlook{o})} {
		if strings.ContainsAny(text, "\x1b\a") {
			t.Errorf("control characters pass: %q", text)
		}
	}
	if text := picture([]outlook.Outlook{o}); strings.Contains(text, "<script>") || strings.Contains(text, "<b>") {
		t.Errorf("markup passes: %s", text)
	}
}

// TestNoDigitsOfArithmetic: of a number in JSON only what is meant is written, in each preset and beside Little's law.
func TestNoDigitsOfArithmetic(t *testing.T) {
	noise := regexp.MustCompile(`[0-9]\.[0-9]{7,}|[0-9]e[-+0-9]+[0-9]*\.[0-9]{6,}`)
	for _, p := range window.Presets() {
		out, err := place{}.run("--preset " + p.Name + " --rps 333.3 --latency 17ms --pool 200 --json")
		if found := noise.FindString(out); err != nil || found != "" {
			t.Errorf("eider window --preset %s writes %s (%v)", p.Name, found, err)
		}
	}
}

// TestWords of delays and rates.
func TestWords(t *testing.T) {
	for d, want := range map[float64]string{0: "0s", 1e3: "1µs", 5e5: "500µs", 1.62e6: "1.6ms", 5e6: "5ms", 5e8: "500ms", 1e9: "1s", 1.5e9: "1.5s", 9.999e9: "10s", 47.75e9: "47.8s", 335e9: "335s",
		600e9: "10m", 630e9: "10m30s", 900e9: "15m", 3600e9: "1h", 4500e9: "1h15m", 7200e9: "2h", 36000e9: "10h", 86400e9: "24h", -15e9: "-15s"} {
		if got := seconds(outlook.Seconds(d)); got != want {
			t.Errorf("%v ns is written %s, want %s", d, got, want)
		}
	}
	for d, want := range map[float64]int64{0: 0, 1e6: 1, 1e9: 1, 97.5e9: 98} {
		if got := whole(outlook.Seconds(d)); got != want {
			t.Errorf("%v ns are %d whole seconds, want %d: a pause is never cut short", d, got, want)
		}
	}
	if got := seconds(outlook.Seconds(math.MaxInt64)); got != "for ever" {
		t.Errorf("what has no end is written %s", got)
	}
	for f, want := range map[float64]string{0: "0", 0.004: "0.004", 0.33333: "0.33", 1.6666: "1.67", 10: "10", 66.7: "67", 999.6: "1,000", 16750: "16,750", 1234567: "1,234,567"} {
		if got := rate(f); got != want {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
}
