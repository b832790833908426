package window_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiderhq/eider/window"
)

func TestParse(t *testing.T) {
	steps := window.Steps{First: 50 * ms, Ceiling: 2 * s, Factor: 2, Jitter: 1, Failures: 5}
	for text, want := range map[string]window.Term{
		"sync=1s":                          window.Fixed("sync", s, "given"),
		" sync = fixed( 1s ) ":             window.Fixed("sync", s, "given"),
		"dns=0s..30s":                      window.Uniform("dns", 0, 30*s, "given"),
		"lease=uniform(60s,90s)":           window.Uniform("lease", 60*s, 90*s, "given"),
		"client cache=uniform(0, 1m30s)":   window.Uniform("client cache", 0, 90*s, "given"),
		"reconnect=backoff(50ms,2s,2,1,5)": window.Backoff("reconnect", steps, "given"),
		"push=histogram(0s..10ms:99, 5s..6s:0.9, 8s:0.1)": window.Histogram("push", []window.Bucket{
			{From: 0, To: 10 * ms, Weight: 99}, {From: 5 * s, To: 6 * s, Weight: 0.9}, {From: 8 * s, To: 8 * s, Weight: 0.1}}, "given"),
	} {
		got, err := window.Parse(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Parse(%q): %v\n%s", text, err, diff)
		}
	}
	push, _ := window.Parse("push=histogram(1s:1, 0s..10ms:99, 1h:0)")
	if push.Min != 0 || push.Max != s {
		t.Errorf("a histogram from 0s to 1s, and an hour that never happens, is %s", push)
	}
	if b := window.Backoff("b", steps, ""); b.Min != 0 || b.Max != 1600*ms {
		t.Errorf("the wait after five failures is up to 1.6s, not %s", b)
	}
}

func TestParseSaysWhatIsWrongAndTheForms(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  `no "="`,
		"lease":                             `no "="`,
		"=1s":                               "from 1 to 100 printable",
		"a\x00b=1s":                         "from 1 to 100 printable",
		strings.Repeat("x", 101) + "=1s":    "from 1 to 100 printable",
		"a=" + strings.Repeat("1s", 40_000): "can't have more than 65536",
		"lease=60":                          `"60" is no delay`,
		"lease=":                            `"" is no delay`,
		"lease=90s..60s":                    "worst case 1m0s is below its best case 1m30s",
		"lease=-1s":                         "between 0s and 8784h0m0s, and -1s doesn't",
		"lease=8785h":                       "between 0s and 8784h0m0s",
		"lease=gauss(1s,2s)":                `no form "gauss"`,
		"lease=uniform(1s,2s":               `no ")" at the end`,
		"lease=uniform(1s)":                 "uniform takes two delays",
		"lease=uniform(x,y)":                `"y" is no delay`,
		"lease=fixed(1s,2s)":                "fixed takes one delay",
		"r=backoff(50ms,2s,2,1)":            "backoff takes five values, not 4",
		"r=backoff(2s,1s,2,1,0)":            "the ceiling 1s is below the first wait 2s",
		"r=backoff(1s,2s,0.5,2,1.5)":        `the factor "0.5" isn't a number from 1 to 1e+06`,
		"r=backoff(1s,2s,1,2,1.5)":          `the jitter "2" isn't a number from 0 to 1`,
		"r=backoff(1s,2s,1,1,1.5)":          "number of failures 1.5 isn't whole",
		"r=backoff(1s,2s,NaN,NaN,-1)":       `the jitter "NaN"`,
		"p=histogram()":                     `the bucket "" has no weight`,
		"p=histogram(1s)":                   `the bucket "1s" has no weight`,
		"p=histogram(1s:-1)":                `the weight "-1" isn't a number from 0`,
		"p=histogram(1s:Inf)":               `the weight "Inf" isn't a number`,
		"p=histogram(x:1)":                  `"x" is no delay`,
		"p=histogram(1s:0,2s:0)":            "none of its buckets has a weight",
		"p=histogram(2s..1s:1)":             "ends before it begins",
		"p=histogram(" + strings.Repeat("1s:1,", 1000) + "1s:1)": "a histogram of 1001 buckets",
	} {
		got, err := window.Parse(text)
		if err == nil {
			t.Errorf("Parse(%.60q) = %s", text, got)
			continue
		}
		if said := err.Error(); !strings.Contains(said, want) || len(text) < 60_000 && !strings.Contains(said, "histogram(0s..10ms:99,5s:1)") || len(said) > 1_500 {
			t.Errorf("Parse(%.60q) says %q, want %q and the forms", text, said, want)
		}
	}
}

// Whatever a stranger writes is an error or a term that can be reckoned with.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"sync=1s", "a=fixed(0s)", "lease=uniform(60s,90s)", "dns=0s..30s", "r=backoff(50ms,2s,2,1,5)", "r=backoff(0s,8784h,1e6,0.3,1000000)",
		"push=histogram(0s..10ms:99,5s..6s:1)", "p=histogram(1s:1e15,1ns:1e-300)", "=", "a=(", "a=histogram(:,:)", "a=..", "a=1s..1s..1s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		term, err := window.Parse(text)
		if err != nil {
			if len(err.Error()) > 70_000 {
				t.Errorf("an error of %d characters", len(err.Error()))
			}
			return
		}
		if err := term.Check(); err != nil || term.Min < 0 || term.Max > 366*24*time.Hour {
			t.Fatalf("%s: %v", term, err)
		}
		spread, last := window.Sum{term, term}.Spread(0), time.Duration(0)
		for _, p := range []float64{0, 0.01, 0.5, 0.99, 1} {
			q := spread.Quantile(p)
			if q < last || q < 2*term.Min || q > 2*term.Max {
				t.Fatalf("%s: quantile %v is %s after %s", term, p, q, last)
			}
			last = q
		}
		if m := term.Mean(); m < term.Min || m > term.Max {
			t.Fatalf("%s: mean %s", term, m)
		}
	})
}
