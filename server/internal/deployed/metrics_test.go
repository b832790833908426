package deployed

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"go.yaml.in/yaml/v3"

	"github.com/eiderhq/eider/meter"
)

// exported are the metrics that there are, each with its labels: docs/metrics.md is held to a node's own page by a test of
// internal/cli, and the programs' are meter's.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"process_resident_memory_bytes": nil}
	rows := regexp.MustCompile("(?m)^\\| `(eider_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(read(t, docs+"metrics.md"), -1)
	for _, row := range rows {
		name, labels := row[1], regexp.MustCompile(`\w+`).FindAllString(row[3], -1)
		if row[2] == "histogram" {
			all[name+"_count"], all[name+"_sum"], all[name+"_bucket"] = labels, labels, append(labels, "le")
			continue
		}
		all[name] = labels
	}
	for _, m := range meter.Metrics() {
		all[m.Name] = []string{"service", m.Label}
	}
	if len(rows) < 40 {
		t.Fatalf("docs/metrics.md has %d metrics", len(rows))
	}
	return all
}

// asked parses what is asked of Prometheus, and returns the metrics that it names. The parser is one of PromQL and a little
// more, which Prometheus itself would refuse; what it calls by name is held to PromQL's here.
func asked(t *testing.T, where, query string, known map[string][]string) (names []string) {
	t.Helper()
	expr, err := metricsql.Parse(query)
	if err != nil {
		t.Errorf("%s: %s: %v", where, query, err)
		return nil
	}
	var labels []string
	metricsql.VisitAll(expr, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			for _, filters := range e.LabelFilterss {
				for _, f := range filters {
					if f.Label == "__name__" {
						names = append(names, f.Value)
					} else {
						labels = append(labels, f.Label)
					}
				}
			}
		case *metricsql.AggrFuncExpr:
			labels = append(labels, e.Modifier.Args...)
			knownFunction(t, where, e.Name)
		case *metricsql.FuncExpr:
			knownFunction(t, where, e.Name)
		}
	})
	for _, name := range names {
		has, ok := known[name]
		if !ok {
			t.Errorf("%s: %s is no metric", where, name)
			continue
		}
		for _, label := range labels {
			if label != "job" && label != "instance" && !slices.Contains(has, label) {
				t.Errorf("%s: %s has no label %s", where, name, label)
			}
		}
	}
	return names
}

func knownFunction(t *testing.T, where, name string) {
	t.Helper()
	if !slices.Contains([]string{"sum", "min", "max", "count", "rate", "increase", "absent", "histogram_quantile", "time"}, name) {
		t.Errorf("%s: %s is none of the functions of PromQL that are used here", where, name)
	}
}

type rule struct {
	Alert       string
	Expr, For   string
	Labels      map[string]string
	Annotations map[string]string
}

