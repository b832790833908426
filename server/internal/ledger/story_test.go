package ledger

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiderhq/eider"
)

var update = flag.Bool("update", false, "write what the stories tell as what they should tell")

// TestStories runs the scripts of testdata and compares what they tell with what they told.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tellStory(t, string(script))
			golden := strings.TrimSuffix(file, ".txt") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v (run with -update to write it)", err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the story has changed (-was +is):\n%s", diff)
			}
		})
	}
}

func tellStory(t *testing.T, script string) string {
	w := newWorld(t, Config{Node: "a", Fresh: !strings.HasPrefix(script, "# cold")})
	for number, text := range strings.Split(script, "\n") {
		words := strings.Fields(text)
		if len(words) == 0 || strings.HasPrefix(text, "#") {
			if text != "" {
				fmt.Fprintln(&w.log, text)
			}
			continue
		}
		fmt.Fprintf(&w.log, "> %s\n", text)
		verb := verbs[words[0]]
		if verb == nil {
			verb = timed[words[0]]
		}
		if verb == nil {
			t.Fatalf("line %d: %q is no verb", number+1, words[0])
		}
		if err := verb(w, words[1:]); err != nil {
			fmt.Fprintf(&w.log, "  error (%s): %v\n", eider.KindOf(err), err)
		}
	}
	return w.log.String()
}

// verbs are the words of a story. Arguments like status=DOWN may stand at the end.
var verbs = map[string]func(w *world, args []string) error{
	"attach": func(w *world, a []string) error {
		if len(a) > 1 {
			w.actor(a[0]).addr = netip.MustParseAddr(a[1])
		}
		w.attach(a[0])
		return nil
	},
	"register": func(w *world, a []string) error {
		_, err := w.register(a[0], a[1], a[2], func(r *eider.Record) { changeRecord(r, a[3:]) })
		return err
	},
	"silence": func(w *world, a []string) error { w.actor(a[0]).beats = false; return nil },
	"beat": func(w *world, a []string) error {
		w.actor(a[0]).beats = true
		w.saw(w.tb.Beat(w.now, w.actor(a[0]).session))
		return nil
	},
	"status": func(w *world, a []string) error {
		status, _ := eider.ParseStatus(a[2])
		fx, err := w.tb.SetStatus(w.now, w.actor(a[0]).session, key(a[1]), status)
		w.saw(fx)
		return err
	},
	"leave": func(w *world, a []string) error {
		fx, err := w.tb.Leave(w.now, w.actor(a[0]).session, key(a[1]), 0)
		w.saw(fx)
		return err
	},
	"left": func(w *world, a []string) error {
		fx, err := w.tb.Left(w.now, w.actor(a[0]).session, key(a[1]))
		w.saw(fx)
		return err
	},
	"lose": func(w *world, a []string) error { w.detach(a[0], Lost); return nil },
	"move": func(w *world, a []string) error { w.detach(a[0], Moving); return nil },
	"kill": func(w *world, a []string) error { w.kill(a[0]); return nil },
	"port": func(w *world, a []string) error {
		w.ports[a[0]] = map[string]Answer{"accepts": Accepted, "refuses": Refused, "silent": NoAnswer}[a[1]]
		return nil
	},
	"follow": func(w *world, a []string) error { w.follow(a[0], a[1:]...); return nil },
	"unfollow": func(w *world, a []string) error {
		w.unfollow(a[0], Lost)
		return nil
	},
	"unsubscribe": func(w *world, a []string) error {
		w.saw(w.tb.Unsubscribe(w.now, w.actor(a[0]).follower, a[1]))
		return nil
	},
	"goodbye": func(w *world, a []string) error {
		w.saw(w.tb.Goodbye(w.now, w.actor(a[0]).follower))
		return nil
	},
	"letgo": func(w *world, a []string) error { w.letGo(a[0], a[1:]...); return nil },
	"noalternative": func(w *world, a []string) error {
		w.saw(w.tb.Ack(w.now, w.actor(a[0]).follower, key(a[1]).Service, 1, nil, []eider.Departure{w.departure(a[1])}))
		return nil
	},
	"doubt": func(w *world, a []string) error {
		w.saw(w.tb.Doubt(w.now, w.actor(a[0]).follower, w.departure(a[1])))
		return nil
	},
	"advance": func(w *world, a []string) error {
		d, err := time.ParseDuration(a[0])
		w.advance(d)
		return err
	},
	"pause": func(w *world, a []string) error {
		d, err := time.ParseDuration(a[0])
		w.now = w.now.Add(d)
		for _, a := range w.processes {
			a.beaten = w.now
		}
		return err
	},
	"views": func(w *world, a []string) error { w.writeView(a[0]); return nil },
	"drains": func(w *world, _ []string) error {
		for _, d := range w.tb.Drains("") {
			fmt.Fprintf(&w.log, "  %s %s reached=%t after %s, %d of %d open, bound %s\n", d.Key, d.Status, d.Reached, d.Barrier, d.Open, d.Total, d.Bound)
			for _, m := range d.Members {
				fmt.Fprintf(&w.log, "    %s\n", m)
			}
		}
		return nil
	},
	"void": func(w *world, _ []string) error {
		for _, text := range w.tb.Void() {
			fmt.Fprintf(&w.log, "  %s\n", text)
		}
		return nil
	},
	"services": func(w *world, _ []string) error {
		for _, s := range w.services() {
			fmt.Fprintf(&w.log, "  %s up=%d suspect=%d starting=%d down=%d draining=%d gone=%d callers=%d\n", s.Service, s.Up, s.Suspect, s.Starting, s.Down, s.Draining, s.Gone, s.Callers)
		}
		return nil
	},
	"callers": func(w *world, a []string) error {
		for _, c := range w.callers(a[0]) {
			fmt.Fprintf(&w.log, "  %s %s stream=%t cap %s\n", c.Service, c.ID, c.Stream, c.Cap)
		}
		return nil
	},
}

func changeRecord(r *eider.Record, changes []string) {
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		number, _ := strconv.ParseUint(value, 10, 64)
		switch name {
		case "status":
			r.Status, _ = eider.ParseStatus(value)
		case "zone":
			r.Zone = value
		case "attachment":
			r.Attachment = number
		case "number":
			r.Incarnation.Number = number
		case "nonce":
			r.Incarnation.Nonce = number
		}
	}
}

func (w *world) writeView(service string) {
	instances, gone := w.tb.View(service)
	for _, in := range instances {
		fmt.Fprintf(&w.log, "  %s %s %s %s attachment %d version %d", in.Key, in.Status, in.Address, in.Incarnation, in.Attachment, in.Version)
		if in.Suspicion != 0 {
			fmt.Fprintf(&w.log, " (%s)", in.Suspicion)
		}
		fmt.Fprintln(&w.log)
	}
	for _, g := range gone {
		fmt.Fprintf(&w.log, "  %s/%s %s %s\n", service, g.ID, g.Status, g.Incarnation)
	}
}
