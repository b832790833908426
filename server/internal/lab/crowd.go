package lab

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/registry"
	"github.com/eiderhq/eider/roster"
)

// playCrowd is a process of many callers, each with a handle, a connection and rosters of its own: as many processes
// as callers would only measure the machine.
func playCrowd(ctx context.Context, r role, tell *teller, log *slog.Logger) error {
	var wg sync.WaitGroup
	errs := make([]error, r.Crowd)
	for i := range r.Crowd {
		own := r
		own.Play, own.Seed, own.ID = "caller", r.Seed+uint64(i), fmt.Sprintf("%s.%d", r.ID, i)
		wg.Go(func() { errs[i] = playCaller(ctx, own, tell, log) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// journal is what one caller of a crowd writes down by incarnation (see nameOf), to be held
// against what instances say of their own departures.
type journal struct {
	who string // the caller's id, as drains name it
	ros *roster.Roster

	mu    sync.Mutex
	known map[string]bool
	tries map[string]int64 // when the last try there began
	lost  map[string]loss
}

func keepJournal(reg *registry.Registry, service string) *journal {
	j := &journal{who: reg.Caller(), known: map[string]bool{}, tries: map[string]int64{}, lost: map[string]loss{}}
	j.ros = roster.Config{Applied: func(*eider.View) { j.look() }}.Follow(reg, service)
	j.ros.View()
	return j
}

// loss is an incarnation that a roster no longer has, and what the roster says of its id instead.
type loss struct {
	At   int64  `json:"at"` // Unix ns
	Text string `json:"text"`
}

func instead(view *eider.View, name string) string {
	id, _, _ := strings.Cut(name, "@")
	text := "view " + view.Cursor.String()
	if !view.Complete {
		text += ", incomplete"
	}
	if in, ok := view.Find(id); ok {
		text += fmt.Sprintf(": it has %s, %s", nameOf(id, in.Incarnation), in.Status)
	}
	for _, g := range view.Gone {
		if g.ID == id {
			text += fmt.Sprintf(": %s is %s", nameOf(id, g.Incarnation), g.Status)
		}
	}
	return text
}

func (j *journal) look() {
	j.mu.Lock()
	defer j.mu.Unlock()
	view := j.ros.View().View // under the lock, or an older view could be written down after a newer one
	if view == nil {
		return
	}
	now, there := time.Now().UnixNano(), map[string]bool{}
	for _, in := range view.Instances {
		there[nameOf(in.ID, in.Incarnation)] = true
	}
	for to := range j.known {
		if !there[to] {
			j.lost[to] = loss{At: now, Text: instead(view, to)}
		}
	}
	j.known = there
}

// page takes what was written since the last one.
func (j *journal) page() (tries map[string]int64, lost map[string]loss) {
	j.look()
	j.mu.Lock()
	defer j.mu.Unlock()
	tries, lost = j.tries, j.lost
	j.tries, j.lost = map[string]int64{}, map[string]loss{}
	return tries, lost
}

// journalled sees each try before it is made.
type journalled struct {
	j    *journal
	next http.RoundTripper
}

func (w journalled) RoundTrip(req *http.Request) (*http.Response, error) {
	if to := req.Header["Eider-To"]; len(to) == 1 {
		name := nameOfHeader(to[0])
		w.j.mu.Lock()
		w.j.tries[name] = time.Now().UnixNano()
		w.j.mu.Unlock()
	}
	return w.next.RoundTrip(req)
}
