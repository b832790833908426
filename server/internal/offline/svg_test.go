package offline

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/eiderhq/eider/server/internal/outlook"
	"github.com/eiderhq/eider/window"
)

// The folder of the documents, and their pictures with the command that draws each.
const docs = "../../../docs"

func pictures() map[string]string {
	return map[string]string{
		"window-eureka.svg":  "--compare eureka-textbook,eureka",
		"window-tuned.svg":   "--preset eureka --what-if client-cache=5s --what-if response-cache=5s --what-if load-balancer-cache=5s",
		"window-void.svg":    "--preset eureka --instances 5",
		"window-systems.svg": "--compare eureka,dns,consul-ttl,kubernetes,eider",
	}
}

// TestPicturesAreWhatTheCommandDraws, and docs/window.md shows each.
func TestPicturesAreWhatTheCommandDraws(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "window.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range pictures() {
		out, err := place{}.run(line + " --svg -")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join(docs, "pictures", name), []byte(out))
		if !strings.Contains(string(page), "(pictures/"+name+")") {
			t.Errorf("docs/window.md doesn't show %s", name)
		}
	}
}

// TestAPictureIsAFile that any reader of XML takes, whatever it is of, with each source at its bar.
func TestAPictureIsAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "window.svg")
	for _, line := range []string{"", "--preset eureka", "--preset eureka --instances 5 --what-if lease=30s", "--compare etcd,dns", "--term a=0s", "--term '<&>\"=1s..2s'", "--term long=8000h", "--crash-term a=1ns"} {
		out, err := place{}.run(line + " --svg " + name)
		if err != nil || out == "" {
			t.Fatalf("eider window %s --svg: %v, and it answers %q; want the table too", line, err, out)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := place{}.run(line + " --svg -")
		if err != nil || alone != string(text) {
			t.Errorf("eider window %s --svg - writes another picture (%v)", line, err)
		}
		wellFormed(t, line, string(text))
	}
	text, err := os.ReadFile(filepath.Join(docs, "pictures", "window-eureka.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"prefers-color-scheme:dark", "<title>load-balancer cache, 0s to 35s: eureka.load-balancer-cache = 35s: LoadBalancerCacheProperties ttl</title>", `role="img"`, "aria-label=\"How long a departed instance is still called."} {
		if !strings.Contains(string(text), part) {
			t.Errorf("window-eureka.svg has no %s", part)
		}
	}
	if _, err := (place{}).run("--preset etcd --svg " + filepath.Join(t.TempDir(), "no", "such")); err == nil || !strings.Contains(err.Error(), "--svg") || strings.Count(err.Error(), "no/such") != 1 {
		t.Errorf("a folder that isn't there: %v", err)
	}
}

// TestAColourIsAKinds: each term of each preset has the colour of its kind, in whatever picture, and no legend has a
// colour twice.
func TestAColourIsAKinds(t *testing.T) {
	for _, p := range window.Presets() {
		sets := []map[string]string{nil}
		for _, s := range p.Settings { // a switch or a count turned has other terms
			switch s.Default.Kind {
			case window.KindSwitch:
				sets = append(sets, map[string]string{s.Name: map[bool]string{true: "off", false: "on"}[s.Default.On]})
			case window.KindCount:
				sets = append(sets, map[string]string{s.Name: strconv.Itoa(s.Default.Count + 1)})
			default:
				sets = append(sets, map[string]string{s.Name: (s.Default.Duration + s.Default.Duration/4 + 2e9).String()})
			}
		}
		for _, set := range sets {
			f, err := p.Derive(set, window.Fleet{})
			if err != nil {
				continue // a setting that no fleet could have
			}
			for _, term := range append(f.Planned.Terms, f.Crash.Terms...) {
				if !slices.ContainsFunc(kinds(), func(k kind) bool { return slices.Contains(k.terms, term.Name) }) {
					t.Errorf("%s, %v: %q is of no kind", p.Name, set, term.Name)
				}
			}
		}
	}
	for _, line := range []string{"", "--preset eureka", "--term a=1s --term lease=2s --term b=1s --term c=1s --term d=1s --term e=1s --term f=1s"} {
		out, err := place{}.run(line + " --svg -")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`<rect class="(c\d+)" x="[\d.]+" y="[\d.]+" width="12" height="12" rx="3"/><text`).FindAllStringSubmatch(out, -1) {
			if seen[m[1]] {
				t.Errorf("eider window %s: the legend has %s twice", line, m[1])
			}
			seen[m[1]] = true
		}
		if len(seen) == 0 || !strings.Contains(out, `<rect class="c0"`) || strings.Contains(out, "class=\"c-1") {
			t.Errorf("eider window %s: the legend has %v; a lease is c0 in every picture", line, seen)
		}
	}
}

