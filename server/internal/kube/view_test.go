package kube

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The conditions of an endpoint, and what a departure makes of them.
func TestConditions(t *testing.T) {
	yes, no := new(true), new(false)
	for _, c := range []struct {
		ready, serving, terminating *bool
		want                        digest
	}{
		{nil, nil, nil, digest{ready: 1}}, // nil is true, true, false
		{yes, yes, no, digest{ready: 1}},
		{no, no, no, digest{leaving: 1}},   // ill
		{no, yes, yes, digest{leaving: 1}}, // a lame duck
		{no, no, yes, digest{leaving: 1}},
		{yes, yes, yes, digest{forced: 1}}, // publishNotReadyAddresses
		{yes, no, no, digest{ready: 1, forced: 1}},
		{nil, nil, yes, digest{forced: 1}},
	} {
		e := endpoint{Addresses: []string{"10.0.0.9"}}
		e.Conditions.Ready, e.Conditions.Serving, e.Conditions.Terminating = c.ready, c.serving, c.terminating
		got, ours := identity{ip: "10.0.0.9"}.in(slice{Endpoints: []endpoint{e}}, "")
		if got != c.want || !ours {
			t.Errorf("%v: %+v, want %+v", c, got, c.want)
		}
		got, ours = identity{ip: "10.0.0.8"}.in(slice{Endpoints: []endpoint{e}}, "")
		if want := c.want.ready; got.others != want || got.ready+got.leaving+got.forced > 0 || ours {
			t.Errorf("%v is somebody else: %+v", c, got)
		}
	}
}

// Beside a model: a pod is out when each slice has it out, wherever the changes came from and in whatever order.
func TestSightBesideAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen sight
		model := map[string]digest{}
		ever := map[string]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			name := fmt.Sprint("s", rapid.IntRange(0, 5).Draw(t, "slice"))
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				seen.drop(name)
				delete(model, name)
				continue
			}
			few := rapid.IntRange(0, 1)
			d := digest{service: rapid.SampledFrom([]string{"orders", "peers"}).Draw(t, "service"), ready: few.Draw(t, "ready"), leaving: few.Draw(t, "leaving"),
				forced: few.Draw(t, "forced"), others: few.Draw(t, "others")}
			ours := d.ready+d.leaving+d.forced > 0
			if err := seen.put(name, d, ours); err != nil {
				t.Fatal(err)
			}
			model[name] = d
			if ours {
				ever[d.service] = true
			}
		}
		out, others, in := len(ever) > 0, map[string]int{}, map[string]bool{}
		for _, d := range model {
			out = out && d.ready == 0
			others[d.service] += d.others
			in[d.service] = in[d.service] || d.ready+d.leaving+d.forced > 0
		}
		v := seen.judge()
		if v.out() != out || v.any != (len(model) > 0) || len(v.services) != len(ever) {
			t.Fatalf("%+v of %+v", v, model)
		}
		for service := range ever {
			if alone := in[service] && others[service] == 0; slices.Contains(v.alone, service) != alone {
				t.Fatalf("%s: alone %v of %+v", service, v.alone, model)
			}
		}
	})
}

// The pause ends, never before what it waits for, and never beyond the grace's room, whatever comes.
func TestPauseLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pause{}
		if err := p.derive(nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := p.budget(Config{Grace: 60 * s, Getenv: func(string) string { return "" }}); err != nil {
			t.Fatal(err)
		}
		now := 0 * s
		for range rapid.IntRange(0, 30).Draw(t, "news") {
			now += time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * ms
			if now >= p.end().at {
				break
			}
			v := view{any: true}
			if rapid.Bool().Draw(t, "named") {
				v.services = []string{"orders"}
				v.slices = 1
				v.ready = rapid.IntRange(0, 1).Draw(t, "ready")
				if rapid.Bool().Draw(t, "alone") {
					v.alone = v.services
				}
			}
			p.heard(news{view: v}, now)
			if rapid.Bool().Draw(t, "away") {
				p.heard(news{fault: &trouble{err: fmt.Errorf("away")}}, now)
			}
			e := p.end()
			if e.at > p.room.Worst() || e.at <= 0 {
				t.Fatalf("it ends at %s", e.at)
			}
			switch {
			case v.ready > 0 && e.by != byGrace && e.at < now+p.whole.Worst():
				t.Fatalf("ready at %s, and over at %s", now, e.at)
			case v.out() && e.by != byGrace && (e.by != byRest || e.at < p.out+p.rest.Worst()):
				t.Fatalf("out since %s, and over at %s", p.out, e.at)
			}
			if p.String() == "" || p.report(e.at, e.by).Line == "" {
				t.Fatal("nothing is said")
			}
		}
	})
}
