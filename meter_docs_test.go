package eider_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eiderhq/eider/meter"
)

// docs/observability.md has a row for each metric of a Meter, in order, with its type, its label and what it says.
func TestHouseObservabilityPageHasEveryMetric(t *testing.T) {
	var is, said []string
	for _, m := range meter.Metrics() {
		kind, label := "gauge", ""
		if m.Counter {
			kind = "counter"
		}
		if m.Label != "" {
			label = "`" + m.Label + "`"
		}
		is = append(is, strings.Join([]string{m.Name, kind, label, m.Help}, "|"))
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(eider_client_\\w+)` \\| (\\w+) \\| ?(\\S*) \\| (.*) \\|$").FindAllStringSubmatch(read(t, "docs/observability.md"), -1) {
		said = append(said, strings.Join(row[1:], "|"))
	}
	if !slices.Equal(is, said) || len(is) < 10 {
		t.Errorf("the code has\n%s\nthe page has\n%s", strings.Join(is, "\n"), strings.Join(said, "\n"))
	}
}