// rules reads the alerts, and every key that Prometheus wouldn't know is a fault.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	d := yaml.NewDecoder(strings.NewReader(read(t, deploy+"prometheus/eider.rules.yaml")))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Each alert is a row of the docs, with its threshold and its time, and each row an alert; it says why, what to do and where
// to read more.
func TestAlerts(t *testing.T) {
	known := exported(t)
	times := map[string]string{"": "", "a minute": "1m", "5 minutes": "5m", "an hour": "1h"}
	said := map[string]string{}
	_, table, _ := strings.Cut(read(t, docs+"metrics.md"), "## What to alert on")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`(?: for ([^|]+?))? \\|").FindAllStringSubmatch(table, -1) {
		said[row[1]] = times[row[2]]
	}
	for _, m := range regexp.MustCompile("`([^`]+)` for\\s+(a minute)").FindAllStringSubmatch(read(t, docs+"observability.md"), -1) {
		said[m[1]] = times[m[2]]
	}
	is, named := map[string]string{}, map[string]bool{}
	for _, r := range rules(t) {
		is[r.Expr] = r.For
		asked(t, r.Alert, r.Expr, known)
		if named[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		named[r.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		for _, key := range []string{"summary", "description", "action", "runbook_url"} {
			if r.Annotations[key] == "" {
				t.Errorf("%s has no %s", r.Alert, key)
			}
		}
		for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(fmt.Sprint(r.Annotations), -1) {
			if !strings.Contains(r.Expr, "by ("+m[1]+")") && !slices.ContainsFunc(asked(t, r.Alert, r.Expr, known), func(name string) bool { return slices.Contains(known[name], m[1]) }) {
				t.Errorf("%s tells of a label %s that what it asks for doesn't have", r.Alert, m[1])
			}
		}
		linked(t, r.Alert, r.Annotations["runbook_url"])
	}
	for expr, length := range said {
		if got, ok := is[expr]; !ok || got != length {
			t.Errorf("the docs alert on %s for %q; the rule is there: %t, for %q", expr, length, ok, got)
		}
	}
	for expr := range is {
		if _, ok := said[expr]; !ok {
			t.Errorf("the rule %s isn't in the docs", expr)
		}
	}
}

// linked holds a link into this repository's docs to what is there.
func linked(t *testing.T, where, url string) {
	t.Helper()
	file, anchor, _ := strings.Cut(strings.TrimPrefix(url, "https://github.com/eiderhq/eider/blob/main/"), "#")
	text, err := os.ReadFile("../../../" + file)
	if err != nil {
		t.Errorf("%s: %s leads nowhere", where, url)
		return
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		id := strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		if anchor == "" || id == anchor {
			return
		}
	}
	t.Errorf("%s: %s has no heading %s", where, file, anchor)
}

type target struct{ Expr, LegendFormat, RefID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []target
}

type board struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct{ List []struct{ Name, Type string } }
	Panels        []panel
}

func dashboard(t *testing.T) (b board) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, deploy+"grafana/eider.json")), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// The dashboard asks for metrics that exist, names in its legends labels that come back, and its panels don't lie on top of
// each other.
func TestDashboard(t *testing.T) {
	b, known := dashboard(t), exported(t)
	if b.Title == "" || b.UID == "" || b.SchemaVersion < 36 || len(b.Panels) < 15 || len(b.Templating.List) != 2 {
		t.Fatalf("%s: schema %d, %d panels, %d variables", b.Title, b.SchemaVersion, len(b.Panels), len(b.Templating.List))
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d, %q: its id or its title isn't its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s: lies at %+v, outside of 24 columns", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: says nothing of itself, asks nothing, or not the datasource that was chosen", p.Title)
		}
		for _, one := range p.Targets {
			query := strings.NewReplacer("$__rate_interval", "5m", "$service", "orders").Replace(one.Expr)
			asked(t, p.Title, query, known)
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(one.LegendFormat, -1) {
				grouped := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(query)
				if grouped == nil && strings.HasPrefix(query, "eider_") {
					continue // asked without grouping: asked has seen its labels, or its name has none
				}
				if grouped == nil || !slices.Contains(strings.Split(grouped[1], ", "), m[1]) {
					t.Errorf("%s: its legend has %s, which doesn't come back from %s", p.Title, m[1], query)
				}
			}
		}
	}
}

// unseen are metrics that neither the dashboard nor an alert looks at, and why: a new one is looked at, or stands here.
var unseen = map[string]string{
	"eider_node_info":                 "who a node is, to be joined with others",
	"eider_drain_pause_seconds_sum":   "the quantiles say more",
	"eider_tls_handshakes_total":      "for whoever tunes clients",
	"eider_disk_pieces":               "its bytes are shown",
	"eider_fleet_tells_total":         "load of a mechanism, in docs/fleet.md",
	"eider_fleet_swaps_total":         "likewise",
	"eider_fleet_swaps_refused_total": "likewise",
	"eider_fleet_full_total":          "likewise; callers say it by eider_client_fleet_parted",
}

func TestEveryMetricOfTheRegistryIsLookedAt(t *testing.T) {
	known, seen := exported(t), map[string]bool{}
	for _, r := range rules(t) {
		for _, name := range asked(t, r.Alert, r.Expr, known) {
			seen[name] = true
		}
	}
	for _, p := range dashboard(t).Panels {
		for _, one := range p.Targets {
			for _, name := range asked(t, p.Title, strings.NewReplacer("$__rate_interval", "5m", "$service", "orders").Replace(one.Expr), known) {
				seen[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, out := unseen[name]; out == seen[name] && !strings.HasPrefix(name, "eider_client_") {
			t.Errorf("%s: is seen: %t; is among the unseen: %t", name, seen[name], out)
		}
	}
}