func wellFormed(t *testing.T, line, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("eider window %s: the picture is no XML: %v", line, err)
			return
		}
	}
}

// TestBarsAddUp: whatever terms there are, a picture's bars stand behind one another in order, within the picture, and as
// wide as they are long.
func TestBarsAddUp(t *testing.T) {
	rect := regexp.MustCompile(`<rect class="c\d+" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="28"`)
	rapid.Check(t, func(t *rapid.T) {
		var w outlook.Path
		for i, d := range rapid.SliceOfN(rapid.Int64Range(1, 1e12), 1, 12).Draw(t, "terms") {
			w.Terms = append(w.Terms, outlook.Term{Name: "term " + strconv.Itoa(i), Max: outlook.Seconds(d)})
			w.Worst += outlook.Seconds(d)
		}
		bars := rect.FindAllStringSubmatch(picture([]outlook.Outlook{{Title: "x", Planned: w}}), -1)
		if len(bars) != len(w.Terms) {
			t.Fatalf("%d bars for %d terms", len(bars), len(w.Terms))
		}
		sum, end := 0.0, float64(barsFrom)
		for i, bar := range bars {
			x, _ := strconv.ParseFloat(bar[1], 64)
			width, _ := strconv.ParseFloat(bar[3], 64)
			want := barsFrom + sum/float64(w.Worst)*(barsTo-barsFrom)
			sum += float64(w.Terms[i].Max)
			long := max(float64(w.Terms[i].Max)/float64(w.Worst)*(barsTo-barsFrom)-1, 1.5)
			if math.Abs(x-want) > 0.1 || math.Abs(width-long) > 0.11 || x < end-2.6 || x+width > barsTo+2 {
				t.Fatalf("bar %d begins at %v and is %v wide, want %v and %v", i, x, width, want, long)
			}
			end = x + width
		}
	})
}

// TestAStaircaseFits: bars of a table end where the longest does, and are never nothing.
func TestAStaircaseFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before, sum outlook.Seconds
		terms := rapid.SliceOfN(rapid.Int64Range(1, 1e12), 1, 12).Draw(t, "terms")
		for _, d := range terms {
			sum += outlook.Seconds(d)
		}
		longest := sum + outlook.Seconds(rapid.Int64Range(0, 1e12).Draw(t, "more"))
		width := rapid.SampledFrom([]int{barWidth / 2, barWidth}).Draw(t, "width")
		for _, d := range terms {
			b := bar(before, outlook.Seconds(d/2), outlook.Seconds(d), longest, width)
			if n := utf8.RuneCountInString(b); n > width || strings.TrimSpace(b) == "" {
				t.Fatalf("%q is %d wide, of %d", b, n, width)
			}
			before += outlook.Seconds(d)
		}
		if longest == sum {
			if s := stripe(sum, longest, width); utf8.RuneCountInString(s) != width {
				t.Fatalf("the longest is %q", s)
			}
		}
	})
}

// TestANarrowTerminal: nothing is ever wider than the terminal.
func TestANarrowTerminal(t *testing.T) {
	for _, width := range []int{80, 100, 120, 160} {
		for _, line := range []string{"", "--preset eureka", "--preset kubernetes", "--compare eureka,kubernetes,eider", "--preset eureka --what-if lease=30s"} {
			out, err := place{width: width}.run(line)
			if err != nil {
				t.Fatal(err)
			}
			for row := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(row, "\n")); n > width {
					t.Errorf("eider window %s: %d columns on a terminal of %d: %s", line, n, width, row)
				}
			}
		}
	}
}
