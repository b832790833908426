package balancers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider/window"
)

func TestKnown(t *testing.T) {
	worst := map[string]time.Duration{"alb": 30 * time.Second, "nlb": 30 * time.Second, "gce": 30 * time.Second, "agic": 90 * time.Second,
		"nginx": 10*time.Second/3 + time.Second, "istio": 10 * time.Second, "aws-local": 30 * time.Second, "gce-local": 24 * time.Second}
	for _, b := range Known() {
		if b.Terms.Worst() != worst[b.Name] || b.About == "" || b.Behind != strings.HasSuffix(b.Name, "-local") {
			t.Errorf("%s: %s, behind the nodes: %v; want %s", b.Name, b.Terms, b.Behind, worst[b.Name])
		}
		if err := b.Terms.Check(); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		for _, term := range b.Terms {
			if term.Source == "" {
				t.Errorf("%s: nobody knows where %s comes from", b.Name, term)
			}
		}
		delete(worst, b.Name)
	}
	if len(worst) > 0 {
		t.Errorf("there are none of %v", worst)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"alb":                            "alb 30s",
		" ALB , nginx,":                  "alb 30s, nginx 4.333333333s",
		"alb=45s":                        "alb 45s",
		"gce-local=40s":                  "gce-local 40s behind",
		"mesh=uniform(0s,7s),istio":      "mesh 7s, istio 10s",
		"mesh=0s..7s,own=fixed(2s),nlb":  "mesh 7s, own 2s, nlb 30s",
		"x=backoff(50ms,2s,2,1,5),agic ": "x 1.6s, agic 1m30s",
	} {
		all, faults := Parse(text)
		var got []string
		for _, b := range all {
			said := b.Name + " " + b.Terms.Worst().String()
			if b.Behind {
				said += " behind"
			}
			got = append(got, said)
		}
		if strings.Join(got, ", ") != want || len(faults) > 0 {
			t.Errorf("%q: %q, %v; want %q", text, got, faults, want)
		}
	}
}

// Everything that is wrong is named, and what is right counts nevertheless.
func TestParseNamesEachFault(t *testing.T) {
	all, faults := Parse("abl,alb,x=never,(")
	err := errors.Join(faults...)
	if len(all) != 1 || all[0].Name != "alb" || len(faults) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, want := range []string{`no load balancer "abl" is known; did you mean alb?`, "There are: alb, nlb, gce", "abl=30s", `"never" is no delay`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// What reads a person's word has no end that a stranger finds.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"alb,nginx", "mesh=uniform(0s,7s)", "((,", "a=b=c", "=", ",,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, _ := Parse(text)
		if slices.ContainsFunc(all, func(b Balancer) bool { return b.Name == "" || b.Terms.Check() != nil }) {
			t.Errorf("%q: %v", text, all)
		}
		if sum := (window.Sum{}); len(all) > 0 && all[0].Terms.Worst() < sum.Worst() {
			t.Errorf("%q: %v", text, all)
		}
	})
}
