package roster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
)

// fake is a registry.Subscription driven by a test.
type fake struct {
	updates chan registry.Update
	ended   chan struct{}
	onAck   func(word)

	mu       sync.Mutex
	acks     []word
	doubts   []eider.Departure
	verdicts []eider.Verdict
}

func newFake() *fake {
	return &fake{updates: make(chan registry.Update, 16), ended: make(chan struct{})}
}

func (f *fake) Next(ctx context.Context) (registry.Update, error) {
	select {
	case u := <-f.updates:
		return u, nil
	case <-f.ended:
		return registry.Update{}, eider.Errorf(eider.Closed, "follow", "the handle is closed")
	case <-ctx.Done():
		return registry.Update{}, ctx.Err()
	}
}

func (f *fake) Ack(at eider.Cursor, letGo, noAlternative []eider.Departure) {
	w := word{at, letGo, noAlternative}
	if f.onAck != nil {
		f.onAck(w)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acks = append(f.acks, w)
}

func (f *fake) Doubt(d eider.Departure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubts = append(f.doubts, d)
}

func (f *fake) Verdicts(changed ...eider.Verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.verdicts = append(f.verdicts, changed...)
}

// told returns what was told of breakers since it was asked last: "a open refused, b closed".
func (f *fake) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, v := range f.verdicts {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", v.ID, v.State, v.Rule)))
	}
	f.verdicts = nil
	return strings.Join(all, ", ")
}

func (f *fake) Close() {}

// last returns the last acknowledgement, as "run:number let go a,b no alternative c"; a!3 is let go of for hold 3.
func (f *fake) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.acks) == 0 {
		return ""
	}
	w := f.acks[len(f.acks)-1]
	text := w.at.String()
	for _, said := range []struct {
		label string
		deps  []eider.Departure
	}{{" let go ", w.letGo}, {" no alternative ", w.noAlternative}} {
		var ids []string
		for _, d := range said.deps {
			id := d.ID
			if d.Hold != 0 {
				id += fmt.Sprint("!", d.Hold)
			}
			ids = append(ids, id)
		}
		if len(ids) > 0 {
			text += said.label + strings.Join(ids, ",")
		}
	}
	return text
}

// world is a test's roster in a bubble, with what feeds it.
type world struct {
	*Roster
	t   *testing.T
	src *fake
	run uint64
	n   uint64
}

// inWorld runs a test in a bubble, with a roster that has begun and is closed at the end.
func inWorld(t *testing.T, c Config, zone string, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		src := newFake()
		w := &world{t: t, src: src, run: 1}
		w.Roster = c.follow("orders", zone, func() (source, error) { return src, nil })
		defer w.Close()
		w.View()
		test(t, w)
	})
}

// push sends a complete view and waits until it is applied and acknowledged.
func (w *world) push(lines ...string) {
	w.t.Helper()
	w.pushView(w.view(lines...))
}

func (w *world) pushView(v *eider.View) {
	w.update(registry.Update{View: v, Connected: true, Heard: time.Now(), Lease: 20 * time.Second})
}

func (w *world) update(u registry.Update) {
	w.src.updates <- u
	synctest.Wait()
}

// view reads lines such as "a UP", "a#2 DRAINING", "a UP beats missed" and "a gone DEAD"; #2 is the
// incarnation, a dot and a number the version, an @ and a text the zone: "a#2.7@east UP"; "a!3 UP" is held, by hold 3.
func (w *world) view(lines ...string) *eider.View {
	w.n++
	v := &eider.View{Service: "orders", Cursor: eider.Cursor{Run: w.run, Number: w.n}, Complete: true}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		name, zone, _ := strings.Cut(name, "@")
		name, held, _ := strings.Cut(name, "!")
		var incarnation, version uint64 = 1, w.n
		if id, of, ok := strings.Cut(name, "#"); ok {
			name = id
			if _, err := fmt.Sscanf(of, "%d.%d", &incarnation, &version); err != nil {
				fmt.Sscanf(of, "%d", &incarnation)
			}
		}
		key := eider.Key{Service: "orders", ID: name}
		in := eider.Incarnation{Number: incarnation, Nonce: nonceOf(name, incarnation)}
		if how, ok := strings.CutPrefix(rest, "gone "); ok {
			status, err := eider.ParseStatus(how)
			if err != nil {
				w.t.Fatal(err)
			}
			v.Gone = append(v.Gone, eider.Gone{ID: name, Incarnation: in, Attachment: 1, Version: version, Status: status})
			continue
		}
		word, doubt, _ := strings.Cut(rest, " ")
		status, err := eider.ParseStatus(word)
		if err != nil {
			w.t.Fatal(err)
		}
		i := eider.Instance{Record: eider.Record{Key: key, Incarnation: in, Attachment: 1, Version: version,
			Status: status, Address: name + ":80", Zone: zone}}
		if held != "" {
			i.Hold = new(eider.Hold)
			fmt.Sscan(held, &i.Hold.Count)
		}
		if err := i.Suspicion.UnmarshalText([]byte(doubt)); err != nil {
			w.t.Fatal(err)
		}
		v.Instances = append(v.Instances, i)
	}
	return v
}

func nonceOf(id string, incarnation uint64) uint64 {
	n := incarnation << 32
	for _, b := range []byte(id) {
		n = n*31 + uint64(b)
	}
	return n
}

// take picks, and fails the test if there is nobody.
func (w *world) take() Choice {
	w.t.Helper()
	c, err := w.Take(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// takeOf picks until it has one of this id. It ends the others after that, else the least loaded would
// be picked again and again.
func (w *world) takeOf(id string) *Choice {
	w.t.Helper()
	for range 1000 {
		c := w.take()
		if c.Instance().ID == id {
			return &c
		}
		defer c.Done(Neutral)
	}
	w.t.Fatalf("%s was never picked", id)
	return nil
}

// picked returns the ids that two hundred picks at a time meet, ordered; the error if there is nobody.
func (w *world) picked() string { return w.pickedBy(200) }

func (w *world) pickedBy(n int) string {
	w.t.Helper()
	var ids []string
	for range n {
		c, err := w.Take(w.t.Context(), nil)
		if err != nil {
			return err.Error()
		}
		if id := c.Instance().ID; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		defer c.Done(Neutral)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

// wait lets time pass, and all that is due happen.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// outcomeOf calls done on a pick of the instance.
func (w *world) outcomeOf(id string, o Outcome) {
	w.t.Helper()
	w.takeOf(id).Done(o)
	synctest.Wait()
}
